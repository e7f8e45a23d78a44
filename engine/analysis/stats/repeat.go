package stats

import (
	"fmt"
	"math"

	"dev.gpustall/engine/base/units"
)

// Repeat is what two stretches under equal settings show together.
type Repeat struct {
	Comparison Comparison
	Pooled     bool
	Stretch    Stretch // both as one if they are pooled, else the second
}

// Again pools two stretches under equal settings, unless they differ.
func Again(a, b Stretch, h History, margin float64) Repeat {
	r := Repeat{Comparison: Compare(a, b, h, margin), Stretch: b}
	if r.Comparison.Throughput.Answer != Different {
		r.Pooled, r.Stretch = true, pool(&a, &b)
	}
	return r
}

// String returns the result in a sentence.
func (r Repeat) String() string {
	if r.Pooled {
		return "equal settings, pooled: " + units.Counted(r.Stretch.Steps, "step", "steps")
	}
	t := &r.Comparison.Throughput
	return fmt.Sprintf("the same settings, yet %v: %s", t, t.Why())
}

// Why says what made equal settings differ: a drift where there is one, and in no case a setting.
func (c *Change) Why() string {
	switch before, now := c.Drift[0], c.Drift[1]; {
	case before.Detected && now.Detected:
		return fmt.Sprintf("the step time drifted, %v and then %v", before, now)
	case before.Detected:
		return fmt.Sprintf("the step time drifted before, %v", before)
	case now.Detected:
		return fmt.Sprintf("the step time drifts, %v", now)
	}
	word := "faster"
	if c.Ratio < 1 {
		word = "slower"
	}
	return "no setting made it " + word + ", so the device or the host did"
}

// pool joins two stretches. Its errors are those of a mean of both, weighted by their samples.
func pool(a, b *Stretch) Stretch {
	p := Stretch{
		Blocks: a.Blocks + b.Blocks, Steps: a.Steps + b.Steps,
		Samples: a.Samples + b.Samples, Active: a.Active + b.Active,
	}
	if p.Samples == 0 {
		return p
	}
	share := float64(b.Samples) / float64(p.Samples)
	p.Centre = a.Centre + int64(share*float64(b.Centre-a.Centre))
	p.Step = poolLevels(a, b, &a.Step, &b.Step, share)
	p.Busy = poolLevels(a, b, &a.Busy, &b.Busy, share)
	return p
}

// poolLevels joins the levels of a and b, where share is b's share of the samples.
func poolLevels(a, b *Stretch, la, lb *Level, share float64) Level {
	if la.Mean <= 0 || lb.Mean <= 0 {
		return Level{}
	}
	blocks := a.Blocks + b.Blocks
	weight := float64(b.Blocks) / float64(blocks)
	l := Level{
		Mean:         (1-share)*la.Mean + share*lb.Mean,
		Inefficiency: (1-weight)*la.Inefficiency + weight*lb.Inefficiency,
		Correlation:  max(la.Correlation, lb.Correlation),
	}
	error2 := (1-share)*(1-share)*la.error2(a.Blocks) + share*share*lb.error2(b.Blocks)
	l.Variance = error2 * float64(blocks) / l.Inefficiency
	l.Drift = poolDrifts(la.Drift, lb.Drift)
	return l
}

// poolDrifts returns the mean rate of two drifts, weighted by precision, over the time of both.
func poolDrifts(a, b Drift) Drift {
	if a.Over <= 0 || b.Over <= 0 {
		return Drift{}
	}
	rate := func(d Drift) (rate, precision float64) {
		over := d.Over.Seconds()
		return d.Total / over, 1 / max(d.Error*d.Error/(over*over), resolution)
	}
	ra, pa := rate(a)
	rb, pb := rate(b)
	d := Drift{Over: a.Over + b.Over}
	over := d.Over.Seconds()
	d.Total = (ra*pa + rb*pb) / (pa + pb) * over
	d.Error = over / math.Sqrt(pa+pb)
	d.Detected = math.Abs(d.Total) > halfWidth(d.Error*d.Error)
	return d
}
