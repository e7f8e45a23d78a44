package evidence

import (
	"math"

	"dev.gpustall/engine/figures"
)

// Rate is samples a second over a stretch, with a time-uniform 95 % interval of its own,
// or without one where there is too little of it.
func (m *Stretch) Rate() figures.Estimate {
	if m.Step.Mean <= 0 {
		return figures.Rough(math.NaN())
	}
	rate := 1e9 / m.Step.Mean
	if !m.Enough() || m.Step.Correlation <= 0 {
		return figures.Rough(rate)
	}
	blocks := float64(m.Blocks)
	samples := min(float64(m.Active)/float64(m.Step.Correlation), blocks/max(1, m.Step.Inefficiency))
	if samples < leastWindows {
		return figures.Rough(rate)
	}
	few := 1 + 2/samples
	return around(rate, halfWidth(max(m.Step.error2(m.Blocks), resolution)*few*few))
}

// around is an estimate whose logarithm is known to so much on either side.
func around(v, half float64) figures.Estimate {
	return figures.Estimate{Value: v, Lo: v * math.Exp(-half), Hi: v * math.Exp(half)}
}
