package device

import (
	"errors"
	"fmt"

	"dev.gpustall/engine/base/errs"
)

// The errors of wrong calls, worded alike for all devices. op is the method that was called, in
// lower case: "copy in". They are mistakes of the program, not of the person who runs it.

// ErrClosed is the error of every call of a device that was closed.
var ErrClosed = errors.New("the device is closed")

// NoStream returns the error of an unknown stream.
func NoStream(op string, s Stream) error { return unknown(op, "stream", int32(s), "NewStream") }

// NoEvent returns the error of an unknown or freed event.
func NoEvent(op string, e Event) error { return unknown(op, "event", int32(e), "NewEvent") }

// NoProgram returns the error of an unknown or released program.
func NoProgram(op string, p Program) error { return unknown(op, "program", int32(p), "Prepare") }

// NoTiming returns the error of a timing that does not exist or was read before.
func NoTiming(t Timing) error { return unknown("op times", "timing", int32(t), "LaunchTimed") }

func unknown(op, kind string, n int32, from string) error {
	return errs.New(op, "", fmt.Sprintf("%s %d does not exist", kind, n), "take one from "+from)
}

// NotRecorded returns the error of Elapsed for an event without a Record.
func NotRecorded() error { return notReady("elapsed", "the event was never recorded") }

// NotCompleted returns the error of Elapsed for an event whose Record has not completed.
func NotCompleted() error { return notReady("elapsed", "the event's Record has not completed") }

// NotTimed returns the error of OpTimes for a launch that has not completed.
func NotTimed() error { return notReady("op times", "the launch has not completed") }

func notReady(op, reason string) error {
	return errs.New(op, "", reason, "Query or Sync an event behind it first").Because(ErrNotReady)
}

// NotPositive returns the error of an allocation of n bytes of some memory ("device").
func NotPositive(memory string, n int64) error {
	return errs.New("allocate", fmt.Sprintf("%d bytes of %s memory", n, memory), "the size must be positive", "")
}

// TooSmall returns the error of a copy of n bytes into or out of b.
func TooSmall(op string, n int, b Buffer) error {
	return errs.New(op, fmt.Sprintf("%d bytes", n), fmt.Sprintf("the buffer has %d", b.Size), "")
}

// Foreign returns the error of a buffer outside of the memory that the device has allocated.
func Foreign(op string, b Buffer) error {
	return errs.New(op, "", fmt.Sprintf("buffer %#x of %d bytes is not allocated here", b.Addr, b.Size), "")
}

// ErrNoOperation is the error of preparing a launch of nothing.
var ErrNoOperation = errors.New("a launch needs an operation")

// Misaligned returns the error of buffer i, which must start at a multiple of n bytes.
func Misaligned(i int, name string, n uint64) error {
	return fmt.Errorf("buffer %d (%s) must start at a multiple of %d bytes", i, name, n)
}

// Preparing adds to err which launch of a program it is about.
func Preparing(i int, l Launch, err error) error {
	what := "no operation"
	if l.Op != nil {
		what = l.Op.Name()
		if l.Layer != "" {
			what += " of " + l.Layer
		}
	}
	return errs.Wrap(err, "prepare", fmt.Sprintf("launch %d (%s)", i, what), "")
}
