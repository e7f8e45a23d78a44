package report

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/advice"
	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// changes tells each change, what it was up against, and what followed.
func (m *markdown) changes() {
	m.heading(2, "What was changed and why it was a bottleneck")
	if len(m.rows) == 0 {
		m.para("No settings were recorded, so no change was either.")
		return
	}
	if len(m.rows) < 2 {
		m.para("Nothing was changed: the whole session ran with the baseline's settings.")
		m.verdict("What holds the device up", 0)
		m.line("")
		return
	}
	for i := 1; i < len(m.rows); i++ {
		r := &m.rows[i]
		g := r.Segment
		if i > 1 {
			m.line("")
		}
		m.heading(3, fmt.Sprintf("Change %d: %s", i, or(g.Reason, "unnamed")))
		m.line("- When: %s after the start, before step %s.", figures.Prose.Time(g.Start), figures.Count(g.FirstStep))
		m.verdict("What held the device up before", i-1)
		switch {
		case m.tally(i).All.Steps == 0:
			m.line("- Effect: none seen, no step was finished with it.")
			continue
		case r.Steps == 0:
			m.line("- Effect: not known, all its steps belong to the transition.")
			continue
		}
		prev := &m.rows[i-1]
		m.line("- Effect on throughput, against the settings before: %s. Utilisation %s -> %s, data share %s -> %s.",
			r.VsBefore.Throughput.String(), share(prev, prev.Utilisation), figures.Prose.Percent(r.Utilisation), share(prev, prev.DataShare), figures.Prose.Percent(r.DataShare))
		m.line("- Cost of the change: %s and %s of idle device time until the queue was refilled.",
			figures.Counted(g.TransitionSteps, "step", "steps"), figures.Prose.Time(g.Transition))
		if note := m.changeNote(i); note != "" {
			m.line("- Note: %s.", note)
		}
	}
	m.line("")
}

// share is a share of a row, or "-" when nothing steady stands behind it.
func share(r *stall.SegmentStats, v float64) string {
	if r.Steps == 0 {
		return "-"
	}
	return figures.Prose.Percent(v)
}

// verdict is the judgement of a row's steps.
func (m *markdown) verdict(lead string, row int) {
	t := m.tally(row)
	if t.All.Steps == 0 {
		m.line("- %s: no step was finished.", lead)
		return
	}
	m.line("- %s: %s.", lead, advice.Judge(m.s, t).Text)
}

// changeNote warns of changes that do not compare like with like.
func (m *markdown) changeNote(row int) string {
	d := advice.Changed(m.rows[row-1].Segment.Knobs, m.rows[row].Segment.Knobs)
	var notes []string
	if has(d, trace.GroupInject) {
		notes = append(notes, "a bottleneck was injected, or its injection was changed or ended: that says nothing about the machine")
	}
	if has(d, "ceiling") {
		notes = append(notes, "with the ceiling on, cached batches are served: it shows what would be gained if data were free, and trains on the same few batches")
	}
	if has(d, "batch_size") {
		notes = append(notes, "another batch size is another training: compare its loss too")
	}
	if has(d, "precision") {
		notes = append(notes, "another precision is another training: compare its loss too")
	}
	return strings.Join(notes, "; ")
}

