package command

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/fault"
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

// refuse is the error of a flag whose value cannot be had.
func refuse(flag, reason, mend string) error {
	return usageError{fault.New("set", flag, reason, mend)}
}

// signalError says that a signal ended the run; it is not printed.
type signalError struct{ os.Signal }

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

// exitCode is the one place where an error becomes an exit code.
func exitCode(err error) int {
	var usage usageError
	var sig signalError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &sig):
		if n, ok := sig.Signal.(syscall.Signal); ok {
			return exitSignal + int(n)
		}
		return exitRuntime
	case errors.As(err, &usage), errors.Is(err, device.ErrUnsupported):
		return exitUsage
	case errors.Is(err, device.ErrNoDevice):
		return exitDevice
	case errors.As(err, new(divergedError)):
		return exitDiverged
	}
	return exitRuntime
}
