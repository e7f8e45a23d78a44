package report

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/advice"
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
)

func (m *markdown) recommendations() {
	m.heading(2, "Recommendations")
	defer m.line("")
	if m.s.Total.Steps == 0 || m.first < 0 {
		m.line("- Run it again until at least %d steps are finished.", enough)
		return
	}
	if m.s.Diverged > 0 {
		m.line("- The training diverged at step %s: lower the learning rate before anything else.", figures.Count(m.s.DivergedAt))
	}
	a := &m.advice
	m.line("- With the final settings (segment %s): %s.", m.letter(m.last), a.Verdict.Text)
	if text := a.Text(); text != "" {
		m.line("- Next: %s.", text)
	}
	if a.Verdict.Class == advice.NotEnoughSteps {
		m.line("- Next: run it longer; a verdict needs %d steady steps.", enough)
	}
	if a.Keep.Text != "" {
		m.line("- %s.%s", sentence(a.Keep.Text), asFlags(a.Keep.Knobs))
	}
	if a.Costly.Text != "" {
		m.line("- %s.", sentence(a.Costly.Text))
	}
}

// asFlags are settings as they are given on the command line.
func asFlags(knobs []trace.Knob) string {
	if len(knobs) == 0 {
		return ""
	}
	flags := make([]string, len(knobs))
	for i, k := range knobs {
		flags[i] = fmt.Sprintf("--%s=%s", strings.ReplaceAll(k.Name, "_", "-"), quote(k.Value))
	}
	return " As flags: " + code(strings.Join(flags, " ")) + "."
}

// sentence begins with a capital.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (m *markdown) caveats() {
	m.heading(2, "Caveats")
	for _, l := range m.advice.Labels {
		in := ""
		if len(l.Segments) > 0 {
			in = "in " + m.segmentNames(l.Segments) + ": "
		}
		m.line("- [%s] %s%s.", l.Words, in, l.Sentence)
	}
	if m.drops > 0 {
		m.line("- Spans dropped: %s.", m.dropText())
	}
	if m.projects() {
		m.line("- Projected: times called projected were worked out from a rate, not run in full.")
	}
	m.line("- Outcome: %s", m.status())
	if u := m.whole.Share(trace.CauseUnknown); u >= 0.05 {
		m.line("- %s of the time the device was idle for no recorded cause.", figures.Prose.Percent(u))
	}
	if m.whole.Paused > 0 {
		m.line("- The run was paused for %s, which is in no number but this one.", figures.Prose.Time(m.whole.Paused))
	}
	m.line("- One session on one machine: confidence intervals speak of the spread within it, not of other runs or machines.")
	notes := 0
	for _, n := range m.s.Notes {
		if n.Level == "warn" || n.Level == "error" {
			if notes++; notes <= 20 {
				m.line("- Logged %s after the start (%s): %s", figures.Prose.Time(n.T), n.Level, n.Text)
			}
		}
	}
	if notes > 20 {
		m.line("- And %d more warnings and errors.", notes-20)
	}
}

// segmentNames are "segment A" or "segments A, #2".
func (m *markdown) segmentNames(segments []int32) string {
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
			l = append(l, fmt.Sprintf("%s on %s", figures.Count(n), trackName(trace.TrackID(t))))
		}
	}
	return figures.Count(m.drops) + " (" + strings.Join(l, ", ") + "): waits, causes and utilisation of the steps near them may be wrong, the number of steps is not"
}

// projects reports whether any epoch time in the report is projected.
func (m *markdown) projects() bool {
	if m.first >= 0 && m.s.Total.Steps > 0 && m.epochOf(m.first).projected > 0 {
		return true
	}
	for _, e := range m.epochs {
		if !e.Complete && e.Projected > 0 {
			return true
		}
	}
	return false
}

// trackName is a lane's name.
func trackName(t trace.TrackID) string {
	switch t {
	case trace.TrackStep:
		return "step loop"
	case trace.TrackCopy:
		return "copy"
	case trace.TrackCompute:
		return "compute"
	case trace.TrackStall:
		return "STALL"
	case trace.TrackOps:
		return "ops of timed steps"
	case trace.TrackQueue:
		return "queue"
	case trace.TrackInline:
		return "inline"
	}
	if t >= trace.TrackWorker0 {
		return "w" + itoa(int64(t-trace.TrackWorker0))
	}
	return "track " + itoa(int64(t))
}
