package report

import (
	"fmt"
	"math"
	"strings"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/stall"
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
		row := []string{m.letter(i), or(r.Segment.Reason, "-"), figures.Count(r.Steps), "-", "-", "-", share(r, r.Utilisation), share(r, r.DataShare)}
		compute := "-"
		if r.Steps > 0 {
			row[3], row[4], row[5] = figures.Rate(r.SamplesPerSecond), figures.Prose.Time(int64(r.P50)), figures.Prose.Time(int64(r.P95))
			compute = figures.Prose.Time(int64(math.Round(perSample(r))))
		}
		rows = append(rows, row)
		gain := "baseline"
		if i != m.first {
			gain = r.VsA.Throughput.String()
		}
		versus = append(versus, []string{m.letter(i), gain, compute, figures.Count(r.Excluded), figures.Prose.Time(r.Segment.Transition), flagNote(m.flagsOf(i))})
	}
	m.table(rows)
	m.table(versus)
	m.para("A segment is a stretch of the run with constant knobs. Its numbers leave out the steps of its transition (from the change until the queue was refilled) and the first step of the run, which are those left out. Device is its own time for a sample. Cost is the idle device time in the transition.")
	m.memoryTable()
}

// flagNote names what makes a row's numbers other than a plain run's.
func flagNote(flags uint16) string {
	var notes []string
	if flags&trace.FlagInjected != 0 {
		notes = append(notes, "injected")
	}
	if flags&trace.FlagCeiling != 0 {
		notes = append(notes, "ceiling")
	}
	return strings.Join(notes, ", ")
}

// epochNote marks an epoch of which some or all steps were not a plain run's.
func epochNote(e stall.EpochStats) string {
	var notes []string
	add := func(what string, steps int) {
		switch {
		case steps == e.Steps:
			notes = append(notes, what)
		case steps > 0:
			notes = append(notes, fmt.Sprintf("%s in %s of %s steps", what, figures.Count(steps), figures.Count(e.Steps)))
		}
	}
	add("injected", e.Injected)
	add("ceiling", e.Ceiling)
	return strings.Join(notes, ", ")
}

// epochTable lists load, train and total time per epoch, and what was learnt.
func (m *markdown) epochTable() {
	m.heading(2, "Appendix D: epochs")
	if len(m.epochs) == 0 {
		m.para("No epoch was begun.")
		return
	}
	rows := [][]string{{">epoch", "segment", ">steps", ">samples", ">load", ">wait", ">train", ">total", ">full epoch", ">util."}}
	learnt := [][]string{{">epoch", ">loss", ">top-1", "note"}}
	var projected, injected, ceiling bool
	for _, e := range m.epochs {
		seg := "several"
		for i := range m.rows {
			if m.rows[i].Segment.Index == e.Segment {
				seg = m.letter(i)
			}
		}
		whole := figures.Prose.Time(e.Total)
		switch {
		case !e.Complete && e.Projected > 0:
			whole, projected = "~"+figures.Prose.Time(e.Projected), true
		case !e.Complete:
			whole = "-"
		}
		loss, top1 := "-", "-"
		if finite(e.Loss) {
			loss = figures.Loss(e.Loss)
		}
		if e.Diverged > 0 {
			loss = "NaN"
		}
		if finite(e.Top1) {
			top1 = figures.Prose.Percent(e.Top1)
		}
		n := itoa(int64(e.Epoch) + 1)
		rows = append(rows, []string{n, seg, figures.Count(e.Steps), figures.Count(e.Samples),
			figures.Prose.Time(e.Load), figures.Prose.Time(e.Wait), figures.Prose.Time(e.Train), figures.Prose.Time(e.Total), whole, figures.Prose.Percent(e.Utilisation)})
		learnt = append(learnt, []string{n, loss, top1, epochNote(e)})
		injected, ceiling = injected || e.Injected > 0, ceiling || e.Ceiling > 0
	}
	m.table(rows)
	m.table(learnt)
	m.para("Load is the time that all workers together spent on the epoch's batches; they work while the device does, so it may exceed the total. Wait is how long the step loop was blocked for a batch. Train is how long the device computed. Total is wall time without pauses. Loss and top-1 (the share of samples whose likeliest class was right) are means over the training samples%s.", m.noLoss())
	if injected {
		m.para("Injected: a bottleneck was added on purpose, so the epoch's load, wait and total say nothing about the machine.")
	}
	if ceiling {
		m.para("Ceiling: cached batches were served, so the epoch's load and wait are not those of loading the data, and its loss and top-1 are those of the same few batches over and over.")
	}
	if projected {
		m.para("A full epoch with a ~ was not run in full: its time is that of the samples that were, scaled to all %s.", figures.Count(m.s.Meta.Samples))
	}
}

func (m *markdown) noLoss() string {
	if m.s.Learning > 0 {
		return ""
	}
	return `; "-" means that nothing was computed to take them from`
}
