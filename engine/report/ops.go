package report

import (
	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
)

// opsShown is how many ops of a segment the report lists; the CSV table has all.
const opsShown = 20

// operations is the appendix about the device's own time: the ops of the baseline and
// of the final settings, side by side, and the loss scale.
type operations struct{ *account }

func (o *operations) write(d *markup.Document) {
	d.Heading(2, "Appendix E: device operations")
	a, b := o.tables()
	switch {
	case a == nil && o.s.Meta.Imported != "":
		d.Para("%s.", markup.Sentence(advice.NoOperators))
	case a == nil:
		d.Para("No operation was timed: %s.", o.none())
	default:
		d.Sentences(o.meaning()...)
		first := opTable{&o.s.Meta, a, o.segmentName(a.Segment.Index)}
		first.write(d)
		if b != nil {
			second := opTable{&o.s.Meta, b, o.segmentName(b.Segment.Index)}
			second.write(d)
			newOpChanges(first, second).write(d)
		}
	}
	o.lossScale(d)
}

// captured reports whether the table is of steps under PyTorch's profiler.
func (o *operations) captured() bool { return knob.ValueOf(o.s.Meta.Host, "torch") != "" }

// none says why there is no table.
func (o *operations) none() string {
	if o.captured() {
		return "no steps were captured; o on the screen does it"
	}
	for i := len(o.s.Segments) - 1; i >= 0; i-- {
		switch knob.ValueOf(o.s.Segments[i].Knobs, "time_ops") {
		case "off":
			return "time_ops was off; --time-ops times them"
		case "":
			return "the session does not say that any step was to be timed"
		}
	}
	return "no timed step was finished; run longer, or with --time-ops"
}

// tables returns the ops of the baseline and of the final settings, or of the nearest
// segments that have ops. b is nil where both are the same segment.
func (o *operations) tables() (a, b *attribution.OpTable) {
	tables := make([]*attribution.OpTable, len(o.rows))
	table := func(i int) *attribution.OpTable {
		if tables[i] == nil {
			t := attribution.Ops(o.s, o.rows[i].Segment)
			tables[i] = &t
		}
		return tables[i]
	}
	from, to := -1, -1
	for i := max(o.first, 0); i < len(o.rows) && from < 0; i++ {
		if len(table(i).Rows) > 0 {
			from = i
		}
	}
	if from < 0 {
		return nil, nil
	}
	for i := max(o.last, from); i >= 0 && to < 0; i-- {
		if i == from || len(table(i).Rows) > 0 {
			to = i
		}
	}
	if to == from {
		return tables[from], nil
	}
	return tables[from], tables[to]
}

// meaning says in sentences what the times mean and what they do not.
func (o *operations) meaning() []string {
	gpu := o.s.Meta.DeviceKind == "cuda"
	if imported := o.s.Meta.Imported != ""; imported || o.captured() {
		of := "the host's own time in it, without the operators that it calls, since nothing ran on a GPU"
		if gpu {
			of = "the time of its kernels and copies, or, where no kernel was recorded, the host's own time in it"
		}
		if imported {
			return []string{"A row is an operator of PyTorch, with one of its kernels where it has any, in all steps of the trace: " + of + "."}
		}
		return []string{
			"A row is an operator of PyTorch in the steps that were captured under its profiler, by o on the screen: " + of + ".",
			"These steps take longer than others and are in no rate.",
		}
	}
	var text []string
	if o.s.Meta.Emulated {
		why := "the times come from a model of the device"
		if gpu {
			why = "the times are the host's, of an emulated driver, and say nothing of a GPU"
		}
		text = append(text, "**Emulated: "+why+".**")
	}
	return append(text,
		"A row is one launch of the training step, over the steps that were timed.",
		"Mean, least, most and total are device time, between two events on the compute stream.",
		"TFLOP/s and GB/s are computed: the floating-point operations, and the fewest bytes, that the op's shape asks for, over its time.",
		"Copies run on a stream of their own, beside the computing.")
}

// lossScale says how fp16's dynamic loss scale changed.
func (o *operations) lossScale(d *markup.Document) {
	l, ok := o.s.LossScale()
	if !ok {
		return
	}
	d.Heading(3, "Loss scale (fp16)")
	if l.Skipped == 0 {
		d.Para("The loss scale is %g; no gradient overflowed, so no update was skipped.", l.Scale)
		return
	}
	d.Para("The loss scale is %g; %s skipped because a gradient overflowed, the latest in step %s.",
		l.Scale, units.Counted(l.Skipped, "update was", "updates were"), units.Count(l.LastOverflow))
}
