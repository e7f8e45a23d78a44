// Package stats says whether one stretch of training was faster than another. The
// answer is different by so much, the same within a margin, or not known yet and what
// is missing. It holds however often one looks while steps arrive, also for steps that
// are correlated, come in bursts or drift.
//
// A caller sums up each stretch of steady steps under one setting (Measure), tells
// the session's History of it, and compares two of them (Compare). All values are
// plain and can be shown, stored or compared again; nothing here keeps state, does
// I/O or knows what a knob is.
//
// The test behind `make truth` measures how often equal settings are called different
// on simulated hosts, and how soon true differences are found.
package stats

import (
	"fmt"
	"math"
	"time"

	"dev.gpustall/engine/base/units"
)

// Answer is what a comparison says.
type Answer uint8

const (
	Unknown   Answer = iota // not known yet
	Same                    // the same within the margin
	Different               // different, and more than the margin is possible
)

func (a Answer) String() string {
	return [...]string{"not known yet", "the same", "different"}[a]
}

// MarshalText writes the answer as a word, for JSON.
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// DefaultMargin is how far two rates may lie apart and still be called the same.
const DefaultMargin = 0.02

// UnmarshalText reads what MarshalText wrote.
func (a *Answer) UnmarshalText(text []byte) error {
	for v := Unknown; v <= Different; v++ {
		if v.String() == string(text) {
			*a = v
			return nil
		}
	}
	return fmt.Errorf("read a comparison: %q is no answer", text)
}

// Change relates one quantity of B to that of A.
type Change struct {
	Answer  Answer
	Ratio   float64       // B over A, with the drift taken out; 0 when either was not measured
	Lo, Hi  float64       // its time-uniform 95 % confidence interval
	Missing Missing       // what is missing for an answer
	Window  time.Duration // the correlation time used
	Samples [2]float64    // effective samples of A and of B
	Drift   [2]Drift      // of the time on either side; positive where steps get slower
	Drifted float64       // the ratio that the common drift makes, which was taken out of Ratio
}

// Estimate returns the ratio to be written, with its interval. This is the ratio of the two rates
// as measured. If taking the drift out changes the answer, it is the ratio without the drift.
func (c *Change) Estimate() units.Estimate {
	e := units.Estimate{Value: c.Ratio, Lo: c.Lo, Hi: c.Hi}
	if c.Drifted > 0 && !c.decided() {
		e.Value, e.Lo, e.Hi = e.Value*c.Drifted, e.Lo*c.Drifted, e.Hi*c.Drifted
	}
	return e
}

// decided reports whether taking the drift out decided the answer. Then the rates as measured
// would have another answer, or the other sign.
func (c *Change) decided() bool {
	if c.Ratio <= 0 || c.Drifted <= 0 || math.Abs(math.Log(c.Drifted)) < math.Log1p(DefaultMargin) {
		return false
	}
	lo, hi := c.Lo*c.Drifted, c.Hi*c.Drifted
	switch {
	case c.Answer == Same:
		return hi > 1+DefaultMargin || lo < 1/(1+DefaultMargin)
	case c.Answer == Different && c.Ratio > 1:
		return lo <= 1
	case c.Answer == Different:
		return hi >= 1
	}
	return c.Missing.What == Precision && (lo > 1 || hi < 1)
}

// vague is the ratio between the ends of an interval from which on the interval says
// nothing.
const vague = 2

// Tells reports whether the interval is worth showing. It is if there is an answer, or if there
// are enough steps and the ends are close enough to say something.
func (c *Change) Tells() bool {
	return c.Answer != Unknown || c.Missing.What == Precision && c.Hi < vague*c.Lo
}

// earlyWindows is how many independent windows each side must have before the sign alone is told.
const earlyWindows = 4

