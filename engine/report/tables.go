package report

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// segmentTable lists all segments.
func (m *markdown) segmentTable() {
	m.heading(2, "All segments")
	if len(m.rows) == 0 {
		m.para("No segment was recorded.")
		return
	}
	rows := [][]string{{"segment", "change", ">steps", ">left out", ">samples/s", ">step p50", ">p95", ">utilisation", ">data share", "throughput against A (95 % interval)", ">cost of change", "note"}}
	for i := range m.rows {
		r := &m.rows[i]
		note := flagNote(m.flagsOf(i))
		row := []string{m.letter(i), or(r.Segment.Reason, "-"), figures.Count(r.Steps), figures.Count(r.Excluded)}
		if r.Steps == 0 {
			row = append(row, "-", "-", "-", "-", "-")
		} else {
			row = append(row, figures.Rate(r.SamplesPerSecond), figures.Prose.Time(int64(r.P50)), figures.Prose.Time(int64(r.P95)), figures.Prose.Percent(r.Utilisation), figures.Prose.Percent(r.DataShare))
		}
		if i == m.first {
			row = append(row, "baseline")
		} else {
			row = append(row, r.VsA.Throughput.String())
		}
		row = append(row, figures.Prose.Time(r.Segment.Transition), note)
		rows = append(rows, row)
	}
	m.table(rows)
	m.para("A segment is a stretch of the run with constant knobs. Its numbers leave out the steps of its transition (from the change until the queue was refilled) and the first step of the run. The cost of a change is the idle device time in its transition.")
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

// epochTable lists load, train and total time per epoch.
func (m *markdown) epochTable() {
	m.heading(2, "Epochs")
	if len(m.epochs) == 0 {
		m.para("No epoch was begun.")
		return
	}
	rows := [][]string{{">epoch", "segment", ">steps", ">samples", ">load", ">wait", ">train", ">total", ">full epoch", ">utilisation", ">loss", ">top-1", "note"}}
	projected := false
	var injected, ceiling bool
	for _, e := range m.epochs {
		seg := "several"
		for i := range m.rows {
			if m.rows[i].Segment.Index == e.Segment {
				seg = m.letter(i)
			}
		}
		whole := "run in full"
		switch {
		case !e.Complete && e.Projected > 0:
			whole = figures.Prose.Time(e.Projected) + " (projected)"
			projected = true
		case !e.Complete:
			whole = "unknown"
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
		rows = append(rows, []string{itoa(int64(e.Epoch) + 1), seg, figures.Count(e.Steps), figures.Count(e.Samples),
			figures.Prose.Time(e.Load), figures.Prose.Time(e.Wait), figures.Prose.Time(e.Train), figures.Prose.Time(e.Total), whole, figures.Prose.Percent(e.Utilisation), loss, top1, epochNote(e)})
		injected, ceiling = injected || e.Injected > 0, ceiling || e.Ceiling > 0
	}
	m.table(rows)
	m.para("Load is the time that all workers together spent on the epoch's batches; they work while the device does, so it may exceed the total. Wait is how long the step loop was blocked for a batch. Train is how long the device computed. Total is wall time without pauses. Loss and top-1 (the share of samples whose likeliest class was right) are means over the training samples%s.", m.noLoss())
	if injected {
		m.para("Injected: a bottleneck was added on purpose, so the epoch's load, wait and total say nothing about the machine.")
	}
	if ceiling {
		m.para("Ceiling: cached batches were served, so the epoch's load and wait are not those of loading the data, and its loss and top-1 are those of the same few batches over and over.")
	}
	if projected {
		m.para("Projected: the epoch was not run in full, so its time is that of the samples that were, scaled to all %s.", figures.Count(m.s.Meta.Samples))
	}
}

func (m *markdown) noLoss() string {
	if m.s.Learning > 0 {
		return ""
	}
	return `; "-" means that nothing was computed to take them from`
}
