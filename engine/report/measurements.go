package report

import (
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// compared are the rows that the report sets side by side.
func (m *markdown) compared() []int {
	switch {
	case m.first < 0:
		return nil
	case m.last == m.first:
		return []int{m.first}
	}
	return []int{m.first, m.last}
}

// settings lists every knob before and after.
func (m *markdown) settings() {
	m.heading(2, "Appendix B: all knobs and measurements")
	rows := m.compared()
	if len(rows) == 0 || len(m.rows[rows[0]].Segment.Knobs) == 0 {
		m.para("The settings are not known.")
	} else {
		table := [][]string{{"knob"}}
		for _, r := range rows {
			table[0] = append(table[0], m.rows[r].Name())
		}
		var idle, own []string
		for _, k := range m.rows[rows[0]].Segment.Knobs {
			row := []string{k.Name}
			for _, r := range rows {
				row = append(row, or(knob.ValueOf(m.rows[r].Segment.Knobs, k.Name), "-"))
			}
			table = append(table, row)
			if s := knob.SpecOf(m.s.Meta.Specs, k.Name); s != nil && s.NoEffect != "" {
				idle = append(idle, k.Name+" ("+s.NoEffect+")")
			}
		}
		for _, s := range m.s.Meta.Specs {
			if s.DefaultHere != "" && s.NoEffect == "" {
				own = append(own, s.Name+"="+s.DefaultHere)
			}
		}
		m.table(table)
		if len(own) > 0 {
			m.para("Defaults on this device, where nobody chose: %s.", strings.Join(own, ", "))
		}
		if len(idle) > 0 {
			m.para("Without effect here: %s.", strings.Join(idle, "; "))
		}
	}
	m.measurements(rows)
	m.breakdowns(rows)
	m.workerTime(rows)
}

// measurements are what the front page leaves out.
func (m *markdown) measurements(rows []int) {
	table := [][]string{
		{"measurement"}, {"steps"}, {"epoch time, measured"}, {"epoch time, projected"}, {"step time, 95th percentile"},
		{"data loading time a step"}, {"data wait a step"}, {"utilisation by NVML"}, {"model FLOPs utilisation"},
	}
	driver := false
	var peak string
	for _, row := range rows {
		r := &m.rows[row]
		e := m.epochOf(row)
		cells := []string{">" + m.rows[row].Name(), units.Count(r.Steps), e.full(), e.estimate(), "-", "-", "-", "-", "-"}
		if r.Steps > 0 {
			cells[4] = units.Prose.Time(int64(r.P95))
			cells[5] = loadTime(&m.s.Meta, r.Breakdown.Load/int64(r.Steps))
			cells[6] = units.Prose.Time(r.Breakdown.Wait / int64(r.Steps))
		}
		if v, n := m.gauge("nvml_util", r); n >= 2 {
			cells[7], driver = units.Prose.Percent(v/100), true
		}
		if f, ok := attribution.MFUOf(m.s, &r.Segment); ok {
			cells[8], peak = units.Prose.Percent(f.Share), fmt.Sprintf("%s TFLOP/s %s, %s", units.Rate(f.Peak/1e12), f.Type, f.From)
		}
		for i, c := range cells {
			table[i] = append(table[i], c)
		}
	}
	if len(rows) == 0 {
		return
	}
	text := "Device utilisation is the time in which the device computed, copies excluded. Data loading time is what workers spend on a batch, in parallel to training; data wait is what the step loop was blocked for the next one."
	if driver {
		text += " NVML's is what nvidia-smi shows: time in which at least one kernel ran, however small."
	} else {
		table = slices.Delete(table, 7, 8)
	}
	if peak != "" {
		text += fmt.Sprintf(" Model FLOPs utilisation is the arithmetic of the model itself, without what checkpointing computes again, over the device's peak (%s).", peak)
	} else {
		table = table[:len(table)-1]
	}
	m.table(table)
	m.para("%s", text)
}

// gauge is the mean of a gauge's samples within a row.
func (m *markdown) gauge(name string, r *attribution.SegmentStats) (mean float64, n int) {
	t := m.s.Tally(r.Segment.Index)
	mean, _, n = m.s.GaugeOver(name, t.Start, t.End)
	return mean, n
}

// breakdowns are the account of time: computing and every cause of idleness.
func (m *markdown) breakdowns(rows []int) {
	table := [][]string{{"time"}, {"computing"}}
	var causes []trace.Cause
	for c := range trace.Cause(trace.NumCauses) {
		for _, row := range rows {
			if m.rows[row].Breakdown.Stall[c] > 0 {
				causes = append(causes, c)
				table = append(table, []string{c.String()})
				break
			}
		}
	}
	table = append(table, []string{"all"})
	for _, row := range rows {
		b := &m.rows[row].Breakdown
		if b.Wall <= 0 {
			continue
		}
		add := func(i int, time, share string) { table[i] = append(table[i], time, share) }
		add(0, ">"+m.rows[row].Name(), ">share")
		add(1, units.Prose.Time(b.Busy), units.Prose.Percent(b.Utilisation()))
		for i, c := range causes {
			share := units.Prose.Percent(b.Share(c))
			if c == trace.CausePaused {
				share = "-"
			}
			add(2+i, units.Prose.Time(b.Stall[c]), share)
		}
		add(len(table)-1, units.Prose.Time(b.Wall), units.Prose.Percent(1))
	}
	if len(table[0]) == 1 {
		m.para("There is no steady step to account for.")
		return
	}
	m.table(table)
	if len(causes) == 0 {
		m.para("The device computed without a gap.")
		return
	}
	m.line("Computing and all causes add up to the wall time of the steps. Where the device computed nothing, waiting for a batch:")
	m.line("")
	for _, c := range causes {
		means := c.Info().Means
		if c == trace.CauseOrder {
			if h, ok := attribution.HeadOf(m.s.Spans, 0, m.s.Now); ok {
				means += "; " + h.String()
			}
		}
		m.line("- %s: %s", c, means)
	}
	m.line("")
}

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
			share := func(ns int64) string { return units.Prose.Percent(float64(ns) / float64(s.Total())) }
			table = append(table, []string{r.Name(), phase, units.Prose.Time(int64(batch)), share(s.Core), share(s.Waiting), share(s.Blocked), s.Bound().Info().Name})
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
