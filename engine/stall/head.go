package stall

import (
	"cmp"
	"fmt"
	"slices"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
)

// Head is the worker that most often had the batch which in_order made the step loop
// wait for while others were ready.
type Head struct {
	Worker  int
	Phase   trace.Kind // that it was in for most of that time
	Batches int        // that it was waited for
	Of      int        // of all workers
}

func (h Head) String() string {
	return fmt.Sprintf("worker w%d had %d of %s so waited for, mostly in %s", h.Worker, h.Batches, figures.Counted(h.Of, "batch", "batches"), h.Phase)
}

// HeadOf finds the head's worker in the stalls by trace.CauseOrder that touch
// [from, to]; false where the spans show none.
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
		if s.Kind < trace.KindRead || s.Kind > trace.KindPin || s.Track < trace.TrackWorker0 || int(s.Track) >= trace.NumTracks {
			continue
		}
		j, _ := slices.BinarySearchFunc(stalls, s.Batch, func(st trace.Span, batch int32) int { return cmp.Compare(st.Batch, batch) })
		for ; j < len(stalls) && stalls[j].Batch == s.Batch; j++ {
			if over := min(s.End, stalls[j].End) - max(s.Start, stalls[j].Start); over > 0 {
				phases[s.Track][s.Kind] += over
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
	return h, h.Batches > 0
}
