// Package cli is what all commands share: exit codes, lines for people, signals, files, and the
// folders of sessions and caches.
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

// The exit codes of the program.
const (
	ExitOK       = 0
	ExitRuntime  = 1
	ExitUsage    = 2
	exitDevice   = 3
	ExitDiverged = 4   // the run came to its end, but its loss is not a number
	ExitSignal   = 128 // plus the signal's number
)

// usageError is an error in what the user typed.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Misuse marks err as the fault of what the user typed.
func Misuse(err error) error { return usageError{err} }

// Refuse returns the error of a flag's value that is not accepted.
func Refuse(flag, reason, hint string) error {
	return Misuse(errs.New("set", flag, reason, hint))
}

// SignalError says that a signal ended the run. It is not printed.
type SignalError struct{ os.Signal }

// EndedBy returns the error of a run that a signal ended.
func EndedBy(s os.Signal) error { return SignalError{s} }

func (e SignalError) Error() string { return "ended by " + e.String() }

// DivergedError says that a run came to its end with a loss that is not a number. It is not
// printed: the summary says so.
type DivergedError struct{ step int32 }

func (e DivergedError) Error() string {
	return fmt.Sprintf("the training diverged at step %d; lower --lr", e.step)
}

// Diverged returns a DivergedError if the loss of the run is not a number, and nil otherwise.
func Diverged(s *trace.Snapshot) error {
	if s.Diverged > 0 {
		return DivergedError{s.DivergedAt}
	}
	return nil
}

// CodedError is an error with the exit code of another program.
type CodedError struct {
	error
	code int
}

// Coded returns err with an exit code.
func Coded(err error, code int) error { return CodedError{err, code} }

func (e CodedError) Unwrap() error { return e.error }

// ExitCode returns the other program's exit code.
func (e CodedError) ExitCode() int { return e.code }

// codeError is an error with an exit code of its own, such as that of a script.
type codeError interface {
	error
	ExitCode() int
}

// ExitCode returns the exit code for an error. No other place decides it.
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

// Explain returns the parts of an error. JSON has them beside the error's sentence.
func Explain(err error) *errs.Error {
	f := errs.Explain(errs.Wrap(err, "run", "gpustall", "run it again; gpustall doctor says what this machine has"))
	return &f
}

// Summarised is an error that a printed summary has told already.
type Summarised struct{ error }

// MarkSummarised marks err as told by a printed summary.
func MarkSummarised(err error) error { return Summarised{err} }

// Unwrap returns the error.
func (e Summarised) Unwrap() error { return e.error }

// AsksJSON reports whether a command line asks for JSON that ends in a summary, even if the rest
// of the line is wrong. Arguments after -- belong to the script.
func AsksJSON(command string, args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains([]string{"run", "tune", "torch"}, command) && (slices.Contains(args, "--json") || slices.Contains(args, "--json=true"))
}

// StatusOf returns the status of a run that ended with an error: "stopped" if somebody asked for
// that, else "failed".
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

// WriteFailure writes the summary of a run that failed before it had one.
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
