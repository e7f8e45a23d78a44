package report

import (
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// told is how many changes the front page tells; the appendix has all.
const told = 8

// changes tells each change, why it was worth trying, and what followed.
func (m *markdown) changes() {
	if m.first < 0 || m.s.Total.Steps == 0 {
		return
	}
	m.heading(2, "What held the device up, what was changed, and why")
	m.line("- At the start (segment %s): %s.", m.rows[0].Name(), m.judged(0))
	xs := m.advice.Experiments
	for i := 1; i < len(m.rows); i++ {
		if i > told {
			m.line("- And %s more: see appendix C.", units.Counted(len(m.rows)-i, "change", "changes"))
			break
		}
		g := &m.rows[i].Segment
		for len(xs) > 0 && xs[0].First <= g.Index {
			m.experiment(&xs[0])
			xs = xs[1:]
		}
		m.line("- **%s** (segment %s, %s after the start, before step %s)", or(g.Reason, "a change without a name"), m.rows[i].Name(), units.Prose.Time(g.Start), units.Count(g.FirstStep))
		m.line("  - Why: %s.", m.why(i))
		m.line("  - Effect: %s.", m.effect(i))
	}
	for i := range xs {
		m.experiment(&xs[i])
	}
	m.line("")
}

// experiment tells what the run was asked and what it answered.
func (m *markdown) experiment(x *attribution.Experiment) {
	what := x.Changes()
	switch {
	case x.Kind == trace.Ceiling:
		what = "cached batches"
	case what == "":
		what = "the settings of the loader"
	}
	m.line("- **%s: %s** (%s, %s after the start)", sentence(x.Name()), what, x.Segments(), units.Prose.Time(x.Start))
	m.line("  - Asked: %s.", x.Asks())
	m.line("  - Answer: %s.", x.Text())
	for i := range x.Decisions {
		m.line("  - %s.", sentence(x.Decisions[i].Text))
	}
	if x.Sides[1].Steps > 0 {
		m.line("  - Measured: %s; %s; %s left out as transition.", m.side("at the start", &x.Sides[0]), m.side("tried", &x.Sides[1]), units.Counted(x.LeftOut, "step", "steps"))
	}
}

// side is what was measured of one side of an experiment.
func (m *markdown) side(name string, s *attribution.Side) string {
	return fmt.Sprintf("%s %s/s at %s utilisation in %s", name, units.Rate(s.SamplesPerSecond()), units.Prose.Percent(s.Utilisation()), units.Counted(s.Steps, "step", "steps"))
}

// judged is the verdict on a row, with the longest wait where there is one.
func (m *markdown) judged(row int) string {
	t := m.tally(row)
	if t.All.Steps == 0 {
		return "no step was finished"
	}
	text := advice.Judge(m.s, t).Text
	if wait := m.longest(row); wait != "" {
		text += "; " + wait
	}
	return text
}

// why is the reason for a change: what held the device up before it, and what the
// knob does about that.
func (m *markdown) why(row int) string {
	before := &m.rows[row-1]
	for i := range m.advice.Experiments {
		if x := &m.advice.Experiments[i]; x.First > before.Segment.Index && x.Last == m.rows[row].Segment.Index-1 {
			return "what the " + x.Name() + " before it was left with"
		}
	}
	knobs := advice.Chosen(before.Segment.Knobs, m.rows[row].Segment.Knobs)
	if i := m.rows[row].Repeats; i >= 0 && i < row-1 {
		return "a return to the settings of segment " + m.rows[i].Name()
	}
	a := advice.Of(m.s, m.tally(row-1), m.rows[:row]) // what came of it was not known then
	var reasons, unasked []string
	if row > 1 { // the start's verdict was told
		reasons = append(reasons, m.judged(row-1))
	}
	for _, k := range knobs {
		i := slices.IndexFunc(a.Findings, func(f advice.Finding) bool { return f.Knob == k.Name })
		switch help := m.help(k.Name); {
		case k.IsInject() && knob.Off(k.Value):
			reasons = append(reasons, "the injection was taken back")
		case k.IsInject():
			reasons = append(reasons, "a bottleneck was injected on purpose")
		case i >= 0:
			reasons = append(reasons, a.Findings[i].Evidence)
		case k.Name == "in_order" && knob.Off(k.Value) && strings.Contains(m.longest(row-1), headOfLine):
			reasons = append(reasons, "with in_order off a late batch no longer keeps those that are ready behind it waiting")
		case help != "":
			unasked = append(unasked, k.Name+" ("+help+")")
		default:
			unasked = append(unasked, k.Name)
		}
	}
	if len(unasked) > 0 {
		reasons = append(reasons, "nothing measured asked for "+strings.Join(unasked, ", "))
	}
	return or(strings.Join(reasons, "; "), "nobody noted it")
}

// help is what the session says of a knob, in a few words.
func (m *markdown) help(name string) string {
	s := knob.SpecOf(m.s.Meta.Specs, name)
	if s == nil {
		return ""
	}
	text, _, _ := strings.Cut(s.Help, ";")
	text, _, _ = strings.Cut(text, ":")
	return text
}

// longest names the longest wait for data of a row, with the worker that built the
// awaited batch; empty when the device never waited for long.
func (m *markdown) longest(row int) string {
	r, t := &m.rows[row], m.tally(row)
	w, found := attribution.LongestWait(m.s, t.From, t.To)
	if !found || r.DataShare < 0.01 || w.Time < t.Steady.Active()/(20*t.Steady.Steps) {
		return ""
	}
	text := fmt.Sprintf("its longest wait for data, %s before step %s, was for batch %s, on which %s spent %s, most of it on %s%s",
		units.Prose.Time(w.Time), units.Count(w.Step), units.Count(w.Batch), workerName(w.Worker), units.Prose.Time(w.Took), w.Kind, attribution.Waiting(w.Split))
	if w.Behind > 0 && knob.On(knob.ValueOf(r.Segment.Knobs, "in_order")) {
		text += fmt.Sprintf(", while %s behind it (%s: in_order delivers each batch in its turn)", units.Counted(w.Behind, "later batch lay ready", "later batches lay ready"), headOfLine)
	}
	return text
}

// headOfLine is what it is called that a late batch holds up others that are ready.
const headOfLine = "head-of-line blocking"

// workerName is a loader's lane in a sentence.
func workerName(t trace.TrackID) string {
	if t == trace.TrackInline {
		return "the step loop itself"
	}
	return "worker " + t.String()
}

// effect is what followed a change.
func (m *markdown) effect(row int) string {
	a, r := &m.rows[row-1], &m.rows[row]
	switch {
	case m.tally(row).All.Steps == 0:
		return "none seen, no step was finished with it"
	case r.Steps == 0:
		return "not known, all its steps belong to the transition"
	}
	c := &r.VsBefore.Throughput
	text := fmt.Sprintf("throughput against the settings before %s", c)
	if by := r.VsBefore.ByTurns(); by != "" {
		text += ", by " + by
	}
	if c.Answer == stats.Unknown {
		text = fmt.Sprintf("whether throughput changed is not known yet (%s)", c.Missing)
	}
	text += fmt.Sprintf("; utilisation %s -> %s, waiting for data %s -> %s", share(a, a.Utilisation), share(r, r.Utilisation), share(a, a.DataShare), share(r, r.DataShare))
	told := row == m.last && row-1 == m.first // above the pictures
	if compute := m.computeText(a, r, &r.VsBefore); compute != "" && !told {
		text += "; " + compute
	}
	for _, more := range []string{advice.Unearned(m.s, a, r, &r.VsBefore), attribution.Repeated(m.rows, row)} {
		if more != "" {
			text += "; " + more
		}
	}
	for _, k := range advice.Changed(a.Segment.Knobs, r.Segment.Knobs) {
		if note := notes[k.Name]; note != "" {
			text += "; " + note
		}
	}
	return text
}

// notes warn of changes that do not compare like with like.
var notes = map[string]string{
	"ceiling":    "with the ceiling on, cached batches are served: it shows what would be gained if data were free, and trains on the same few batches",
	"batch_size": "another batch size is another training, so compare its loss too",
	"precision":  "another precision is another training, so compare its loss too",
}

// share is a share of a row, or "-" when nothing steady stands behind it.
func share(r *attribution.SegmentStats, v float64) string {
	if r.Steps == 0 {
		return "-"
	}
	return units.Prose.Percent(v)
}
