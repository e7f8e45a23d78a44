package stall

import (
	"math"

	"dev.gpustall/engine/trace"
)

// EpochStats is one epoch, as far as it was run. Times are active ns.
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
	Projected   int64   // of a full epoch at the rate so far, when it is not complete; 0 when unknown
	Injected    int     // steps with an injected bottleneck
	Ceiling     int     // steps on cached batches
}

// Epochs returns one row an epoch, in order.
func Epochs(s *trace.Snapshot) []EpochStats {
	var rows []EpochStats
	for from := 0; from < len(s.Steps); {
		to := from + 1
		for to < len(s.Steps) && s.Steps[to].Epoch == s.Steps[from].Epoch {
			to++
		}
		rows = append(rows, epoch(s.Steps[from:to], s.Meta.Samples))
		from = to
	}
	return rows
}

func epoch(steps []trace.Step, samples int64) EpochStats {
	b := Sum(steps)
	e := EpochStats{
		Epoch: steps[0].Epoch, Segment: steps[0].Segment, Steps: b.Steps, Samples: b.Samples,
		Total: b.Active(), Load: b.Load, Train: b.Busy, Wait: b.Wait, Breakdown: b, Utilisation: b.Utilisation(),
		Complete: steps[len(steps)-1].Flags&trace.FlagLastOfEpoch != 0,
	}
	var loss, hits float64
	var lossOf, hitsOf int64
	for i := range steps {
		s := &steps[i]
		if s.Flags&trace.FlagInjected != 0 {
			e.Injected++
		}
		if s.Flags&trace.FlagCeiling != 0 {
			e.Ceiling++
		}
		if s.Segment != e.Segment {
			e.Segment = -1
		}
		// A step with arithmetic counts, NaN too: a loss that broke must show.
		if l := float64(s.Loss); s.Correct >= 0 || !math.IsNaN(l) {
			loss += l * float64(s.Samples)
			lossOf += int64(s.Samples)
		}
		if s.Correct >= 0 {
			hits += float64(s.Correct)
			hitsOf += int64(s.Samples)
		}
	}
	e.Loss, e.Top1 = loss/float64(lossOf), hits/float64(hitsOf) // 0/0 is NaN
	if !e.Complete && b.Samples > 0 && samples > b.Samples {
		e.Projected = int64(float64(e.Total) * float64(samples) / float64(b.Samples))
	}
	return e
}
