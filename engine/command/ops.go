package command

import (
	"math"

	"dev.gpustall/engine/trace"
)

// opSummary is one launch of the step, over all its calls. The rates count the
// operation's own work and the fewest bytes that it must move.
type opSummary struct {
	Name   string `json:"name"`
	Layer  string `json:"layer"`
	Calls  int64  `json:"calls"`
	Total  number `json:"total_s"`
	Mean   number `json:"mean_s"`
	Share  number `json:"share"` // of the time of all ops
	TFLOPs number `json:"tflops"`
	GBPerS number `json:"gb_per_s"`
}

// opTable is the table of device ops, in the order of the step; empty where the
// launches were not timed.
func opTable(ops []trace.OpTime) []opSummary {
	out := make([]opSummary, 0, len(ops))
	var all float64
	for _, o := range ops {
		all += float64(o.Total) / 1e9
	}
	for _, o := range ops {
		s := float64(o.Total) / 1e9
		out = append(out, opSummary{
			Name: o.Name, Layer: o.Layer, Calls: o.Calls, Total: number(s),
			Mean: number(s / float64(o.Calls)), Share: number(s / all),
			TFLOPs: number(o.FLOPs / s / 1e12), GBPerS: number(o.Bytes / s / 1e9),
		})
	}
	return out
}

// gauge sums up the samples of a gauge that were taken while steps ran.
type gauge struct {
	Mean    number `json:"mean"`
	Max     number `json:"max"`
	Samples int    `json:"samples"`
}

// gaugeTable leaves out the samples of the first fifth of the run: NVML's
// utilisation looks back up to a second, into the preparations.
func gaugeTable(s *trace.Snapshot) map[string]gauge {
	out := map[string]gauge{}
	if len(s.Steps) == 0 {
		return out
	}
	to := s.Steps[len(s.Steps)-1].End
	from := s.Steps[0].Start + (to-s.Steps[0].Start)/5
	for name, points := range s.Gauges {
		sum, top, n := 0.0, math.Inf(-1), 0
		for _, p := range points {
			if p.T >= from && p.T <= to {
				sum, top, n = sum+p.V, max(top, p.V), n+1
			}
		}
		if n > 0 {
			out[name] = gauge{Mean: number(sum / float64(n)), Max: number(top), Samples: n}
		}
	}
	return out
}
