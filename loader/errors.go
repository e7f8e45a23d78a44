package loader

import (
	"errors"
	"fmt"

	"dev.gpustall/engine/base/errs"
)

var (
	// ErrEnd is Next's answer after the last epoch. It is never wrapped. Test for it with ==,
	// because an error of the data set may wrap anything.
	ErrEnd = errors.New("no batch is left")
	// ErrClosed is Next's and Set's answer after Close.
	ErrClosed = errors.New("the loader is closed")
	// ErrHung is what Close's error wraps if Close gave up waiting for a worker.
	ErrHung = errors.New("it hangs")
	// ErrTimeout is what Next's error wraps if the time of the timeout knob has run
	// out.
	ErrTimeout = errors.New("timed out")
	// errAborted is the error of a batch whose goroutine ended under it.
	errAborted = errors.New("the goroutine ended while it loaded")
)

// SampleError is the error of a batch that could not be loaded, and names the faulty sample.
type SampleError struct {
	Op      string // "read", "decode", "transform", …
	Dataset string
	Index   int    // of the sample; -1 if no single sample is at fault
	Epoch   int32  // from 0
	Batch   int32  // Batch.Seq
	Stack   []byte // of a panic
	Skipped bool   // the sample was left out
	Err     error
}

// Fault returns the error in the form that all errors are printed in.
func (e *SampleError) Fault() *errs.Error {
	what := "the samples"
	if e.Index >= 0 {
		what = fmt.Sprintf("sample %d", e.Index)
	}
	err, hint := e.Err, ""
	if e.Index >= 0 && !e.Skipped {
		const skip = "leave such samples out with on_error=skip"
		if f, ok := err.(*errs.Error); ok && f.Reason != "" && f.Hint != "" { //nolint:errorlint // only this error's own sentence is printed
			with := *f
			with.Hint += ", or " + skip
			err = &with
		} else {
			hint = skip
		}
	}
	return &errs.Error{Op: e.Op, Object: fmt.Sprintf("%s of %s for batch %d, in epoch %d", what, errs.Path(e.Dataset), e.Batch, e.Epoch+1), Hint: hint, Err: err}
}

func (e *SampleError) Error() string { return e.Fault().Error() }

// Unwrap returns the cause.
func (e *SampleError) Unwrap() error { return e.Err }

// failure returns err as the error of the sample at hand. A SampleError is returned as it is.
func (w *worker) failure(s *slot, err error, stack []byte) *SampleError {
	if e, ok := errors.AsType[*SampleError](err); ok {
		return e
	}
	return &SampleError{
		Op: w.op, Dataset: w.in.info.Name, Index: int(w.index.Load()), Epoch: s.Epoch, Batch: s.Seq, Stack: stack, Err: err,
	}
}