// validation sets the final settings against the baseline.
func (m *markdown) validation() {
	m.heading(2, "Validation")
	if m.first < 0 || m.s.Total.Steps == 0 {
		m.para("There is nothing to validate: no step was finished.")
		return
	}
	switch {
	case m.last == m.first && m.chosen():
		m.para("There is nothing to validate: the baseline that was chosen is the final settings. Below, the segments before it are compared with it.")
		return
	case m.last == m.first:
		m.para("There is nothing to validate: no other settings ran long enough to be compared (at least %d steady steps).", enough)
		return
	}
	a, b := &m.rows[m.first], &m.rows[m.last]
	m.para("The final settings (segment %s, %s) against the baseline (segment A).", m.letter(m.last), m.difference(m.first, m.last))
	ea, eb := m.epochOf(m.first), m.epochOf(m.last)
	rows := [][]string{{"measurement", ">baseline", ">final", ">change"}}
	if ea.runs > 0 || eb.runs > 0 {
		rows = append(rows, []string{"epoch time, measured", full(ea), full(eb), change(float64(ea.measured), float64(eb.measured))})
	}
	rows = append(rows, []string{"epoch time, projected from steady steps", known(ea.projected), known(eb.projected), change(float64(ea.projected), float64(eb.projected))})
	gain := change(a.SamplesPerSecond, b.SamplesPerSecond)
	if c := &b.VsA.Throughput; c.Answer != evidence.Unknown {
		gain = figures.Prose.Gain(c.Estimate())
	}
	rows = append(rows,
		[]string{"device utilisation", share(a, a.Utilisation), share(b, b.Utilisation), figures.Points(b.Utilisation - a.Utilisation)},
		[]string{"data share", share(a, a.DataShare), share(b, b.DataShare), figures.Points(b.DataShare - a.DataShare)},
		[]string{"throughput, samples/s", figures.Rate(a.SamplesPerSecond), figures.Rate(b.SamplesPerSecond), gain},
		[]string{"step time, median", figures.Prose.Time(int64(a.P50)), figures.Prose.Time(int64(b.P50)), change(float64(a.P50), float64(b.P50))},
	)
	m.table(rows)
	m.confidence(&b.VsA.Throughput, a.Excluded+b.Excluded)
	d := advice.Changed(a.Segment.Knobs, b.Segment.Knobs)
	if has(d, trace.GroupInject) || m.flagged(m.first, trace.FlagInjected) != m.flagged(m.last, trace.FlagInjected) {
		m.para("The injected bottleneck is not the same on both sides: this comparison shows what the injection costs, not what tuning gains.")
	}
	if has(d, "batch_size") {
		m.para("The batch size is not the same on both sides: times are compared per sample, and the two trainings are not the same.")
	}
}

func (m *markdown) confidence(c *evidence.Change, excluded int) {
	if c.Answer == evidence.Unknown {
		m.para("**Not known yet:** %s.", c.Missing)
		return
	}
	rests := fmt.Sprintf("It rests on the time per sample in steady steps that tell as much as %s and %s independent ones; %s left out as transition or warm-up. It holds however often one looked",
		figures.Count(int(c.Samples[0])), figures.Count(int(c.Samples[1])), figures.Counted(excluded, "step", "steps"))
	less := reduction(c)
	if c.Answer == evidence.Same {
		m.para("**The same epoch time, within %s:** the 95 %% confidence interval of the reduction is %s. %s.",
			figures.Prose.Percent(evidence.DefaultMargin), figures.Prose.PercentRange(less), rests)
		return
	}
	word := "Reduction"
	if less.Value < 0 {
		word, less = "Increase", increase(less)
	}
	m.para("**%s of epoch time: %s, 95 %% confidence interval %s.** %s.", word, figures.Prose.PercentOf(less), figures.Prose.PercentRange(less), rests)
}

// difference names the knobs in which two rows differ.
func (m *markdown) difference(from, to int) string {
	d := advice.Changed(m.rows[from].Segment.Knobs, m.rows[to].Segment.Knobs)
	if len(d) == 0 {
		return "the same knobs"
	}
	words := make([]string, len(d))
	for i, k := range d {
		words[i] = k.Name + "=" + k.Value
	}
	return strings.Join(words, ", ")
}

func full(e epochOf) string {
	if e.runs == 0 {
		return "none run in full"
	}
	return figures.Prose.Time(e.measured)
}

func known(ns int64) string {
	if ns == 0 {
		return "unknown"
	}
	return figures.Prose.Time(ns)
}

// change is that of a quantity whose interval is not known.
func change(a, b float64) string {
	if a <= 0 || b <= 0 {
		return "-"
	}
	return figures.Prose.Gain(figures.Rough(b / a))
}
