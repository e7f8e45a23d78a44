package report

import (
	"cmp"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// tunes is the section of what tunes tried, and of what they left alone.
type tunes struct{ *account }

func (t *tunes) write(d *markup.Document) {
	for i := range t.advice.Experiments {
		if x := &t.advice.Experiments[i]; len(x.Decisions) > 0 {
			tried(d, x)
		}
	}
}

// tried writes the decisions of a tune.
func tried(d *markup.Document, x *attribution.Experiment) {
	d.Heading(2, "What the tune tried")
	d.Para("%s: %s.", markup.Sentence(x.Segments()), x.Text())
	rows := [][]string{{"settings", ">predicted", ">samples/s", ">util.", ">gain", "decided"}}
	var left []string
	for i := range x.Decisions {
		c := &x.Decisions[i]
		if c.After.Steps == 0 {
			left = append(left, c.Text)
			continue
		}
		rows = append(rows, measuredRow(c))
	}
	if len(rows) > 1 {
		d.Table(rows)
		d.Sentences("A gain is against the best settings so far, and of confirmed settings against those at the start, both measured anew.",
			"~ marks one without an interval.")
	}
	for _, text := range left {
		d.Line("- %s.", markup.Sentence(text))
	}
	d.Line("")
}

// measuredRow returns the row of settings that were measured.
func measuredRow(c *trace.Decision) []string {
	rate := func(b *trace.Block) float64 {
		return (&attribution.Side{Samples: b.Samples, Active: b.Active}).SamplesPerSecond()
	}
	predicted, gain := "-", "-"
	switch p := c.Predicted; {
	case p.Made() && predict.Vague(p):
		predicted = predict.Least(p)
	case p.Made():
		predicted = units.Prose.GainRange(predict.Gain(p))
	}
	switch before := rate(&c.Before); {
	case c.Ratio > 0:
		gain = units.Prose.Gain(units.Estimate{Value: c.Ratio, Lo: c.Lo, Hi: c.Hi})
	case before > 0:
		gain = units.Prose.Gain(units.Rough(rate(&c.After) / before))
	}
	busy := units.Prose.Percent(float64(c.After.Busy) / float64(max(c.After.Active, 1)))
	return []string{cmp.Or(knob.Join(c.Knobs, ", "), "those at the start"), predicted, units.Rate(rate(&c.After)), busy, gain, string(c.Verdict)}
}
