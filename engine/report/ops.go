package report

import (
	"fmt"
	"math"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
)

// opsShown is how many ops of a segment the report lists; the CSV table has all.
const opsShown = 20

// operations tells where the device's own time went: the ops of the baseline and
// of the final settings, side by side, and the memory.
func (m *markdown) operations() {
	m.heading(2, "Appendix E: device operations")
	a, b := m.opSegments()
	if a == nil && m.s.Meta.Imported != "" {
		m.para("%s.", sentence(advice.NoOperators))
	} else if a == nil {
		m.para("No operation was timed: %s.", m.noOps())
	} else {
		m.para("%s", m.opsMeaning())
		m.opTable(a)
		if b != nil {
			m.opTable(b)
			m.opChanges(a, b)
		}
	}
	m.lossScale()
}

// captured reports whether the table is of steps under PyTorch's profiler.
func (m *markdown) captured() bool { return knob.ValueOf(m.s.Meta.Host, "torch") != "" }

// noOps says why there is no table.
func (m *markdown) noOps() string {
	if m.captured() {
		return "no steps were captured; o on the screen does it"
	}
	for i := len(m.s.Segments) - 1; i >= 0; i-- {
		switch knob.ValueOf(m.s.Segments[i].Knobs, "time_ops") {
		case "off":
			return "time_ops was off; --time-ops times them"
		case "":
			return "the session does not say that any step was to be timed"
		}
	}
	return "no timed step was finished; run longer, or with --time-ops"
}

// opSegments are the tables of the baseline and of the final settings: the nearest
// segments that have one.
func (m *markdown) opSegments() (a, b *attribution.OpTable) {
	tables := make([]*attribution.OpTable, len(m.rows))
	table := func(i int) *attribution.OpTable {
		if tables[i] == nil {
			t := attribution.Ops(m.s, m.rows[i].Segment)
			tables[i] = &t
		}
		return tables[i]
	}
	from, to := -1, -1
	for i := max(m.first, 0); i < len(m.rows) && from < 0; i++ {
		if len(table(i).Rows) > 0 {
			from = i
		}
	}
	if from < 0 {
		return nil, nil
	}
	for i := max(m.last, from); i >= 0 && to < 0; i-- {
		if i == from || len(table(i).Rows) > 0 {
			to = i
		}
	}
	if to == from {
		return tables[from], nil
	}
	return tables[from], tables[to]
}

// opsMeaning says what the times are, and what they are not.
func (m *markdown) opsMeaning() string {
	if imported := m.s.Meta.Imported != ""; imported || m.captured() {
		of := "the host's own time in it, without the operators that it calls, since nothing ran on a GPU"
		if m.s.Meta.DeviceKind == "cuda" {
			of = "the time of its kernels and copies, or, where no kernel was recorded, the host's own time in it"
		}
		if imported {
			return "A row is an operator of PyTorch, with one of its kernels where it has any, in all steps of the trace: " + of + "."
		}
		return "A row is an operator of PyTorch in the steps that were captured under its profiler, by o on the screen: " + of + ". These steps take longer than others and are in no rate."
	}
	text := "A row is one launch of the training step, over the steps that were timed. Mean, least, most and total are device time, between two events on the compute stream. " +
		"TFLOP/s and GB/s are computed: the floating-point operations, and the fewest bytes, that the op's shape asks for, over its time. " +
		"Copies run on a stream of their own, beside the computing."
	if m.s.Meta.Emulated {
		why := "the times come from a model of the device"
		if m.s.Meta.DeviceKind == "cuda" {
			why = "the times are the host's, of an emulated driver, and say nothing of a GPU"
		}
		text = "**Emulated: " + why + ".** " + text
	}
	return text
}

// opTable lists a segment's ops.
func (m *markdown) opTable(t *attribution.OpTable) {
	name := m.segmentName(t.Segment.Index)
	m.heading(3, fmt.Sprintf("Segment %s: top operations by device time", name))
	m.para("%s", m.timedSteps(t))
	rows := [][]string{{"op", "layer", ">mean", ">least", ">most", ">of ops", ">TFLOP/s", ">GB/s"}}
	ops := t.Group(attribution.ByOp)
	attribution.SortOps(ops)
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
	m.table(filled(rows))
	if text := copies(t); text != "" {
		m.para("%s", text)
	}
	m.kernels(ops)
	for _, g := range []struct {
		by   attribution.OpGroup
		head string
		name func(*attribution.OpRow) string
	}{
		{attribution.ByKind, "by op", func(r *attribution.OpRow) string { return r.Name }},
		{attribution.ByPhase, "by phase", func(r *attribution.OpRow) string { return r.Phase }},
	} {
		m.opGroups(t, g.by, g.head, g.name)
	}
}

