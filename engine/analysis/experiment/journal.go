package experiment

import (
	"fmt"
	"math"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// journal writes down what a tune decides, as part of its experiment.
type journal struct {
	e     *Experiment
	space *space
}

func (j *journal) record(d trace.Decision) {
	e := j.e
	d.T = max(e.x.Start, e.looked)
	e.x.Decisions = append(e.x.Decisions, d)
	e.log.Experiment(e.x)
	e.log.Note("info", "tune: "+d.Text)
}

// found records what was measured of the settings at the start.
func (j *journal) found(p *point) {
	j.record(trace.Decision{
		Segment: p.segment, After: p.block, Verdict: trace.Found,
		Text: fmt.Sprintf("at the start: %s samples/s, the device computes %s of the time", units.Rate(p.rate()), units.Prose.Percent(p.util())),
	})
}

// between returns a decision about measured settings, without its text.
func between(before, after *point, c *stats.Change) trace.Decision {
	d := trace.Decision{
		Knobs: advice.Chosen(before.knobs, after.knobs), Segment: after.segment, Before: before.block, After: after.block,
		Answer: c.Answer.String(),
	}
	if c.Tells() && bounded(c) {
		d.Ratio, d.Lo, d.Hi = c.Ratio, c.Lo, c.Hi
	}
	return d
}

// bounded reports whether a change has an interval.
func bounded(c *stats.Change) bool { return c.Lo > 0 && !math.IsInf(c.Hi, 1) }

// trial records what was predicted for a trial, what was measured, and whether it is the
// best so far.
func (j *journal) trial(o *outlook, best, m *point, c *stats.Change, kept bool) {
	d := between(best, m, c)
	d.Predicted = o.against(best.rate())
	d.Verdict = trace.Dropped
	verdict := "dropped"
	switch {
	case kept && j.space.cheaper(m.knobs, best.knobs) && c.Answer == stats.Same:
		d.Verdict, verdict = trace.Best, "kept, for it takes less of the host"
	case kept && c.Answer == stats.Unknown:
		d.Verdict, verdict = trace.Best, "kept for now"
	case kept:
		d.Verdict, verdict = trace.Best, "kept"
	case attribution.Promising(&d):
		verdict = "dropped, as that is not certain within its part of the budget"
	}
	d.Text = fmt.Sprintf("%s: %smeasured %s: %s", say(best.knobs, m.knobs), expected(o, &d.Predicted), told(c, best, m), verdict)
	j.record(d)
}

// expected says why a trial was made.
func expected(o *outlook, p *trace.Prediction) string {
	words := ""
	if o.advised != "" {
		words = "advised (" + o.advised + "), "
	}
	switch {
	case o.light:
		return words + "predicted as fast with fewer workers, "
	case p.Made():
		return words + forecast(p) + ", "
	}
	return words
}

// forecast returns a prediction in words: "predicted +40 % (+20 to +60 %)".
func forecast(p *trace.Prediction) string {
	if predict.Vague(*p) {
		return predict.Untold(*p)
	}
	gain := predict.Gain(*p)
	return "predicted " + units.Prose.Gain(gain) + " (" + units.Prose.GainRange(gain) + ")"
}

// told says what was measured, even where it is not certain.
func told(c *stats.Change, before, after *point) string {
	switch {
	case c.Answer != stats.Unknown:
		return c.String()
	case c.Tells():
		return fmt.Sprintf("%s (%s, which may be chance)", units.Prose.Gain(c.Estimate()), units.Prose.GainRange(c.Estimate()))
	}
	return fmt.Sprintf("%s in %s", units.Prose.Gain(units.Rough(after.rate()/before.rate())), units.Counted(after.block.Steps, "step", "steps"))
}

// again records that the best settings were measured again, because other processes came or
// went while a trial was measured, or may have.
func (j *journal) again(trial, before, after *point, c *stats.Change) {
	d := between(before, after, c)
	d.Verdict = trace.Again
	why := fmt.Sprintf("other processes used %s cores while %s was measured and %s before", units.Cores(trial.others), say(before.knobs, trial.knobs), units.Cores(before.others))
	if math.Abs(trial.others-before.others) < crowd*trial.cores {
		why = fmt.Sprintf("%s was likely to gain and measured slower, while other processes use ~%s cores", say(before.knobs, trial.knobs), units.Cores(trial.others))
	}
	d.Text = fmt.Sprintf("%s, so the best so far is measured again: %s", why, told(c, before, after))
	j.record(d)
}

// proof records how the best settings compare with those at the start, after both were
// measured anew or took turns.
func (j *journal) proof(how string, found, best *point, c *stats.Change, v trace.Verdict, more string) {
	d := between(found, best, c)
	d.Verdict = v
	if more == "" {
		more = map[trace.Verdict]string{trace.Confirmed: "confirmed", trace.Doubted: "not confirmed"}[v]
		if v == trace.Doubted && c.Answer == stats.Unknown {
			more = "not certain"
		}
	}
	d.Text = fmt.Sprintf("%s against the settings at the start, %s: %s: %s", say(j.space.found, best.knobs), how, told(c, found, best), more)
	j.record(d)
}

// refused records a trial that could not be put in force.
func (j *journal) refused(best *point, o *outlook, why string) {
	j.record(trace.Decision{
		Knobs: advice.Chosen(best.knobs, o.knobs), Segment: -1, Predicted: o.against(best.rate()), Verdict: trace.Refused,
		Text: say(best.knobs, o.knobs) + ": could not be put in force: " + why,
	})
}

// wouldTry records the setting that would be tried first.
func (j *journal) wouldTry(best *point, o *outlook) {
	d := trace.Decision{Knobs: advice.Chosen(best.knobs, o.knobs), Segment: -1, Predicted: o.against(best.rate()), Verdict: trace.NotTried}
	d.Text = say(best.knobs, o.knobs) + ": " + expected(o, &d.Predicted) + "would be tried first"
	j.record(d)
}

// notTried records a setting that is not tried, and why. Without a reason it is what is predicted of it.
func (j *journal) notTried(best *point, o *outlook, why string) {
	d := trace.Decision{Knobs: advice.Chosen(best.knobs, o.knobs), Segment: -1, Predicted: o.against(best.rate()), Verdict: trace.NotTried}
	if why == "" && !(d.Predicted.Made() && predict.Vague(d.Predicted)) {
		why = "no gain is expected of it"
	}
	d.Text = fmt.Sprintf("%s: %s: %s", say(best.knobs, o.knobs), trace.NotTried, why)
	switch {
	case why == "":
		d.Text += forecast(&d.Predicted)
	case d.Predicted.Made():
		d.Text += "; " + forecast(&d.Predicted)
	}
	j.record(d)
}

// leaveOut records why knobs are not tried at all.
func (j *journal) leaveOut(text string) {
	j.record(trace.Decision{Segment: -1, Verdict: trace.NotTried, Text: text})
}
