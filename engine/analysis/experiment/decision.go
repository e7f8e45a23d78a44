package experiment

import (
	"fmt"
	"math"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// record writes a decision down.
func (t *tuner) record(d trace.Decision) {
	e := t.e
	d.T = max(e.x.Start, e.looked)
	e.x.Decisions = append(e.x.Decisions, d)
	e.log.Experiment(e.x)
	e.log.Note("info", "tune: "+d.Text)
}

// recordFound tells of the settings at the start.
func (t *tuner) recordFound() {
	p := t.best()
	t.record(trace.Decision{
		Segment: p.segment, After: p.block, Verdict: trace.Found,
		Text: fmt.Sprintf("at the start: %s samples/s, the device computes %s of the time", units.Rate(p.rate()), units.Prose.Percent(p.util())),
	})
}

// between is a decision about settings that were measured, without its text.
func between(before, after *point, c *stats.Change) trace.Decision {
	d := trace.Decision{
		Knobs: advice.Chosen(before.knobs, after.knobs), Segment: after.segment, Before: before.block, After: after.block,
		Answer: c.Answer.String(),
	}
	if bounded(c) {
		d.Ratio, d.Lo, d.Hi = c.Ratio, c.Lo, c.Hi
	}
	return d
}

// bounded reports whether a change has an interval.
func bounded(c *stats.Change) bool { return c.Lo > 0 && !math.IsInf(c.Hi, 1) }

// recordTrial tells what was predicted of a trial, what was measured, and whether it is the
// best so far.
func (t *tuner) recordTrial(best, m *point, c *stats.Change, kept bool) {
	d := between(best, m, c)
	d.Predicted = t.trial.against(best.rate())
	d.Verdict = trace.Dropped
	verdict := "dropped"
	switch {
	case kept && t.space.cheaper(m.knobs, best.knobs) && c.Answer == stats.Same:
		d.Verdict, verdict = trace.Best, "kept, for it takes less of the host"
	case kept && c.Answer == stats.Unknown:
		d.Verdict, verdict = trace.Best, "kept for now"
	case kept:
		d.Verdict, verdict = trace.Best, "kept"
	}
	d.Text = fmt.Sprintf("%s: %smeasured %s: %s", say(best.knobs, m.knobs), t.expected(&d.Predicted), told(c, best, m), verdict)
	t.record(d)
}

// expected says why a trial was made.
func (t *tuner) expected(p *trace.Prediction) string {
	words := ""
	if t.trial.advised != "" {
		words = "advised (" + t.trial.advised + "), "
	}
	switch {
	case t.light:
		return words + "predicted as fast with fewer workers, "
	case p.Made():
		return words + "predicted " + forecast(p) + ", "
	}
	return words
}

// forecast is a prediction in words: "+40 % (+20 to +60 %)".
func forecast(p *trace.Prediction) string {
	gain := predict.Gain(*p)
	return units.Prose.Gain(gain) + " (" + units.Prose.GainRange(gain) + ")"
}

// told is what was measured, in words, also where it is not known for sure.
func told(c *stats.Change, before, after *point) string {
	switch {
	case c.Answer != stats.Unknown:
		return c.String()
	case c.Tells():
		return fmt.Sprintf("%s (%s, which may be chance)", units.Prose.Gain(c.Estimate()), units.Prose.GainRange(c.Estimate()))
	}
	return fmt.Sprintf("%s in %s", units.Prose.Gain(units.Rough(after.rate()/before.rate())), units.Counted(after.block.Steps, "step", "steps"))
}

// recordAgain tells that the best settings were measured again, and why.
func (t *tuner) recordAgain(before, after *point) {
	c := t.compare(before, after)
	d := between(before, after, &c)
	d.Verdict = trace.Again
	d.Text = fmt.Sprintf("other processes used %s cores while %s was measured and %s before, so the best so far is measured again: %s",
		units.Cores(t.held.others), say(before.knobs, t.held.knobs), units.Cores(before.others), told(&c, before, after))
	t.record(d)
}

// recordProof tells how the best settings compare with those found when both are measured
// anew.
func (t *tuner) recordProof(m *point, c *stats.Change, v trace.Verdict, more string) {
	d := between(&t.fresh, m, c)
	d.Verdict = v
	if more == "" {
		more = map[trace.Verdict]string{trace.Confirmed: "confirmed", trace.Doubted: "not confirmed"}[v]
	}
	how := "both measured anew"
	if t.pairing() {
		how = "taking turns"
	}
	d.Text = fmt.Sprintf("%s against the settings at the start, %s: %s: %s", say(t.e.found, m.knobs), how, told(c, &t.fresh, m), more)
	t.record(d)
}

// recordRefused tells of a trial that could not be put in force.
func (t *tuner) recordRefused(why string) {
	t.record(trace.Decision{
		Knobs: advice.Chosen(t.best().knobs, t.trial.knobs), Segment: -1, Predicted: t.trial.against(t.best().rate()), Verdict: trace.Refused,
		Text: say(t.best().knobs, t.trial.knobs) + ": could not be put in force: " + why,
	})
}

// leave tells of a setting that is not tried, and why.
func (t *tuner) leave(o *outlook, why string) {
	best := t.best()
	d := trace.Decision{Knobs: advice.Chosen(best.knobs, o.knobs), Segment: -1, Predicted: o.against(best.rate()), Verdict: trace.NotTried}
	d.Text = say(best.knobs, o.knobs) + ": "
	if d.Predicted.Made() {
		d.Text += "predicted " + forecast(&d.Predicted) + ", "
	}
	d.Text += why + ": " + string(trace.NotTried)
	t.record(d)
}
