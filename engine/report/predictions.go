package report

import (
	"cmp"
	"fmt"
	"slices"

	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
)

// predictions is the section that sets the prediction for each change beside what the
// change did.
type predictions struct{ *account }

func (p *predictions) write(d *markup.Document) {
	outcomes := predict.Outcomes(p.s, p.rows)
	if !slices.ContainsFunc(outcomes, func(o predict.Outcome) bool { return o.Predicted.Made() }) {
		return
	}
	d.Heading(2, "Predictions")
	table := [][]string{{"segment", "change", ">predicted", ">measured", ">(95 % interval)", "inside"}}
	for i := range outcomes {
		o := &outcomes[i]
		row := &p.rows[o.Row]
		measured := o.Measured
		if !row.VsBefore.Throughput.Tells() {
			measured = units.Rough(measured.Value)
		}
		predicted, inside := "none", "-"
		switch p := o.Predicted; {
		case p.Made() && predict.Vague(p):
			predicted = predict.Untold(p)
		case p.Made():
			predicted, inside = units.Prose.GainRange(predict.Gain(p)), markup.YesNo(o.Inside)
		}
		table = append(table, []string{row.Name(), cmp.Or(o.Change, "-"), predicted,
			units.Prose.Gain(measured), units.Prose.GainRange(measured), inside})
	}
	d.Table(table)
	score := predict.ScoreOf(outcomes)
	if score.Of > 0 {
		d.Sentences(fmt.Sprintf("%s of %s fell inside what was predicted when the change was asked for; the median interval is ±%s of its middle.",
			units.Count(score.Inside), units.Counted(score.Of, "outcome", "outcomes"), units.Prose.Percent(score.HalfWidth())))
	}
	if score.Untold > 0 {
		d.Sentences(fmt.Sprintf("%s had no prediction, or none that tells.", units.Counted(score.Untold, "outcome", "outcomes")))
	}
	d.Sentences(
		"A gain is called not predictable where its interval is too wide to tell the size or the sign; that is not scored.",
		"A prediction is of a model that knows only what was measured before;",
		"where there is none, the model does not know the knob, or there were too few steps to go by.",
		"Measured is the segment's rate over that of the steps from which the prediction was made,",
		"from which no drift is taken out; so it may differ from the change that is told elsewhere.",
		"Where the two took turns, it is what that found.")
}

// feed is the paragraph that answers whether this machine can feed the device.
type feed struct{ *account }

func (f feed) write(d *markup.Document) {
	if question, answer := f.advice.Feed(f.s.Meta.Device); answer != "" {
		d.Para("**%s** %s.", question, markup.Sentence(answer))
	}
}
