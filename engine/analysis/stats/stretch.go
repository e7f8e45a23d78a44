package stats

import (
	"math"
	"time"

	"dev.gpustall/engine/base/units"
)

// Stretch sums up a series and has all that a comparison needs. It does not change once the
// series has ended, so it can be kept.
type Stretch struct {
	Blocks, Steps int
	Samples       int64
	Active        time.Duration
	Centre        int64 // ns in the session, the middle of the stretch
	Step          Level // active time
	Busy          Level // busy time
}

// Enough reports whether the stretch has the steps and the time that a comparison
// needs of each side.
func (m *Stretch) Enough() bool { return m.Steps >= leastSteps && m.Active.Seconds() >= leastSeconds }

// Level is the mean of one time per sample over a stretch, and what its error follows from. Where a
// drift was detected, Variance, Inefficiency and Correlation are measured with the line taken out.
type Level struct {
	Mean         float64       // ns a sample; 0 when nothing was measured
	Variance     float64       // of a block, relative to the mean squared
	Inefficiency float64       // how many blocks tell as much of the mean as one independent block; below 1 for bursts
	Correlation  time.Duration // how much time tells as much as one independent step
	Drift        Drift
}

// error2 returns the squared standard error of log(Mean), over n blocks.
func (l *Level) error2(n int) float64 { return l.Variance * l.Inefficiency / float64(n) }

// Measure sums up a series. It merges the blocks of a long one first, so that its cost is bounded.
func Measure(s Series) Stretch {
	blocks := s.bounded()
	m := Stretch{Blocks: len(blocks)}
	var squares float64
	known := true
	for i := range blocks {
		b := &blocks[i]
		m.Steps += b.Steps
		m.Samples += b.Samples
		m.Active += time.Duration(b.Active)
		squares += b.squares()
		known = known && b.squares() > 0
	}
	m.Centre = s.Start + int64(m.Active)/2
	if len(blocks) < 2 {
		return m
	}
	var residuals [maxBlocks]float64
	var sums [maxBlocks + 1]float64
	e := residuals[:len(blocks)]
	m.Step = m.level(blocks, e, sums[:len(blocks)+1], func(b *Block) int64 { return b.Active })
	m.Busy = m.level(blocks, e, sums[:len(blocks)+1], func(b *Block) int64 { return b.Busy })
	if known && m.Blocks < m.Steps {
		// How many steps tell as much as one independent step is the ratio of a step's long-run
		// variance to the variance of single steps.
		steps, perStep := float64(m.Steps), float64(m.Active)/float64(m.Steps)
		if single := squares/steps/(perStep*perStep) - 1; single > 0 {
			m.Step.Correlation = time.Duration(max(1, m.Step.error2(m.Blocks)*steps/single) * perStep)
		}
	}
	return m
}

// level measures one of the times of the blocks; e and sums are room to work in.
//
// The mean is the ratio of two sums, time over samples, so that a short last batch counts for what
// it is. Its error follows from the residuals e = (time - mean · samples) / time of an average
// block. That is the delta method for a ratio (Cochran, Sampling Techniques, 3rd edition 1977,
// section 6.3). Hence the relative error of the mean, which is the error of its logarithm.
func (m *Stretch) level(blocks []Block, e, sums []float64, of func(*Block) int64) Level {
	var sum float64
	for i := range blocks {
		sum += float64(of(&blocks[i]))
	}
	if sum <= 0 {
		return Level{}
	}
	n := float64(len(blocks))
	l := Level{Mean: sum / float64(m.Samples)}
	for i := range blocks {
		e[i] = (float64(of(&blocks[i])) - l.Mean*float64(blocks[i].Samples)) / (sum / n)
	}
	l.Variance, l.Inefficiency = spread(e, sums, 1)
	drift, variance, inefficiency := fit(e, sums, m.Active)
	if l.Drift = drift; drift.Detected {
		l.Variance, l.Inefficiency = variance, inefficiency
	}
	// One block shows no correlation beyond its own length, so only the others count.
	l.Correlation = time.Duration(max(0, l.Inefficiency-1)*float64(m.Active)/n + float64(m.Active)/float64(m.Steps))
	return l
}

// Rate returns the samples a second over a stretch, with a time-uniform 95 % interval where there
// are enough steps for it.
func (m *Stretch) Rate() units.Estimate {
	if m.Step.Mean <= 0 {
		return units.Rough(math.NaN())
	}
	rate := 1e9 / m.Step.Mean
	if !m.Enough() || m.Step.Correlation <= 0 {
		return units.Rough(rate)
	}
	blocks := float64(m.Blocks)
	samples := min(float64(m.Active)/float64(m.Step.Correlation), blocks/max(1, m.Step.Inefficiency))
	if samples < leastWindows {
		return units.Rough(rate)
	}
	few := 1 + 2/samples
	return around(rate, halfWidth(max(m.Step.error2(m.Blocks), resolution)*few*few))
}

// around returns an estimate v whose logarithm is known to half on either side.
func around(v, half float64) units.Estimate {
	return units.Estimate{Value: v, Lo: v * math.Exp(-half), Hi: v * math.Exp(half)}
}
