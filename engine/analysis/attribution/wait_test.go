package attribution

import (
	"testing"

	"dev.gpustall/engine/analysis/attribution/attributiontest"
	"dev.gpustall/engine/trace"
)

// TestLongestWait: the worker of the awaited batch is named, and the later batches
// that were ready before it are counted.
func TestLongestWait(t *testing.T) {
	span := func(track trace.TrackID, kind trace.Kind, from, to int64, batch int32, arg uint32) trace.Span {
		return trace.Span{Start: from, End: to, Step: batch, Batch: batch, Kind: kind, Track: track, Arg: arg}
	}
	stall := func(from, to int64, step int32, c trace.Cause) trace.Span {
		return span(trace.TrackStall, trace.KindStall, from, to, step, uint32(c))
	}
	s := &trace.Snapshot{Spans: []trace.Span{
		span(trace.Worker(0), trace.KindRead, 0, 10, 1, 0),
		span(trace.Worker(1), trace.KindRead, 0, 90, 2, 0), // late; its own time came before the wait
		span(trace.Worker(0), trace.KindDecode, 10, 30, 3, 0),
		span(trace.Worker(0), trace.KindBlocked, 30, 95, 4, 0),
		stall(20, 30, 1, trace.CauseDecode),
		span(trace.TrackStep, trace.KindNext, 35, 100, 2, 0),
		stall(40, 60, 2, trace.CauseRead), // one gap in three pieces
		stall(60, 90, 2, trace.CauseRead),
		span(trace.Worker(1), trace.KindCollate, 90, 95, 2, 0),
		span(trace.TrackPin, trace.KindPin, 95, 97, 2, 0), // the thread that page-locks the batch did not make it
		stall(90, 100, 2, trace.CauseCopy),
		span(trace.Worker(0), trace.KindDecode, 96, 99, 4, 0),
		span(trace.Worker(0), trace.KindDecode, 0, 5, 5, 0), // a batch of another loader, taken long before
		span(trace.TrackStep, trace.KindPause, 2, 8, 5, 0),
		span(trace.TrackStep, trace.KindNext, 100, 101, 3, 0),
	}}
	want := Wait{Time: 50, Step: 2, Batch: 2, Worker: trace.Worker(1), Kind: trace.KindRead, Took: 97, Behind: 1}
	if got, ok := LongestWait(s, 0, 200); !ok || got != want {
		t.Errorf("%+v, %v; want %+v", got, ok, want)
	}
	if got, ok := LongestWait(s, 0, 35); ok {
		t.Errorf("%+v, though no batch was awaited", got)
	}
	if got, ok := LongestWait(s, 150, 200); ok {
		t.Errorf("%+v of nothing", got)
	}
}

// TestHead: the head-of-line worker is the slow one, in its slow phase.
func TestHead(t *testing.T) {
	for _, f := range attributiontest.Faults {
		s := attributiontest.Healthy()
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
