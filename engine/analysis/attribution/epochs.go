package attribution

import "dev.gpustall/engine/trace"

// EpochStats is one epoch, as far as the run went. Times leave out pauses.
type EpochStats struct {
	Epoch     int32
	Segment   int32 // -1 when the knobs changed within it
	Steps     int
	Samples   int64
	Total     int64 // wall time of its steps
	Load      int64 // worker time spent on its batches, in parallel
	Train     int64 // compute
	Wait      int64 // the step loop blocked in Loader.Next
	Breakdown Breakdown

	Utilisation float64 // 0 to 1
	Loss, Top1  float64 // means over the samples; NaN where the device does no arithmetic
	Complete    bool    // it was run to its last batch
	Projected   int64   // time of a full epoch at the rate so far, when this one is not complete; 0 when unknown
	Injected    int     // steps with an injected bottleneck
	Ceiling     int     // steps on cached batches
	Diverged    int     // steps with a loss that is not a number
}

// Epochs returns one row for each epoch, in order.
func Epochs(s *trace.Snapshot) []EpochStats {
	var rows []EpochStats
	for _, e := range s.Epochs {
		b := Breakdown{e.Totals}
		row := EpochStats{
			Epoch: e.Epoch, Segment: e.Segment, Steps: int(b.Steps), Samples: b.Samples,
			Total: b.Active(), Load: b.Load, Train: b.Busy, Wait: b.Wait, Breakdown: b, Utilisation: b.Utilisation(),
			Loss: e.Loss / float64(e.LossOf), Top1: e.Hits / float64(e.HitsOf), // 0/0 is NaN
			Complete: e.Complete, Injected: int(e.Injected), Ceiling: int(e.Ceiling), Diverged: int(e.Diverged),
		}
		if r := s.Meta.Resumed; r != nil && r.Epoch == row.Epoch && r.Delivered > 0 {
			row.Complete = false // its beginning was in the run before
		}
		all := s.EpochSamples()
		if g := s.Segment(e.Segment); g != nil {
			all = s.Epoch(g)
		}
		if !row.Complete && (row.Steps >= leastSteps || 10*b.Samples >= all) && all > b.Samples && b.Samples > 0 {
			row.Projected = int64(float64(row.Total) * float64(all) / float64(b.Samples))
		}
		rows = append(rows, row)
	}
	return rows
}

// leastSteps is how many steps tell how long an epoch takes, or that each begins an iterator.
const leastSteps = 10

// Renewed reports whether nearly each step of a tally begins an iterator of a PyTorch loader and takes one
// batch of it, although an epoch has more: next(iter(loader)). Of the steps in memory, begin is how many do
// so, and steps how many there are.
func Renewed(s *trace.Snapshot, t *trace.Tally) (begin, steps int, ok bool) {
	for i := range s.Recent {
		if st := &s.Recent[i]; st.Index >= t.First && st.Index <= t.Last && st.Segment == t.Segment {
			steps++
			if st.Flags&trace.FlagFirstOfEpoch != 0 {
				begin++
			}
		}
	}
	return begin, steps, s.Meta.Watched() && begin >= leastSteps && 10*begin >= 9*steps && s.Meta.Samples*t.All.Steps >= 2*t.All.Samples
}
