package report

import (
	"dev.gpustall/engine/figures"
)

// memoryTable is the device memory by segment.
func (m *markdown) memoryTable() {
	rows := [][]string{{"segment", "change", ">memory held", ">memory planned"}}
	for i := range m.s.Segments {
		g := &m.s.Segments[i]
		held := m.s.HeldBytes(g)
		if held == 0 {
			continue
		}
		planned := "-"
		if p := m.s.PlannedBytes(g.Start); p > 0 {
			planned = figures.Prose.Bytes(p)
		}
		rows = append(rows, []string{m.segmentName(g.Index), or(g.Reason, "-"), figures.Prose.Bytes(held), planned})
	}
	peak := m.s.PeakBytes()
	if len(rows) == 1 && peak == 0 {
		return
	}
	m.heading(3, "Device memory")
	if peak > 0 {
		m.para("Peak over the whole run: %s.", figures.Prose.Bytes(peak))
	}
	if len(rows) > 1 {
		m.table(rows)
		m.para("Held is the most that was allocated under these settings, planned the most that the run had planned for until then, before it allocated any.")
	}
}

// lossScale tells how fp16's dynamic loss scale fared.
func (m *markdown) lossScale() {
	l, ok := m.s.LossScale()
	if !ok {
		return
	}
	m.heading(3, "Loss scale (fp16)")
	if l.Skipped == 0 {
		m.para("The loss scale is %g; no gradient overflowed, so no update was skipped.", l.Scale)
		return
	}
	m.para("The loss scale is %g; %s skipped because a gradient overflowed, the latest in step %s.",
		l.Scale, figures.Counted(l.Skipped, "update was", "updates were"), figures.Count(l.LastOverflow))
}
