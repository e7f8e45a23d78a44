package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

// Exit codes.
const (
	exitOK       = 0
	exitRuntime  = 1
	exitUsage    = 2
	exitDevice   = 3
	exitDiverged = 4   // the run went on to its end, but its loss is not a number
	exitSignal   = 128 // plus the signal's number
)

// usageError marks what the user typed as the reason.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// misuse marks err as the fault of what the user typed.
func misuse(err error) error { return usageError{err} }

// refuse returns the error of a flag's value that is not accepted.
func refuse(flag, reason, hint string) error {
	return misuse(errs.New("set", flag, reason, hint))
}

// signalError says that a signal ended the run; it is not printed.
type signalError struct{ os.Signal }

func endedBy(s os.Signal) error { return signalError{s} }

func (e signalError) Error() string { return "ended by " + e.String() }

// divergedError says that a run came to its end and its training did not. The
// summary tells so; it is not printed again.
type divergedError struct{ step int32 }

func (e divergedError) Error() string {
	return fmt.Sprintf("the training diverged at step %d; lower --lr", e.step)
}

// diverged is the error of a run whose loss broke, nil for any other.
func diverged(s *trace.Snapshot) error {
	if s.Diverged > 0 {
		return divergedError{s.DivergedAt}
	}
	return nil
}

// codeError is an error with an exit code of its own: that of a script.
type codeError interface {
	error
	ExitCode() int
}

// exitCode is the one place where an error becomes an exit code.
func exitCode(err error) int {
	var usage usageError
	var sig signalError
	var own codeError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &sig):
		if n, ok := sig.Signal.(syscall.Signal); ok {
			return exitSignal + int(n)
		}
		return exitRuntime
	case errors.As(err, &own):
		return own.ExitCode()
	case errors.As(err, &usage), errors.Is(err, device.ErrUnsupported):
		return exitUsage
	case errors.Is(err, device.ErrNoDevice):
		return exitDevice
	case errors.As(err, new(divergedError)):
		return exitDiverged
	}
	return exitRuntime
}

// explain is what JSON says of an error, beside its sentence.
func explain(err error) *errs.Error {
	f := errs.Explain(errs.Wrap(err, "run", "gpustall", "run it again; gpustall doctor says what this machine has"))
	return &f
}

// summarised says that a summary which tells of the error was printed.
type summarised struct{ error }

func tellsOf(err error) error { return summarised{err} }

func (e summarised) Unwrap() error { return e.error }

// asksJSON reports whether the command line asks for output that ends in a summary, be
// the rest of it right or not. What stands behind -- is a script's.
func asksJSON(command string, args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains([]string{"run", "tune", "torch"}, command) && (slices.Contains(args, "--json") || slices.Contains(args, "--json=true"))
}

// statusOf is what a session says of a run that ended with an error: whether somebody wanted that.
func statusOf(err error) string {
	var own interface {
		error
		Asked() bool
	}
	if errors.As(err, new(signalError)) || errors.As(err, &own) && own.Asked() {
		return "stopped"
	}
	return "failed"
}

// summariseFailure ends the output of a run that did not come to its summary.
func summariseFailure(w io.Writer, err error) error {
	b, merr := json.Marshal(struct {
		Type    string      `json:"type"`
		Status  string      `json:"status"`
		Error   string      `json:"error"`
		Failure *errs.Error `json:"failure"`
		Exit    int         `json:"exit_code"`
		Steps   int         `json:"steps"`
	}{"summary", statusOf(err), err.Error(), explain(err), exitCode(err), 0})
	if merr != nil {
		return fmt.Errorf("encode the failure as JSON: %w", merr)
	}
	_, merr = w.Write(append(b, '\n'))
	return merr
}
