package report

import (
	"cmp"
	"fmt"
	"slices"
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
	v := advice.Judge(m.s, m.tally(m.last))
	m.line("- With the final settings (segment %s): %s.", m.letter(m.last), v.Text)
	if v.Advice != "" {
		m.line("- Next: %s.", strings.TrimSuffix(v.Advice, "."))
	}
	if v.Class == advice.NotEnoughSteps {
		m.line("- Next: run it longer; a verdict needs %d steady steps.", enough)
	}
	m.keep()
	if v.Class == advice.DeviceBound {
		m.costly()
	}
}

// keep recommends the fastest settings measured.
func (m *markdown) keep() {
	best := m.first
	for i := range m.rows {
		r := &m.rows[i]
		if i != m.first && r.Steps >= enough && !m.ceiling(i) && r.VsA.OK && r.VsA.Different && r.SamplesPerSecond > m.rows[best].SamplesPerSecond &&
			m.flagged(i, trace.FlagInjected) == m.flagged(m.first, trace.FlagInjected) {
			best = i
		}
	}
	if best == m.first {
		if len(m.rows) > 1 {
			m.line("- Keep the baseline's settings: nothing that was tried was measurably faster on equal terms.")
		}
		return
	}
	var flags []string
	for _, k := range changed(m.rows[m.first].Segment.Knobs, m.rows[best].Segment.Knobs) {
		flags = append(flags, fmt.Sprintf("--%s=%s", strings.ReplaceAll(k.Name, "_", "-"), quote(k.Value)))
	}
	m.line("- Keep segment %s: the fastest that was measured, %s the baseline's throughput. As flags: %s.",
		m.letter(best), compared(m.rows[best].VsA), code(strings.Join(flags, " ")))
}

// costly names the launches that take most of the device's time.
func (m *markdown) costly() {
	var total int64
	ops := slices.Clone(m.s.Ops)
	for _, o := range ops {
		total += o.Total
	}
	if total == 0 {
		return
	}
	slices.SortStableFunc(ops, func(a, b trace.OpTime) int { return cmp.Compare(b.Total, a.Total) })
	var words []string
	for _, o := range ops[:min(3, len(ops))] {
		name := o.Name
		if o.Layer != "" {
			name += " of " + o.Layer
		}
		words = append(words, fmt.Sprintf("%s (%s)", name, figures.Prose.Percent(float64(o.Total)/float64(total))))
	}
	m.line("- The device's own time goes first to %s.", strings.Join(words, ", "))
}

func (m *markdown) caveats() {
	m.heading(2, "Caveats")
	for _, l := range m.labels {
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
				m.line("- Logged %s after the start (%s): %s", figures.Prose.Time(n.T), n.Level, strings.ReplaceAll(n.Text, "\n", " "))
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
