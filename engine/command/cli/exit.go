// Package cli is what all commands share: exit codes and what kind of error leads to which, lines
// for a terminal or a log, signals, files that are whole or not there, and the folders of sessions
// and caches.
package cli

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
	ExitOK       = 0
	ExitRuntime  = 1
	ExitUsage    = 2
	exitDevice   = 3
	ExitDiverged = 4   // the run went on to its end, but its loss is not a number
	ExitSignal   = 128 // plus the signal's number
)

// usageError marks what the user typed as the reason.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Misuse marks err as the fault of what the user typed.
func Misuse(err error) error { return usageError{err} }

// Refuse returns the error of a flag's value that is not accepted.
func Refuse(flag, reason, hint string) error {
	return Misuse(errs.New("set", flag, reason, hint))
}

// SignalError says that a signal ended the run; it is not printed.
type SignalError struct{ os.Signal }

func EndedBy(s os.Signal) error { return SignalError{s} }

func (e SignalError) Error() string { return "ended by " + e.String() }

// DivergedError says that a run came to its end and its training did not. The
// summary tells so; it is not printed again.
type DivergedError struct{ step int32 }

func (e DivergedError) Error() string {
	return fmt.Sprintf("the training diverged at step %d; lower --lr", e.step)
}

// Diverged is the error of a run whose loss broke, nil for any other.
func Diverged(s *trace.Snapshot) error {
	if s.Diverged > 0 {
		return DivergedError{s.DivergedAt}
	}
	return nil
}

// codeError is an error with an exit code of its own: that of a script.
type codeError interface {
	error
	ExitCode() int
}

// ExitCode is the one place where an error becomes an exit code.
func ExitCode(err error) int {
	var usage usageError
	var sig SignalError
	var own codeError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &sig):
		if n, ok := sig.Signal.(syscall.Signal); ok {
			return ExitSignal + int(n)
		}
		return ExitRuntime
	case errors.As(err, &own):
		return own.ExitCode()
	case errors.As(err, &usage), errors.Is(err, device.ErrUnsupported):
		return ExitUsage
	case errors.Is(err, device.ErrNoDevice):
		return exitDevice
	case errors.As(err, new(DivergedError)):
		return ExitDiverged
	}
	return ExitRuntime
}

// Explain is what JSON says of an error, beside its sentence.
func Explain(err error) *errs.Error {
	f := errs.Explain(errs.Wrap(err, "run", "gpustall", "run it again; gpustall doctor says what this machine has"))
	return &f
}

// Summarised says that a summary which tells of the error was printed.
type Summarised struct{ error }

func MarkSummarised(err error) error { return Summarised{err} }

func (e Summarised) Unwrap() error { return e.error }

// AsksJSON reports whether the command line asks for output that ends in a summary, be
// the rest of it right or not. What stands behind -- is a script's.
func AsksJSON(command string, args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains([]string{"run", "tune", "torch"}, command) && (slices.Contains(args, "--json") || slices.Contains(args, "--json=true"))
}

// StatusOf is what a session says of a run that ended with an error: whether somebody wanted that.
func StatusOf(err error) string {
	var own interface {
		error
		Asked() bool
	}
	if errors.As(err, new(SignalError)) || errors.As(err, &own) && own.Asked() {
		return "stopped"
	}
	return "failed"
}

// WriteFailure ends the output of a run that did not come to its summary.
func WriteFailure(w io.Writer, err error) error {
	b, merr := json.Marshal(struct {
		Type    string      `json:"type"`
		Status  string      `json:"status"`
		Error   string      `json:"error"`
		Failure *errs.Error `json:"failure"`
		Exit    int         `json:"exit_code"`
		Steps   int         `json:"steps"`
	}{"summary", StatusOf(err), err.Error(), Explain(err), ExitCode(err), 0})
	if merr != nil {
		return fmt.Errorf("encode the failure as JSON: %w", merr)
	}
	_, merr = w.Write(append(b, '\n'))
	return merr
}