// Early reports whether it is certain that B is faster, or that it is slower, while there are too few
// windows to tell by how much. more is about how long until there are enough. The interval is
// time-uniform only for looks that begin with enough windows. So here the change must be twice as
// large as half of the interval.
func (c *Change) Early() (more time.Duration, certain bool) {
	if c.Missing.What != Windows || c.Missing.Side == 0 || c.Ratio <= 0 || min(c.Samples[0], c.Samples[1]) < earlyWindows {
		return 0, false
	}
	more = time.Duration((c.Missing.Want - c.Missing.Have) * float64(c.Window))
	return more, math.Abs(math.Log(c.Ratio)) > 2*math.Log(c.Hi/c.Ratio)
}

// String returns the answer in words: "-24 % (-29 to -18 %)", "the same (-0.4 to +1.2 %)", "not
// significant yet: 12 of 50 steps".
func (c *Change) String() string {
	switch c.Answer {
	case Different:
		return fmt.Sprintf("%s%s (%s)", units.Prose.Gain(c.Estimate()), c.Mark(), units.Prose.GainRange(c.Estimate()))
	case Same:
		return fmt.Sprintf("%v%s (%s)", c.Answer, c.Mark(), units.Prose.GainRange(c.Estimate()))
	}
	return c.Undecided()
}

// Undecided says why there is no answer: "not significant yet: 12 of 50 steps".
func (c *Change) Undecided() string {
	if c.Missing.What == Measurement {
		return c.Missing.String()
	}
	return fmt.Sprintf("not significant yet: %v", c.Missing)
}

// DriftMark stands beside a change that has a LessDrift text, because the two rates shown would
// make another change.
const DriftMark = "without drift"

// LessDrift says how much of the change as measured is the host's drift, if Estimate leaves it out because that
// decided the answer: "host drift explains x1.30 of the +45 % as measured, and is taken out of the change".
func (c *Change) LessDrift() string {
	if !c.decided() {
		return ""
	}
	plain := units.Rough(c.Ratio * c.Drifted)
	return fmt.Sprintf("host drift explains x%.2f of the %s as measured, and is taken out of the change", c.Drifted, units.Prose.Gain(plain))
}

// Mark returns DriftMark with a space before it, to stand behind the change. It is empty where
// LessDrift is.
func (c *Change) Mark() string {
	if c.LessDrift() == "" {
		return ""
	}
	return " " + DriftMark
}

// Comparison is how B relates to A.
type Comparison struct {
	Margin     float64
	Throughput Change // samples a second
	Busy       Change // busy time a sample
	Pairs      int    // pairs compared; 0 where two stretches are compared
}

// Compare relates B to A. It compares what is left when the drift that both sides share is taken
// out.
//
// margin is how far two rates may lie apart and still be called the same, usually DefaultMargin.
// Even a certain difference is called the same, if it is certainly within the margin.
//
// The answers hold for this pair however often one looks while A or B grow: of 100 comparisons of
// equal settings at most 5 ever say different. Where m candidates are compared with one baseline on
// one screen, each pair keeps its 5 in 100. So one of ten such rows may be wrong in up to 40 of 100
// sessions: a screen compares, it does not pick. Whoever picks the best of m confirms the pick with
// steps of its own, as tuning does.
func Compare(a, b Stretch, h History, margin float64) Comparison {
	c := Comparison{
		Margin:     margin,
		Throughput: change([2]side{{Stretch: &a, Level: &a.Step}, {Stretch: &b, Level: &b.Step}}, h, margin),
		Busy:       change([2]side{{Stretch: &a, Level: &a.Busy}, {Stretch: &b, Level: &b.Busy}}, h, margin),
	}
	c.Throughput.invert()
	return c
}

// invert turns the change of a rate into the change of a time, or the change of B against A
// into that of A against B.
func (c *Change) invert() {
	if c.Ratio > 0 {
		c.Ratio, c.Lo, c.Hi, c.Drifted = 1/c.Ratio, 1/c.Hi, 1/c.Lo, 1/c.Drifted
	}
}

