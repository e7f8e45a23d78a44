package report

import (
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
)

// workerTime says what workers did in each phase, and what that makes the phase.
func (m *markdown) workerTime(rows []int) {
	table := [][]string{{"worker time", "phase", ">a batch", ">on a core", ">waiting for a core", ">blocked", "that is"}}
	for _, row := range rows {
		r := &m.rows[row]
		b := &r.Breakdown
		// What was measured stands for all batches.
		add := func(phase string, s trace.Split, of int64) {
			if s.Total() <= 0 || of <= 0 || b.Steps == 0 {
				return
			}
			batch := float64(b.Load) / float64(b.Steps) * float64(s.Total()) / float64(of)
			share := func(ns int64) string { return figures.Prose.Percent(float64(ns) / float64(s.Total())) }
			table = append(table, []string{r.Name(), phase, figures.Prose.Time(int64(batch)), share(s.Core), share(s.Waiting), share(s.Blocked), s.Bound().Info().Name})
		}
		for k := trace.KindRead; k.IsPhase(); k++ {
			add(k.String(), *b.Work.Phases.Of(k), b.Work.Phases.All().Total())
		}
		add("all", b.Work.Batch, b.Work.Batch.Total())
	}
	if len(table) == 1 {
		m.para("What workers' time went to was not measured.")
		return
	}
	m.table(table)
	m.para("A worker is on a core, ready to run and waiting for one (because other threads, of this process or of others, have them), or blocked: on storage, a lock or a timer. The system's counters tell the first two; the rest is the third. Phases are measured in as many batches as cost under 1 %% of the workers' time; the time of a batch is all workers'.")
}
