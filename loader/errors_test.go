package loader

import (
	"errors"
	"testing"

	"dev.gpustall/engine/base/errs"
)

// TestSampleErrorHints: an error that ends a run says how to go on without the sample. The
// error of a sample that was left out does not.
func TestSampleErrorHints(t *testing.T) {
	known := errs.New("decode", "a.jpg", "it is truncated", "replace it")
	for _, c := range []struct {
		err  SampleError
		want string
	}{
		{SampleError{Op: "decode", Dataset: "d", Index: 4, Err: known}, "decode sample 4 of d for batch 0, in epoch 1: decode a.jpg: it is truncated; replace it, or leave such samples out with on_error=skip"},
		{SampleError{Op: "read", Dataset: "d", Index: 4, Err: errors.New("bad sector")}, "read sample 4 of d for batch 0, in epoch 1: bad sector; leave such samples out with on_error=skip"},
		{SampleError{Op: "decode", Dataset: "d", Index: 4, Err: known, Skipped: true}, "decode sample 4 of d for batch 0, in epoch 1: decode a.jpg: it is truncated; replace it"},
		{SampleError{Op: "read", Dataset: "d", Index: -1, Err: errors.New("bad sector")}, "read the samples of d for batch 0, in epoch 1: bad sector"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if !errors.Is(&c.err, c.err.Err) {
			t.Error("the cause is lost")
		}
	}
	if known.Hint != "replace it" {
		t.Error("the data set's own error changed")
	}
	err := errs.Wrap(errs.New("open data", "/d/train/a.tar", "it is missing", "put it back"), "open data", "/d", "")
	if got, want := err.Error(), "open data /d/train/a.tar: it is missing; put it back"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
