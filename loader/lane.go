package loader

import (
	"fmt"
	"time"

	"dev.gpustall/engine/trace"
)

// slow is how long a sample takes in one phase to get a span of its own; faster
// ones share the span of their chunk.
const slow = int64(time.Millisecond)

// lane cuts a worker's time into spans without gaps: each piece begins where the
// one before ended.
type lane struct {
	w           *worker
	batch       int32
	flags       uint16
	start, last int64 // the piece that has not been recorded
}

func (n *lane) begin(w *worker, batch int32) {
	now := w.l.clock.Now()
	*n = lane{w: w, batch: batch, start: now, last: now}
}

// inject marks the phase that follows, and the batch, if d is injected into it.
func (n *lane) inject(s *slot, d time.Duration) {
	n.flags = 0
	if d > 0 {
		n.flags = trace.FlagInjected
		s.Flags |= trace.FlagInjected
	}
}

// lap ends one sample's part of a phase.
func (n *lane) lap(kind trace.Kind) {
	now := n.w.l.clock.Now()
	if now-n.last > slow {
		n.end(kind)
		n.last = now
		n.end(kind)
		return
	}
	n.last = now
}

// end ends the phase's span.
func (n *lane) end(kind trace.Kind) {
	if n.last > n.start {
		n.w.recordFlags(kind, n.batch, n.start, n.last, 0, n.flags)
		n.start = n.last
	}
}

func (w *worker) record(kind trace.Kind, batch int32, start, end int64, arg uint32) {
	w.recordFlags(kind, batch, start, end, arg, 0)
}

func (w *worker) recordFlags(kind trace.Kind, batch int32, start, end int64, arg uint32, flags uint16) {
	if w.track != nil {
		w.track.Record(trace.Span{Start: start, End: end, Step: -1, Batch: batch, Kind: kind, Arg: arg, Flags: flags})
	}
}

// SampleError is a batch that could not be loaded, and the sample that is to
// blame.
type SampleError struct {
	Op      string // "read", "decode", "transform", …
	Dataset string
	Index   int // of the sample; -1 when no single one is to blame
	Epoch   int32
	Batch   int32  // Batch.Seq
	Stack   []byte // of a panic
	Err     error
}

func (e *SampleError) Error() string {
	what := "the samples"
	if e.Index >= 0 {
		what = fmt.Sprintf("sample %d", e.Index)
	}
	return fmt.Sprintf("loader: %s %s of %s for batch %d of epoch %d: %v", e.Op, what, Path(e.Dataset), e.Batch, e.Epoch, e.Err)
}

// Unwrap returns the cause.
func (e *SampleError) Unwrap() error { return e.Err }

func (w *worker) failure(s *slot, err error, stack []byte) error {
	return &SampleError{
		Op: w.op, Dataset: w.l.info.Name, Index: int(w.index.Load()), Epoch: s.Epoch, Batch: s.Seq, Stack: stack, Err: err,
	}
}