// kernels names the kernel variants of the listed ops, where the device has several.
func (m *markdown) kernels(ops []attribution.OpRow) {
	rows := [][]string{{"op", "layer", "kernel"}}
	for i := range ops[:min(opsShown, len(ops))] {
		if r := &ops[i]; r.Variant != "" {
			rows = append(rows, []string{r.Name, or(r.Layer, "-"), r.Variant})
		}
	}
	if len(rows) > 1 {
		m.table(rows)
	}
}

func (m *markdown) opGroups(t *attribution.OpTable, by attribution.OpGroup, head string, name func(*attribution.OpRow) string) {
	groups := t.Group(by)
	if len(groups) < 2 {
		return
	}
	attribution.SortOps(groups)
	rows := [][]string{{head, ">ops", ">calls", ">total", ">of ops", ">of step", ">TFLOP/s", ">GB/s"}}
	for i := range groups {
		r := &groups[i]
		rows = append(rows, []string{or(name(r), "-"), itoa(int64(r.Ops)), units.Count(r.Calls), units.Prose.Time(r.Total), units.Prose.Percent(r.Share), units.Prose.Percent(r.Step), units.Rate(r.TFLOPs()), units.Rate(r.GBs())})
	}
	m.table(filled(rows))
}

func opCells(r *attribution.OpRow, name string) []string {
	least, most := "-", "-"
	if r.Max > 0 {
		least, most = units.Prose.Time(r.Min), units.Prose.Time(r.Max)
	}
	return []string{name, or(r.Layer, "-"), units.Prose.Time(int64(math.Round(r.Mean()))), least, most, units.Prose.Percent(r.Share), units.Rate(r.TFLOPs()), units.Rate(r.GBs())}
}

// copies tells of the copies to the device, over all steps of the segment.
func copies(t *attribution.OpTable) string {
	if t.Steps == 0 || t.Copy == 0 {
		return ""
	}
	text := fmt.Sprintf("Beside them, copies to the device took %s a step (%s of the time", units.Prose.Time(t.Copy/int64(t.Steps)), units.Prose.Percent(t.CopyShare))
	if t.CopyBytes > 0 {
		text += ", at " + units.Prose.Transfer(float64(t.CopyBytes)/float64(t.Copy)*1e9)
	}
	return text + ")."
}

// timedSteps says what the table rests on and what it cost.
func (m *markdown) timedSteps(t *attribution.OpTable) string {
	if m.s.Meta.Imported != "" {
		return units.Counted(t.Steps, "step", "steps") + " of the trace."
	}
	knobs := t.Segment.Knobs
	s := fmt.Sprintf("Timed: %s of %s", units.Count(t.Timed), units.Counted(t.Steps, "step", "steps"))
	if how := knob.ValueOf(knobs, "time_ops"); how != "" {
		s += " (time_ops=" + how + ")"
	}
	if p := knob.ValueOf(knobs, "precision"); p != "" {
		s += ", " + p
	}
	if n := knob.ValueOf(knobs, "batch_size"); n != "" {
		s += ", batch_size " + n
	}
	s += "."
	if finite(t.Extra) {
		if t.Extra > 0 {
			s += fmt.Sprintf(" By the medians, a timed step took %s longer than the others, which makes %s of the segment's time.", units.Prose.PercentOf(units.Rough(t.Extra)), units.Prose.PercentOf(units.Rough(t.Cost())))
		} else {
			s += " By the medians, a timed step took no longer than the others."
		}
	}
	if knob.On(knob.ValueOf(knobs, "capture")) && m.s.Meta.DeviceKind == "cuda" {
		if t.Timed == t.Steps {
			s += " Every step was timed, so none replayed the captured graph that was asked for."
		} else {
			s += " The other steps replayed a captured graph; a timed step launches its kernels one by one."
		}
	}
	return s
}

// fewTimed is how many timed steps of a segment make its means worth comparing
// without a word about chance.
const fewTimed = 30

// segmentName is a segment's letter or number.
func (m *markdown) segmentName(index int32) string {
	for i := range m.rows {
		if m.rows[i].Segment.Index == index {
			return m.rows[i].Name()
		}
	}
	return "#" + itoa(int64(index))
}
