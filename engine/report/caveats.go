package report

import (
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

func (m *markdown) caveats() {
	much, _ := advice.Thresholds()
	m.heading(2, "Caveats")
	for _, l := range m.advice.Labels {
		in := ""
		if len(l.Segments) > 0 {
			in = "in " + m.segmentNames(l.Segments) + ": "
		}
		m.line("- [%s] %s%s.", l.Words, in, l.Sentence)
	}
	if m.last != m.first {
		d := advice.Changed(m.rows[m.first].Segment.Knobs, m.rows[m.last].Segment.Knobs)
		if has(d, knob.GroupInject) || m.flagged(m.first, trace.FlagInjected) != m.flagged(m.last, trace.FlagInjected) {
			m.line("- The injected bottleneck is not the same before and after: what is compared is what the injection costs, not what tuning gains.")
		}
		if has(d, "batch_size") {
			m.line("- The batch size is not the same before and after: times are compared per sample, and the two trainings are not the same.")
		}
	}
	if m.s.Outcome.Dropped() > 0 {
		m.line("- Spans dropped: %s.", m.dropText())
	}
	if m.s.Outcome.Status != "finished" && m.s.Outcome.Status != "stopped" {
		m.line("- Outcome: %s", m.status())
	}
	if u := (attribution.Breakdown{Totals: m.s.Total}).Share(trace.CauseUnknown); u >= much { // after the last step there is nothing to explain
		m.line("- %s of the time the device was idle for no recorded cause.", units.Prose.Percent(u))
	}
	if m.whole.Paused > 0 {
		what, evaluated := "evaluations on the test split", int64(0)
		for _, e := range m.s.Evaluations() {
			evaluated += e.Took
		}
		if ranks := m.s.Ranks(0, m.s.Now); len(ranks) > 0 && ranks[0].Aside > 0 {
			what, evaluated = trace.AsideLoops, ranks[0].Aside
		}
		if evaluated > 0 {
			m.line("- Training stood still for %s, of which %s took %s: that is in no rate and in no share.",
				units.Prose.Time(max(m.whole.Paused, evaluated)), what, units.Prose.Time(evaluated))
		} else {
			m.line("- The run was paused for %s, which is in no number but this one.", units.Prose.Time(m.whole.Paused))
		}
	}
	if _, known := advice.PastOf(m.s); known {
		m.line("- This is one session on one machine: nothing here speaks of other machines, and of earlier runs only the rate.")
	} else {
		m.line("- This is one session on one machine: nothing here speaks of other runs or machines.")
	}
	m.logged()
	m.line("")
}

// logs is how many warnings and errors are listed.
const logs = 20

func (m *markdown) logged() {
	n := 0
	for _, note := range m.s.Notes {
		if (note.Level == "warn" || note.Level == "error") && !slices.Contains(m.s.Damage, note.Text) { // a label says that
			if n++; n <= logs {
				m.line("- Logged %s after the start (%s): %s", units.Prose.Time(note.T), note.Level, note.Text)
			}
		}
	}
	if n > logs {
		m.line("- And %s.", units.Counted(n-logs, "more warning or error", "more warnings and errors"))
	}
}

// segmentNames are "segment A", "segments A, #2", or "all 20 segments".
func (m *markdown) segmentNames(segments []int32) string {
	if n := len(segments); n > 3 && n == len(m.s.Segments) {
		return fmt.Sprintf("all %d segments", n)
	}
	names := make([]string, len(segments))
	for i, index := range segments {
		names[i] = m.segmentName(index)
	}
	if len(names) == 1 {
		return "segment " + names[0]
	}
	return "segments " + strings.Join(names, ", ")
}

func (m *markdown) dropText() string {
	var l []string
	for t, n := range m.s.Outcome.Drops {
		if n > 0 {
			l = append(l, fmt.Sprintf("%s on %s", units.Count(n), trace.TrackID(t)))
		}
	}
	return units.Count(m.s.Outcome.Dropped()) + " (" + strings.Join(l, ", ") + "): waits, causes and utilisation of the steps near them may be wrong, the number of steps is not"
}