// Inverse returns the change of a time, where c is the change of its rate.
func (c *Change) Inverse() Change {
	of := *c
	of.invert()
	return of
}

// Reversed returns the comparison of A with B.
func (c Comparison) Reversed() Comparison {
	for _, of := range [...]*Change{&c.Throughput, &c.Busy} {
		of.invert()
		of.Samples[0], of.Samples[1] = of.Samples[1], of.Samples[0]
		of.Drift[0], of.Drift[1] = of.Drift[1], of.Drift[0]
		of.Missing.Side = 1 - of.Missing.Side
	}
	return c
}

// decide sets the answer from an estimate of the logarithm of the ratio and half the width of its
// interval.
func (c *Change) decide(log, half, margin float64) {
	switch edge := math.Log1p(margin); {
	case math.Abs(log)+half < edge:
		c.Answer = Same
	case math.Abs(log) > half:
		c.Answer = Different
	default:
		c.Missing = Missing{What: Precision, Have: math.Expm1(half), Want: margin}
	}
}

// side is one of the two that are compared.
type side struct {
	*Stretch
	*Level
	samples  float64 // effective
	variance float64 // of log(Mean)
}

// resolution is the smallest variance of log(Mean) that a clock can resolve: a smaller one
// counts as this.
const resolution = 1e-12

// trusted is how many correlation times a side must last for its own estimate to count, even where
// the other side or the session's history has a longer one.
const trusted = 50

// change compares the times of two sides.
//
// Each side is judged as if both were alike, because rare or slow effects may not have shown yet on
// the shorter side. So a side's correlation time is at least the other's and the history's, unless
// the side is trusted. And its long-run variance is at least that of both together.
func change(sides [2]side, h History, margin float64) Change {
	a, b := &sides[0], &sides[1]
	c := Change{Drift: [2]Drift{a.Drift, b.Drift}}
	if a.Mean <= 0 || b.Mean <= 0 {
		for i := range sides {
			sides[i].samples = float64(sides[i].Blocks) // at the most
		}
		if c.Missing = missing(&sides); c.Missing.What == Nothing {
			c.Missing = Missing{What: Measurement}
		}
		return c
	}
	longest := max(a.Correlation, b.Correlation, h.Longest)
	pooled := 0.0 // long-run variance over 1 ns
	for i := range sides {
		s := &sides[i]
		pooled += s.error2(s.Blocks) * float64(s.Active) * float64(s.Active)
	}
	pooled /= float64(a.Active + b.Active)
	for i := range sides {
		s := &sides[i]
		active, blocks := float64(s.Active), float64(s.Blocks)
		window, inefficiency := s.Correlation, s.Inefficiency
		if window < longest && s.Active < trusted*longest {
			window = longest
			inefficiency = max(inefficiency, float64(window)*blocks/active)
		}
		c.Window = max(c.Window, window)
		s.samples = min(active/float64(window), blocks/max(1, s.Inefficiency))
		c.Samples[i] = s.samples
		s.variance = max(s.Variance*inefficiency/blocks, pooled/active, resolution)
		// The variance is itself an estimate, at first from few effective samples.
		few := 1 + 2/s.samples
		s.variance *= few * few
	}
	// A drift is not extrapolated over a gap that is longer than what was measured.
	reach := float64(a.Active+b.Active) / 2
	shift, uncertain := between(&sides, max(-reach, min(float64(b.Centre-a.Centre), reach)))
	log := math.Log(b.Mean/a.Mean) - shift
	half := halfWidth(a.variance + b.variance + uncertain)
	c.Ratio, c.Lo, c.Hi, c.Drifted = math.Exp(log), math.Exp(log-half), math.Exp(log+half), math.Exp(shift)
	if c.Missing = missing(&sides); c.Missing.What != Nothing {
		return c
	}
	c.decide(log, half, margin)
	if c.Missing.What == Precision {
		c.Missing.More = later(b.Active, a.variance+b.variance+uncertain, b.variance, log, half, margin)
	}
	return c
}
