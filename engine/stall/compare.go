package stall

import (
	"math"

	"dev.gpustall/engine/trace"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Windows of a comparison: steps are grouped into maxWindows windows of equal
// count, because single steps are neither independent nor near normal. Fewer than
// minWindows on a side say nothing.
const (
	minWindows = 10
	maxWindows = 30
)

// Comparison is how the throughput of B relates to that of A.
type Comparison struct {
	OK        bool    // there were enough steps on both sides to tell
	Ratio     float64 // throughput of B over A, of the geometric means
	Lo, Hi    float64 // its 95 % confidence interval
	Different bool    // the interval excludes 1; otherwise no difference was measured
	Windows   int     // on the side with fewer
	Excluded  int     // steps left out, on both sides: transitions and warm-up
}

// Compare relates two sets of steps, each of one segment. It leaves out the steps
// of transitions, and a leading first step of an epoch, which waits for the first
// batch. The interval is Welch's, from the logarithms of the windows' time per
// sample (B. L. Welch, Biometrika 34, 1947; degrees of freedom by Satterthwaite).
func Compare(a, b []trace.Step) Comparison {
	a, xa := Steady(a)
	b, xb := Steady(b)
	wa, wb := windows(a), windows(b)
	c := Comparison{Windows: min(len(wa), len(wb)), Excluded: xa + xb}
	if c.Windows < minWindows {
		return c
	}
	ma, va := stat.MeanVariance(wa, nil)
	mb, vb := stat.MeanVariance(wb, nil)
	na, nb := float64(len(wa)), float64(len(wb))
	sa, sb := va/na, vb/nb
	half := 0.0
	if sa+sb > 0 {
		df := (sa + sb) * (sa + sb) / (sa*sa/(na-1) + sb*sb/(nb-1))
		half = distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(0.975) * math.Sqrt(sa+sb)
	}
	c.Ratio, c.Lo, c.Hi = math.Exp(ma-mb), math.Exp(ma-mb-half), math.Exp(ma-mb+half)
	c.Different = c.Lo > 1 || c.Hi < 1
	c.OK = true
	return c
}

// Steady returns the steps that a comparison may use and how many it leaves out:
// those of transitions, and the first, when it is the first of an epoch.
func Steady(steps []trace.Step) (steady []trace.Step, excluded int) {
	out := func(i int) bool {
		f := steps[i].Flags
		return f&trace.FlagTransition != 0 || i == 0 && f&trace.FlagFirstOfEpoch != 0
	}
	for i := range steps {
		if out(i) {
			excluded++
		}
	}
	if excluded == 0 {
		return steps, 0
	}
	steady = make([]trace.Step, 0, len(steps)-excluded)
	for i := range steps {
		if !out(i) {
			steady = append(steady, steps[i])
		}
	}
	return steady, excluded
}

// windows returns the logarithm of the time per sample of each window of equal
// step count. A last, shorter window is left out, and so are windows without time
// or samples.
func windows(steps []trace.Step) []float64 {
	n := max(1, len(steps)/maxWindows)
	var logs []float64
	for ; len(steps) >= n; steps = steps[n:] {
		b := Sum(steps[:n])
		if b.Active() > 0 && b.Samples > 0 {
			logs = append(logs, math.Log(float64(b.Active())/float64(b.Samples)))
		}
	}
	return logs
}
