package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// measurements is the appendix with all knobs and measurements of before and after.
type measurements struct {
	*account
	shown []*attribution.SegmentStats // before and after, or the only row
}

func newMeasurements(a *account) *measurements {
	m := &measurements{account: a}
	if a.first >= 0 {
		m.shown = append(m.shown, &a.rows[a.first])
	}
	if a.last != a.first {
		m.shown = append(m.shown, &a.rows[a.last])
	}
	return m
}

func (m *measurements) write(d *markup.Document) {
	d.Heading(2, "Appendix B: all knobs and measurements")
	m.settings(d)
	if len(m.shown) > 0 {
		m.steps(d)
	}
	m.breakdown(d)
	m.workerTime(d)
}

// settings lists every knob.
func (m *measurements) settings(d *markup.Document) {
	if len(m.shown) == 0 || len(m.shown[0].Segment.Knobs) == 0 {
		d.Para("The settings are not known.")
		return
	}
	table := [][]string{{"knob"}}
	for _, r := range m.shown {
		table[0] = append(table[0], r.Name())
	}
	var idle, own []string
	for _, k := range m.shown[0].Segment.Knobs {
		row := []string{k.Name}
		for _, r := range m.shown {
			row = append(row, cmp.Or(knob.ValueOf(r.Segment.Knobs, k.Name), "-"))
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
	d.Table(table)
	if len(own) > 0 {
		d.Para("Defaults on this device, where nobody chose: %s.", strings.Join(own, ", "))
	}
	if len(idle) > 0 {
		d.Para("Without effect here: %s.", strings.Join(idle, "; "))
	}
}

// steps writes the measurements that the first page leaves out.
func (m *measurements) steps(d *markup.Document) {
	table := [][]string{
		{"measurement"}, {"steps"}, {"epoch time, measured"}, {"epoch time, projected"}, {"step time, 95th percentile"},
		{"data loading time a step"}, {"loop's wait a step"}, {"utilisation by NVML"}, {"model FLOPs utilisation"},
	}
	driver := false
	var peak string
	for i, r := range m.shown {
		e := m.epochOf([]int{m.first, m.last}[i])
		cells := []string{">" + r.Name(), units.Count(r.Steps), e.full(), e.estimate(), "-", "-", "-", "-", "-"}
		if r.Steps > 0 {
			cells[4] = units.Prose.Time(int64(r.P95))
			cells[5] = loadTime(&m.s.Meta, r.Breakdown.Load/int64(r.Steps))
			cells[6] = units.Prose.Time(r.Breakdown.Wait / int64(r.Steps))
		}
		t := m.s.Tally(r.Segment.Index)
		if v, _, n := m.s.GaugeOver(trace.GaugeKernels, t.Start, t.End); n >= 2 {
			cells[7], driver = units.Prose.Percent(v/100), true
		}
		if f, ok := attribution.MFUOf(m.s, &r.Segment); ok {
			cells[8], peak = units.Prose.Percent(f.Share), fmt.Sprintf("%s TFLOP/s %s, %s", units.Rate(f.Peak/1e12), f.Type, f.From)
		}
		for j, c := range cells {
			table[j] = append(table[j], c)
		}
	}
	text := []string{
		"Device utilisation is the time in which the device computed, copies excluded.",
		"Data loading time is what workers spend on a batch, in parallel to training;",
		"the loop's wait is what it was blocked for the next one, also while the device still computed.",
	}
	if driver {
		text = append(text, "NVML's is what nvidia-smi shows: time in which at least one kernel ran, however small.")
	} else {
		table = slices.Delete(table, 7, 8)
	}
	if peak != "" {
		text = append(text,
			"Model FLOPs utilisation is the arithmetic of the model itself,",
			"without what checkpointing computes again, over the device's peak ("+peak+").")
	} else {
		table = table[:len(table)-1]
	}
	d.Table(table)
	d.Sentences(text...)
}

// breakdown writes where the time went: computing and every cause of idleness.
func (m *measurements) breakdown(d *markup.Document) {
	var causes []trace.Cause
	for c := range trace.Cause(trace.NumCauses) {
		if slices.ContainsFunc(m.shown, func(r *attribution.SegmentStats) bool { return r.Breakdown.Stall[c] > 0 }) {
			causes = append(causes, c)
		}
	}
	table := [][]string{{"time"}, {"computing"}}
	for _, c := range causes {
		table = append(table, []string{c.String()})
	}
	table = append(table, []string{"all"})
	for _, r := range m.shown {
		b := &r.Breakdown
		if b.Wall <= 0 {
			continue
		}
		add := func(i int, time, share string) { table[i] = append(table[i], time, share) }
		add(0, ">"+r.Name(), ">share")
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
		d.Para("There is no steady step to account for.")
		return
	}
	d.Table(table)
	if len(causes) == 0 {
		d.Para("The device computed without a gap.")
		return
	}
	d.Line("Computing and all causes add up to the wall time of the steps. Where the device computed nothing, waiting for a batch:")
	d.Line("")
	for _, c := range causes {
		means := c.Info().Means
		if c == trace.CauseOrder {
			if h, ok := attribution.HeadOf(m.s.Spans, 0, m.s.Now); ok {
				means += "; " + h.String()
			}
		}
		d.Line("- %s: %s", c, means)
	}
	d.Line("")
}

// wholeBatch stands for all phases.
const wholeBatch = "all"

// workerTime says what workers did in each phase, and what bounds the phase.
func (m *measurements) workerTime(d *markup.Document) {
	table := [][]string{{"worker time", "phase", ">a batch", ">on a core", ">waiting for a core", ">blocked", "that is"}}
	for _, r := range m.shown {
		b := &r.Breakdown
		// Only some batches were measured, and their shares stand for all.
		add := func(phase string, s trace.Split, of int64) {
			if s.Total() <= 0 || of <= 0 || b.Steps == 0 {
				return
			}
			batch := float64(b.Load) / float64(b.Steps) * float64(s.Total()) / float64(of)
			share := func(ns int64) string { return units.Prose.Percent(float64(ns) / float64(s.Total())) }
			took := units.Prose.Time(int64(batch))
			if phase != wholeBatch && m.s.Meta.Watched() { // long ones alone are split, so they are no part of all
				took = "-"
			}
			table = append(table, []string{r.Name(), phase, took,
				share(s.Core), share(s.Waiting), share(s.Blocked), s.Bound().Info().Name})
		}
		for k := trace.KindRead; k.IsPhase(); k++ {
			add(k.String(), *b.Work.Phases.Of(k), b.Work.Phases.All().Total())
		}
		add(wholeBatch, b.Work.Batch, b.Work.Batch.Total())
	}
	if len(table) == 1 {
		d.Para("What workers' time went to was not measured.")
		return
	}
	d.Table(table)
	d.Sentences(
		"A worker is on a core, ready to run and waiting for one",
		"(because other threads, of this process or of others, have them), or blocked: on storage, a lock or a timer.",
		"The system's counters tell the first two; the rest is the third.",
		"Phases are measured in as many batches as cost under 1 % of the workers' time;",
		"the time of a batch is all workers'.")
}
