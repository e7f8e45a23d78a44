package report

import (
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// segmentTable lists all segments: what they measured, then how they compare.
func (m *markdown) segmentTable() {
	m.heading(2, "Appendix C: all segments")
	if len(m.rows) == 0 {
		m.para("No segment was recorded.")
		return
	}
	rows := [][]string{{"segment", "change", ">steps", ">samples/s", ">step p50", ">p95", ">util.", ">data"}}
	versus := [][]string{{"segment", ">throughput against A (95 % interval)", ">device", ">left out", ">cost", "note"}}
	for i := range m.rows {
		r := &m.rows[i]
		row := []string{r.Name(), or(r.Segment.Reason, "-"), units.Count(r.Steps), "-", "-", "-", share(r, r.Utilisation), share(r, r.DataShare)}
		compute := "-"
		if r.Steps > 0 {
			row[3], row[4], row[5] = strings.TrimSuffix(rate(r), "/s"), units.Prose.Time(int64(r.P50)), units.Prose.Time(int64(r.P95))
			compute = deviceTime(r)
		}
		rows = append(rows, row)
		gain := "baseline"
		if i != m.first {
			gain = r.VsA.Throughput.String()
		}
		versus = append(versus, []string{r.Name(), gain, compute, units.Count(r.Excluded), units.Prose.Time(r.Segment.Transition), m.note(i)})
	}
	m.table(rows)
	m.table(versus)
	m.para("Left out are the steps from a change until the queue was full again, and the first of the run; cost is the time that the device was idle in them. Device is its own time for a sample.")
	m.memoryTable()
}

// note names what makes a row's numbers other than those of the run's other rows.
func (m *markdown) note(row int) string {
	t := m.tally(row)
	if t.All.Steps == 0 {
		return ""
	}
	return advice.Words(slices.DeleteFunc(advice.Labels(m.s, t), func(l advice.Label) bool { return l.Scope == advice.OfRun }))
}

// epochTable lists load, train and total time per epoch, and what was learnt.
func (m *markdown) epochTable() {
	m.heading(2, "Appendix D: epochs")
	if m.s.Meta.Imported != "" {
		m.para("Epochs are not in a trace.")
		return
	}
	if len(m.epochs) == 0 {
		m.para("No epoch was begun.")
		return
	}
	rows := [][]string{{">epoch", "segment", ">steps", ">samples", ">load", ">wait", ">train", ">total", ">full epoch", ">util."}}
	learnt := [][]string{{">epoch", ">loss", ">top-1", "note"}}
	tested := len(m.s.Evaluations()) > 0
	if tested {
		learnt[0] = []string{">epoch", ">loss", ">top-1", ">test loss", ">test top-1", ">evaluate", "note"}
	}
	projected := false
	for _, e := range m.epochs {
		seg := "several"
		for i := range m.rows {
			if m.rows[i].Segment.Index == e.Segment {
				seg = m.rows[i].Name()
			}
		}
		whole := units.Prose.Time(e.Total)
		switch {
		case !e.Complete && e.Projected > 0:
			whole, projected = "~"+units.Prose.Time(e.Projected), true
		case !e.Complete:
			whole = "-"
		}
		loss, top1 := "-", "-"
		if finite(e.Loss) {
			loss = units.Loss(e.Loss)
		}
		if e.Diverged > 0 {
			loss = "NaN"
		}
		if finite(e.Top1) {
			top1 = units.Prose.Percent(e.Top1)
		}
		n := itoa(int64(e.Epoch) + 1)
		rows = append(rows, []string{n, seg, units.Count(e.Steps), samples(e.Samples),
			loadTime(&m.s.Meta, e.Load), units.Prose.Time(e.Wait), units.Prose.Time(e.Train), units.Prose.Time(e.Total), whole, units.Prose.Percent(e.Utilisation)})
		row := []string{n, loss, top1}
		if v, ok := m.s.EvaluationOf(e.Epoch); ok {
			row = append(row, units.Loss(v.Loss), units.Prose.Percent(v.Top1), units.Prose.Time(v.Took))
		} else if tested {
			row = append(row, "-", "-", "-")
		}
		learnt = append(learnt, append(row, advice.OfEpoch(&e)))
	}
	m.table(rows)
	m.table(learnt)
	m.para("Load is the time that all workers together spent on the epoch's batches; they work while the device does, so it may exceed the total. Wait is how long the step loop was blocked for a batch. Train is how long the device computed. Total is wall time without pauses. Loss and top-1 (the share of samples whose likeliest class was right) are means over the training samples%s.", m.noLoss())
	if tested {
		m.para("Test loss and top-1 are of the test split after the epoch, with the running statistics of the batch norms. Evaluate is what that took: it counts as a pause, so it is in no total and in no share.")
	}
	if projected {
		m.para("A full epoch with a ~ was not run in full: its time is that of the samples that were, scaled to all %s.", units.Count(m.s.Meta.Samples))
	}
}

// samples is how many an epoch has so far.
func samples(n int64) string {
	if n == 0 {
		return notRecorded
	}
	return units.Count(n)
}

func (m *markdown) noLoss() string {
	if m.s.Learning > 0 {
		return ""
	}
	return `; "-" means that nothing was computed to take them from`
}

// memoryTable is the device memory by segment.
func (m *markdown) memoryTable() {
	rows := [][]string{{"segment", "change", ">memory held", ">memory planned"}}
	for i := range m.s.Segments {
		g := &m.s.Segments[i]
		if trace.ExperimentOf(m.s.Experiments, g.Index) != nil {
			continue
		}
		held := m.s.HeldBytes(g)
		if held == 0 {
			continue
		}
		planned := "-"
		if p := m.s.PlannedBytes(g.Start); p > 0 {
			planned = units.Prose.Bytes(p)
		}
		rows = append(rows, []string{m.segmentName(g.Index), or(g.Reason, "-"), units.Prose.Bytes(held), planned})
	}
	peak := m.s.PeakBytes()
	if len(rows) == 1 && peak == 0 {
		return
	}
	m.heading(3, "Device memory")
	if peak > 0 {
		m.para("Peak over the whole run: %s.", units.Prose.Bytes(peak))
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
		l.Scale, units.Counted(l.Skipped, "update was", "updates were"), units.Count(l.LastOverflow))
}
