package stall

import (
	"testing"

	"dev.gpustall/engine/stall/stalltest"
	"dev.gpustall/engine/trace"
)

// Whom the loop waited for is the worker that is slow, in the phase that is.
func TestHead(t *testing.T) {
	for _, f := range stalltest.Faults {
		s := stalltest.Healthy()
		f.Inject(&s)
		snap, tl := snapshot(s)
		spans := snap.Spans
		for _, st := range tl.Stalls {
			spans = append(spans, trace.Span{
				Start: st.Start, End: st.End, Step: st.Step, Batch: st.Step,
				Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(st.Cause),
			})
		}
		h, ok := HeadOf(spans, 0, snap.Now)
		switch {
		case s.Straggler == 0 && ok:
			t.Errorf("%s: %v", f.Name, h)
		case s.Straggler > 0 && (!ok || h.Worker != s.Straggler-1 || h.Phase != trace.KindTransform || h.Batches < 5 || h.Batches != h.Of):
			t.Errorf("%s: %+v", f.Name, h)
		}
		if _, ok := HeadOf(spans, snap.Now, snap.Now+1); ok {
			t.Errorf("%s: there is a head after the run", f.Name)
		}
	}
}
