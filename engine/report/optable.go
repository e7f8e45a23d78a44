package report

import (
	"cmp"
	"fmt"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// opTable is the ops of one segment.
type opTable struct {
	meta *trace.Meta
	*attribution.OpTable
	name string // of the segment
}

func (t *opTable) write(d *markup.Document) {
	d.Heading(3, fmt.Sprintf("Segment %s: top operations by device time", t.name))
	d.Sentences(t.timedSteps()...)
	ops := t.Group(attribution.ByOp)
	attribution.SortOps(ops)
	rows := [][]string{{"op", "layer", ">mean", ">least", ">most", ">of ops", ">TFLOP/s", ">GB/s"}}
	var rest attribution.OpRow
	for i := range ops {
		r := &ops[i]
		if i >= opsShown {
			rest.Add(r)
			continue
		}
		rows = append(rows, opCells(r, r.Name))
	}
	if rest.Ops > 0 {
		rows = append(rows, opCells(&rest, units.Counted(rest.Ops, "op more", "ops more")))
	}
	d.Table(filled(rows))
	if text := t.copies(); text != "" {
		d.Para("%s", text)
	}
	kernels(d, ops)
	t.groups(d, attribution.ByKind, "by op", func(r *attribution.OpRow) string { return r.Name })
	t.groups(d, attribution.ByPhase, "by phase", func(r *attribution.OpRow) string { return r.Phase })
}

// timedSteps says what the table rests on and what timing the steps cost.
func (t *opTable) timedSteps() []string {
	if t.meta.Imported != "" {
		return []string{units.Counted(t.Steps, "step", "steps") + " of the trace."}
	}
	knobs := t.Segment.Knobs
	timed := fmt.Sprintf("Timed: %s of %s", units.Count(t.Timed), units.Counted(t.Steps, "step", "steps"))
	if how := knob.ValueOf(knobs, "time_ops"); how != "" {
		timed += " (time_ops=" + how + ")"
	}
	if p := knob.ValueOf(knobs, "precision"); p != "" {
		timed += ", " + p
	}
	if n := knob.ValueOf(knobs, "batch_size"); n != "" {
		timed += ", batch_size " + n
	}
	text := []string{timed + "."}
	switch {
	case !finite(t.Extra):
	case t.Extra > 0:
		text = append(text, fmt.Sprintf("By the medians, a timed step took %s longer than the others, which makes %s of the segment's time.",
			units.Prose.PercentOf(units.Rough(t.Extra)), units.Prose.PercentOf(units.Rough(t.Cost()))))
	default:
		text = append(text, "By the medians, a timed step took no longer than the others.")
	}
	if knob.On(knob.ValueOf(knobs, "capture")) && t.meta.DeviceKind == "cuda" {
		if t.Timed == t.Steps {
			return append(text, "Every step was timed, so none replayed the captured graph that was asked for.")
		}
		return append(text, "The other steps replayed a captured graph; a timed step launches its kernels one by one.")
	}
	return text
}

// copies tells of the copies to the device, over all steps of the segment.
func (t *opTable) copies() string {
	if t.Steps == 0 || t.Copy == 0 {
		return ""
	}
	text := fmt.Sprintf("Beside them, copies to the device took %s a step (%s of the time",
		units.Prose.Time(t.Copy/int64(t.Steps)), units.Prose.Percent(t.CopyShare))
	if t.CopyBytes > 0 {
		text += ", at " + units.Prose.Transfer(float64(t.CopyBytes)/float64(t.Copy)*1e9)
	}
	return text + ")."
}

// groups writes the sums over groups of ops.
func (t *opTable) groups(d *markup.Document, by attribution.OpGroup, head string, name func(*attribution.OpRow) string) {
	groups := t.Group(by)
	if len(groups) < 2 {
		return
	}
	attribution.SortOps(groups)
	rows := [][]string{{head, ">ops", ">calls", ">total", ">of ops", ">of step", ">TFLOP/s", ">GB/s"}}
	for i := range groups {
		r := &groups[i]
		rows = append(rows, []string{cmp.Or(name(r), "-"), itoa(int64(r.Ops)), units.Count(r.Calls), units.Prose.Time(r.Total),
			units.Prose.Percent(r.Share), units.Prose.Percent(r.Step), units.Rate(r.TFLOPs()), units.Rate(r.GBs())})
	}
	d.Table(filled(rows))
}

// kernels names the kernel variants of the listed ops, where the device has several.
func kernels(d *markup.Document, ops []attribution.OpRow) {
	rows := [][]string{{"op", "layer", "kernel"}}
	for i := range ops[:min(opsShown, len(ops))] {
		if r := &ops[i]; r.Variant != "" {
			rows = append(rows, []string{r.Name, cmp.Or(r.Layer, "-"), r.Variant})
		}
	}
	if len(rows) > 1 {
		d.Table(rows)
	}
}

// opCells returns the cells of an op's row.
func opCells(r *attribution.OpRow, name string) []string {
	least, most := "-", "-"
	if r.Max > 0 {
		least, most = units.Prose.Time(r.Min), units.Prose.Time(r.Max)
	}
	return []string{name, cmp.Or(r.Layer, "-"), timeOf(r.Mean()), least, most,
		units.Prose.Percent(r.Share), units.Rate(r.TFLOPs()), units.Rate(r.GBs())}
}
