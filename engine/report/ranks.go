package report

import (
	"strconv"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
)

// parts tells what the script's own time in a step goes to.
func (m *markdown) parts() {
	ranks := m.s.Ranks(0, m.s.Now)
	if len(ranks) == 0 {
		return
	}
	parts := ranks[0].Parts()
	if len(parts) == 0 {
		return
	}
	m.heading(2, "The script's step")
	rows := [][]string{{"part", ">a step", ">of it"}}
	for _, p := range parts {
		rows = append(rows, []string{p.Name, units.Prose.Time(p.Step), units.Prose.Percent(p.Share)})
	}
	m.table(rows)
	of := ""
	if len(ranks) > 1 {
		of = " of rank " + strconv.Itoa(ranks[0].Rank)
	}
	text := "The time of the training loop" + of + " on the host, over all steps but the first. The first part lasts from asking for a batch to having it, whatever the loop waits for, a core for instance, and is so longer than the wait for data told elsewhere. A step of an optimizer that is given a closure counts from the last backward pass in it."
	if m.s.Meta.DeviceKind == "cuda" {
		text += " What the loop enqueues on the GPU runs later: these are no times of the GPU."
	}
	m.para("%s", text)
}

// ranks lists the processes of a distributed training.
func (m *markdown) ranks() {
	ranks := m.s.Ranks(0, m.s.Now)
	if len(ranks) < 2 {
		return
	}
	m.heading(2, "Ranks")
	rows := [][]string{{">rank", ">waits for data", ">a step", ">steps", "note"}}
	slowest, why := attribution.SlowestRank(ranks)
	for i := range ranks {
		k := &ranks[i]
		note := ""
		if i == slowest {
			note = "slowest"
		}
		rows = append(rows, []string{strconv.Itoa(k.Rank), units.Prose.Percent(k.Data()), units.Prose.Time(k.Step()), units.Count(k.Steps), note})
	}
	m.table(rows)
	if slowest >= 0 {
		m.para("Rank %d is the slowest: %s.", ranks[slowest].Rank, why)
	}
	m.para("Of the processes of this machine, each from its first batch to its last, validation and the time between epochs included. All else in this report is about the first of them. What a rank waits for others within a step is not told apart from its own work.")
}
