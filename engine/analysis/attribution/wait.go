package attribution

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Gap is a time in which the device was idle. It consists of pieces with one cause each,
// which follow each other without a break. A pause is a gap of its own.
type Gap struct {
	Start, End int64
	Step       int32                  // the step after it; -1 after the last one
	Parts      [trace.NumCauses]int64 // ns
	Largest    *trace.Span            // its longest piece
}

// Any reports whether there is a gap.
func (g *Gap) Any() bool { return g.End > g.Start }

// Data returns the time in which the device waited for data, in ns.
func (g *Gap) Data() int64 { return data(&g.Parts) }

// starved returns the time in which the device waited for a batch that was being made, in ns.
func (g *Gap) starved() int64 {
	return g.Data() - g.Parts[trace.CauseStartup] - g.Parts[trace.CauseSampler]
}

// Gaps yields the gaps that the stalls among spans make up. The spans are in order of time.
func Gaps(spans []trace.Span) iter.Seq[Gap] {
	return func(yield func(Gap) bool) {
		var g Gap
		paused := false
		for i := range spans {
			s := &spans[i]
			if s.Kind != trace.KindStall || s.End <= s.Start {
				continue
			}
			cause := s.Cause()
			if g.Largest == nil || s.Start != g.End || paused != (cause == trace.CausePaused) {
				if g.Any() && !yield(g) {
					return
				}
				g = Gap{Start: s.Start, Largest: s}
			}
			paused = cause == trace.CausePaused
			if s.End-s.Start > g.Largest.End-g.Largest.Start {
				g.Largest = s
			}
			g.End, g.Step = s.End, s.Step
			g.Parts[cause] += s.End - s.Start
		}
		if g.Any() {
			yield(g)
		}
	}
}

// Awaited returns the batch for which the step loop was blocked during most of [from, to). It
// returns false where the loop was not blocked for any.
func Awaited(spans []trace.Span, from, to int64) (batch int32, found bool) {
	var most int64
	for i := range spans {
		n := &spans[i]
		if over := min(n.End, to) - max(n.Start, from); n.Kind == trace.KindNext && over > most {
			most, batch, found = over, n.Batch, true
		}
	}
	return batch, found
}

// Wait is one wait of the device for data, with the batch that it waited for.
type Wait struct {
	Time   int64 // ns of one gap that are charged to data, as trace.Step.Starved counts them
	Step   int32 // that followed it
	Batch  int32 // that the step loop was blocked for
	Worker trace.TrackID
	Kind   trace.Kind  // what the worker spent most of the batch's time on
	Took   int64       // ns that the worker spent on the batch
	Split  trace.Split // of that time, where it was measured
	Behind int         // later batches that were ready before this one
}

// LongestWait finds the longest wait for data in [from, to) among the spans of a snapshot. It
// returns false if there is no wait whose batch and worker are known.
func LongestWait(s *trace.Snapshot, from, to int64) (w Wait, found bool) {
	var longest Gap
	for g := range Gaps(s.Spans) {
		if ns := g.starved(); g.Start >= from && g.End <= to && ns > w.Time {
			longest, w.Time, w.Step = g, ns, g.Step
		}
	}
	if w.Batch, found = Awaited(s.Spans, longest.Start, longest.End); !found || w.Batch < 0 {
		return Wait{}, false
	}
	for i := range s.Recent {
		if s.Recent[i].Batch == w.Batch {
			w.Split = s.Recent[i].Work.Batch
		}
	}
	return w, w.built(s)
}

// Waiting says how much of a time was run-queue wait, ", 31 ms of it waiting for a core". It is
// empty where that is little or not known.
func Waiting(s trace.Split) string {
	if s.Waiting < s.Total()/20 || s.Waiting < 100_000 {
		return ""
	}
	return ", " + units.Prose.Time(s.Waiting) + " of it waiting for a core"
}

