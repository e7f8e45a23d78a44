package report

import (
	"strconv"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/stall"
)

// ranks lists the processes of a distributed training.
func (m *markdown) ranks() {
	ranks := m.s.Ranks(0, m.s.Now)
	if len(ranks) < 2 {
		return
	}
	m.heading(2, "Ranks")
	rows := [][]string{{">rank", ">waits for data", ">a step", ">steps", "note"}}
	slowest, why := stall.SlowestRank(ranks)
	for i := range ranks {
		k := &ranks[i]
		note := ""
		if i == slowest {
			note = "slowest"
		}
		rows = append(rows, []string{strconv.Itoa(k.Rank), figures.Prose.Percent(k.Data()), figures.Prose.Time(k.Step()), figures.Count(k.Steps), note})
	}
	m.table(rows)
	if slowest >= 0 {
		m.para("Rank %d is the slowest: %s.", ranks[slowest].Rank, why)
	}
	m.para("Of the processes of this machine, each from its first batch to its last, validation and the time between epochs included. All else in this report is about the first of them. What a rank waits for others within a step is not told apart from its own work.")
}
