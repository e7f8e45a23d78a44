package stall

import "dev.gpustall/engine/trace"

// Wait is one time that the device waited for data, with what it waited for.
type Wait struct {
	Time   int64 // ns, of one gap, as far as it is charged to data
	Step   int32 // that followed it
	Batch  int32 // that the step loop was blocked for
	Worker trace.TrackID
	Kind   trace.Kind // what the worker spent most of the batch's time on
	Took   int64      // ns that the worker spent on the batch
	Behind int        // later batches that were ready before this one
}

// LongestWait finds the longest wait for data in [from, to) among the spans of a
// snapshot; false when there is none that names its batch and the worker of it.
func LongestWait(s *trace.Snapshot, from, to int64) (Wait, bool) {
	var best, w Wait
	var start, end, bestStart, bestEnd int64 // of the gap, which may be of several spans
	for i := range s.Spans {
		g := &s.Spans[i]
		if g.Kind != trace.KindStall || g.Start < from || g.End > to {
			continue
		}
		if g.Start != end {
			start, w = g.Start, Wait{}
		}
		end, w.Step = g.End, g.Step
		if g.Cause().IsData() {
			w.Time += g.End - g.Start
		}
		if w.Time > best.Time {
			best, bestStart, bestEnd = w, start, end
		}
	}
	if best.Time == 0 || !best.awaited(s, bestStart, bestEnd) {
		return Wait{}, false
	}
	return best, best.built(s)
}

// awaited finds the batch that the step loop was blocked for.
func (w *Wait) awaited(s *trace.Snapshot, from, to int64) (found bool) {
	var most int64
	for i := range s.Spans {
		n := &s.Spans[i]
		if over := min(n.End, to) - max(n.Start, from); n.Kind == trace.KindNext && over > most {
			most, w.Batch, found = over, n.Batch, true
		}
	}
	return found
}

// built finds what was done for the batch, and which later ones were ready before it.
func (w *Wait) built(s *trace.Snapshot) bool {
	ready := map[int32]int64{} // when the last work on a batch ended
	var kinds [trace.NumKinds]int64
	for i := range s.Spans {
		b := &s.Spans[i]
		if b.Batch < w.Batch || !b.Track.IsWorker() || b.Kind == trace.KindBlocked {
			continue
		}
		ready[b.Batch] = max(ready[b.Batch], b.End)
		if b.Batch == w.Batch {
			w.Worker = b.Track
			w.Took += b.End - b.Start
			if kinds[b.Kind] += b.End - b.Start; kinds[b.Kind] > kinds[w.Kind] {
				w.Kind = b.Kind
			}
		}
	}
	for b, at := range ready {
		if b > w.Batch && at < ready[w.Batch] {
			w.Behind++
		}
	}
	return w.Took > 0
}