// built finds the work on the batch, and which later batches were ready before it.
func (w *Wait) built(s *trace.Snapshot) bool {
	ready := map[int32]int64{} // when the last work on the batch ended
	taken := map[int32]int64{} // when a loop took the batch; an evaluation's batches may have later numbers and be taken long before
	var kinds [trace.NumKinds]int64
	for i := range s.Spans {
		b := &s.Spans[i]
		if b.Track == trace.TrackStep && (b.Kind == trace.KindNext || b.Kind == trace.KindPause) {
			taken[b.Batch] = max(taken[b.Batch], b.End)
		}
		if b.Batch < w.Batch || !b.Track.IsLoader() || b.Kind == trace.KindBlocked {
			continue
		}
		ready[b.Batch] = max(ready[b.Batch], b.End)
		if b.Batch == w.Batch {
			if b.Track.IsWorker() { // the thread that page-locks batches does not build them
				w.Worker = b.Track
			}
			w.Took += b.End - b.Start
			for k, part := range b.Phases(b.End - b.Start) {
				if kinds[k] += part; kinds[k] > kinds[w.Kind] {
					w.Kind = k
				}
			}
		}
	}
	for b, at := range ready {
		if b > w.Batch && at < ready[w.Batch] && taken[b] > ready[w.Batch] {
			w.Behind++
		}
	}
	return w.Took > 0
}

// Head is the head-of-line worker: the one that most often had the batch which in_order made the
// step loop wait for while others were ready.
type Head struct {
	Worker  int
	Phase   trace.Kind // the worker's phase during most of that time
	Batches int        // batches of this worker that were waited for
	Of      int        // batches of all workers that were waited for
}

func (h Head) String() string {
	return fmt.Sprintf("worker w%d had %d of %s so waited for, mostly in %s", h.Worker, h.Batches, units.Counted(h.Of, "batch", "batches"), h.Phase)
}

// HeadOf finds the head-of-line worker in the stalls by trace.CauseOrder that touch [from, to]. It
// returns false where none had most of the batches, or there are too few to tell.
func HeadOf(spans []trace.Span, from, to int64) (h Head, ok bool) {
	var stalls []trace.Span
	for i := range spans {
		if s := &spans[i]; s.Kind == trace.KindStall && s.Cause() == trace.CauseOrder && s.End > from && s.Start < to {
			stalls = append(stalls, *s)
		}
	}
	if len(stalls) == 0 {
		return h, false
	}
	slices.SortStableFunc(stalls, func(a, b trace.Span) int { return cmp.Compare(a.Batch, b.Batch) })
	var phases [trace.NumTracks][trace.KindPin + 1]int64 // ns
	worker := map[int32]trace.TrackID{}                  // by batch
	for i := range spans {
		s := &spans[i]
		if !s.Kind.IsPhase() || s.Track < trace.TrackWorker0 || int(s.Track) >= trace.NumTracks {
			continue
		}
		j, _ := slices.BinarySearchFunc(stalls, s.Batch, func(st trace.Span, batch int32) int { return cmp.Compare(st.Batch, batch) })
		for ; j < len(stalls) && stalls[j].Batch == s.Batch; j++ {
			if over := min(s.End, stalls[j].End) - max(s.Start, stalls[j].Start); over > 0 {
				for k, part := range s.Phases(over) {
					phases[s.Track][k] += part
				}
				worker[s.Batch] = s.Track
			}
		}
	}
	var batches [trace.NumTracks]int
	for _, t := range worker {
		batches[t]++
		h.Of++
	}
	for t := range batches {
		if batches[t] > h.Batches {
			h.Worker, h.Batches = t-int(trace.TrackWorker0), batches[t]
			h.Phase = trace.KindRead
			for k := range phases[t] {
				if phases[t][k] > phases[t][h.Phase] {
					h.Phase = trace.Kind(k)
				}
			}
		}
	}
	return h, h.Batches >= leastHeld && 2*h.Batches > h.Of
}

// leastHeld is how many batches a head-of-line worker had at the least. Fewer are its by chance.
const leastHeld = 3
