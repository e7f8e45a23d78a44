package report

import (
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/units"
)

// predictions sets what was predicted of each change beside what came of it.
func (m *markdown) predictions() {
	outcomes := predict.Outcomes(m.s, m.rows)
	made := 0
	for i := range outcomes {
		if outcomes[i].Predicted.Made() {
			made++
		}
	}
	if made == 0 {
		return
	}
	m.heading(2, "Predictions")
	table := [][]string{{"segment", "change", ">predicted", ">measured", ">(95 % interval)", "inside"}}
	for i := range outcomes {
		o := &outcomes[i]
		measured := o.Measured
		if !m.rows[o.Row].VsBefore.Throughput.Tells() {
			measured = units.Rough(measured.Value)
		}
		row := []string{m.rows[o.Row].Name(), or(o.Change, "-"), "none", units.Prose.Gain(measured), units.Prose.GainRange(measured), yesNo(o.Inside)}
		if o.Predicted.Made() {
			row[2] = units.Prose.GainRange(predict.Gain(o.Predicted))
		}
		table = append(table, row)
	}
	m.table(table)
	inside, of := predict.Score(outcomes)
	m.para("%s of %s fell inside what was predicted when the change was asked for. A prediction is of a model that knows only what was measured before; where there is none, the model does not know the knob, or there were too few steps to go by. Measured is the segment's rate over that of the steps from which the prediction was made, from which no drift is taken out; so it may differ from the change that is told elsewhere.",
		units.Count(inside), units.Counted(of, "outcome", "outcomes"))
}

// feed answers whether this machine can feed the device.
func (m *markdown) feed() {
	if question, answer := m.advice.Feed(m.s.Meta.Device); answer != "" {
		m.para("**%s** %s.", question, sentence(answer))
	}
}
