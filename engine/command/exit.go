package command

import (
	"errors"
	"os"
	"syscall"

	"dev.gpustall/engine/device"
)

// Exit codes.
const (
	exitOK      = 0
	exitRuntime = 1
	exitUsage   = 2
	exitDevice  = 3
	exitSignal  = 128 // plus the signal's number
)

// usageError marks what the user typed as the reason.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// signalError says that a signal ended the run; it is not printed.
type signalError struct{ os.Signal }

func (e signalError) Error() string { return "ended by " + e.String() }

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
	}
	return exitRuntime
}
