package stall

import (
	"math"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Steps are grouped into windows of equal count, because single steps are neither
// independent nor near normal: batches come in bursts of as many as there are
// workers. Fewer than minWindows on a side say nothing; few but long windows
// average bursts out best.
const (
	minWindows = 10
	maxWindows = 12
)

// Comparison is how the throughput of B relates to that of A.
type Comparison struct {
	OK        bool    // there were enough steps on both sides to tell
	Ratio     float64 // samples/s of B over A
	Lo, Hi    float64 // its 95 % confidence interval
	Different bool    // the interval excludes 1; otherwise no difference was measured
	Windows   int     // on the side with fewer
	Excluded  int     // steps left out, on both sides: transitions and warm-up
}

// Estimate is the ratio with its interval, for writing.
func (c Comparison) Estimate() figures.Estimate {
	return figures.Estimate{Value: c.Ratio, Lo: c.Lo, Hi: c.Hi}
}

// Compare relates the steady steps of two segments. The interval is Welch's (Biometrika 34, 1947, with Satterthwaite's
// degrees of freedom) for the logarithm of the mean time per sample, whose
// variance follows from the windows' by the delta method: var(log m) = var(m)/m².
func Compare(a, b *trace.Tally) Comparison {
	wa, wb := windows(a.Blocks.List()), windows(b.Blocks.List())
	c := Comparison{Windows: min(len(wa), len(wb)), Excluded: int(a.Excluded() + b.Excluded())}
	if c.Windows < minWindows {
		return c
	}
	ra, rb := Breakdown{a.Steady}.SamplesPerSecond(), Breakdown{b.Steady}.SamplesPerSecond()
	if ra <= 0 || rb <= 0 {
		return c
	}
	sa, sb := logVariance(wa), logVariance(wb)
	half := 0.0
	if sa+sb > 0 {
		na, nb := float64(len(wa)), float64(len(wb))
		df := (sa + sb) * (sa + sb) / (sa*sa/(na-1) + sb*sb/(nb-1))
		half = distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(0.975) * math.Sqrt(sa+sb)
	}
	c.Ratio = rb / ra
	c.Lo, c.Hi = c.Ratio*math.Exp(-half), c.Ratio*math.Exp(half)
	c.Different = c.Lo > 1 || c.Hi < 1
	c.OK = true
	return c
}

// logVariance is the variance of the logarithm of the mean of w.
func logVariance(w []float64) float64 {
	mean, variance := stat.MeanVariance(w, nil)
	return variance / (mean * mean * float64(len(w)))
}

// windows returns the time per sample, in ns, of up to maxWindows windows whose
// block counts differ by at most one. Windows without time or samples are left out.
func windows(blocks []trace.Block) []float64 {
	n := min(len(blocks), maxWindows)
	w := make([]float64, 0, n)
	for i := range n {
		var active, samples int64
		for _, b := range blocks[i*len(blocks)/n : (i+1)*len(blocks)/n] {
			active += b.Active
			samples += b.Samples
		}
		if active > 0 && samples > 0 {
			w = append(w, float64(active)/float64(samples))
		}
	}
	return w
}
