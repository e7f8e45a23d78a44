// Package stats says whether one stretch of training was faster than another:
// different by so much, the same within a margin, or not known yet and what is
// missing. It holds however often the answer is looked at while steps arrive, and for
// steps that are correlated, come in bursts or drift.
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

// MarshalText makes the answer readable in JSON.
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
	Ratio   float64       // B over A, less the drift; 0 when either was not measured
	Lo, Hi  float64       // its time-uniform 95 % confidence interval
	Missing Missing       // what is missing while the answer is not known yet
	Window  time.Duration // the correlation time used
	Samples [2]float64    // effective samples of A and of B
	Drift   [2]Drift      // of the time on either side: a positive drift is a slower one
	Drifted float64       // what the drift common to both makes of the ratio, taken out of Ratio
}

// Estimate is the ratio with its interval, to be written.
func (c *Change) Estimate() units.Estimate {
	return units.Estimate{Value: c.Ratio, Lo: c.Lo, Hi: c.Hi}
}

// vague is the ratio of the ends of an interval from which it says nothing.
const vague = 2

// Tells reports whether the interval is worth showing: that of an answer, or of enough
// steps while its ends do not lie so far apart that they say nothing.
func (c *Change) Tells() bool {
	return c.Answer != Unknown || c.Missing.What == Precision && c.Hi < vague*c.Lo
}

// String says the answer: "-24 % (-29 to -18 %)", "the same (-0.4 to +1.2 %)", "not
// known yet: 12 of 50 steps".
func (c *Change) String() string {
	switch c.Answer {
	case Different:
		return fmt.Sprintf("%s (%s)", units.Prose.Gain(c.Estimate()), units.Prose.GainRange(c.Estimate()))
	case Same:
		return fmt.Sprintf("%v (%s)", c.Answer, units.Prose.GainRange(c.Estimate()))
	}
	return fmt.Sprintf("%v: %v", c.Answer, c.Missing)
}

// DriftMark stands beside a change that LessDrift has something to say of: the rates of
// the two would make another.
const DriftMark = "less drift"

// LessDrift says how far apart the two were measured, where that differs from Ratio
// because a drift was taken out; empty where that is little.
func (c *Change) LessDrift() string {
	if c.Ratio <= 0 || c.Drifted <= 0 || math.Abs(math.Log(c.Drifted)) < math.Log1p(DefaultMargin) {
		return ""
	}
	drifted, plain := units.Rough(c.Drifted), units.Rough(c.Ratio*c.Drifted)
	return fmt.Sprintf("as measured the two lie %s apart; they drifted while no setting changed, which made %s of that and is taken out of the change", units.Prose.Gain(plain), units.Prose.Gain(drifted))
}

// Mark is DriftMark with a space before it, where it is to stand behind the change; else empty.
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
	Pairs      int    // that it rests on; 0 where it is of two stretches
}

// Compare relates B to A. margin is how far two rates may lie apart and still be
// called the same, usually DefaultMargin; the same is said of a difference that is
// certain too, when it is certainly within the margin. What is compared is what is left
// when the drift that both sides share is taken out.
//
// The answers hold for this pair however often one looks while A or B grow: of 100
// comparisons of equal settings at most 5 ever say different. Of m candidates compared
// with one baseline on one screen each pair keeps its 5 in 100, so that one of ten such
// rows may be wrong in up to 40 of 100 sessions: a screen compares, it does not pick. Who
// picks the best of m confirms the pick with steps of its own, as tuning does.
func Compare(a, b Stretch, h History, margin float64) Comparison {
	c := Comparison{
		Margin:     margin,
		Throughput: change([2]side{{Stretch: &a, Level: &a.Step}, {Stretch: &b, Level: &b.Step}}, h, margin),
		Busy:       change([2]side{{Stretch: &a, Level: &a.Busy}, {Stretch: &b, Level: &b.Busy}}, h, margin),
	}
	c.Throughput.invert()
	return c
}

// invert makes the change of a rate of that of a time, or that of A against B.
func (c *Change) invert() {
	if c.Ratio > 0 {
		c.Ratio, c.Lo, c.Hi, c.Drifted = 1/c.Ratio, 1/c.Hi, 1/c.Lo, 1/c.Drifted
	}
}

// Inverse is the change of a time where this is that of its rate.
func (c *Change) Inverse() Change {
	of := *c
	of.invert()
	return of
}

// Reversed is the comparison of A with B.
func (c Comparison) Reversed() Comparison {
	for _, of := range [...]*Change{&c.Throughput, &c.Busy} {
		of.invert()
		of.Samples[0], of.Samples[1] = of.Samples[1], of.Samples[0]
		of.Drift[0], of.Drift[1] = of.Drift[1], of.Drift[0]
		of.Missing.Side = 1 - of.Missing.Side
	}
	return c
}

// decide answers by an estimate of the logarithm of the ratio, give or take half.
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

// resolution is the variance of log(Mean) below which the clock tells nothing.
const resolution = 1e-12

// trusted is how many correlation times a side must last before its own estimate
// stands against a longer one of the other side or of the session's history.
const trusted = 50

// change compares the times of two sides.
//
// Both are taken for what they would be if they were alike, because what is rare or
// slow may not have shown on the shorter side yet: neither side's correlation time is
// shorter than the other's or the history's, unless the side is trusted, and neither's
// long-run variance is below that of both together.
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
	pooled := 0.0 // long-run variance, of 1 ns
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
		// The variance is itself an estimate, from few effective samples at first.
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
	return c
}
