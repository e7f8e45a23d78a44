package tui

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

type beginDone struct {
	knobs, before []knob.Setting
	err           error
}

// underWay is the kind of the experiment that changes the run's knobs now, empty where
// none does.
func (m *Model) underWay() trace.ExperimentKind {
	if m.live == nil || !m.running() {
		return ""
	}
	if n := len(m.live.Experiments); n > 0 && m.live.Experiments[n-1].Running() {
		return m.live.Experiments[n-1].Kind
	}
	return ""
}

// ask begins an experiment, or stops the one under way.
func (m *Model) ask(kind trace.ExperimentKind) tea.Cmd {
	x := m.o.Experiments
	switch {
	case x == nil || !m.running():
		m.say("info", "only a run that goes on can be asked: its knobs are changed for a while")
		return nil
	case m.underWay() != "":
		m.say("info", "stopping: the settings that it began with come back")
		return func() tea.Msg {
			return beginDone{err: guard("stop the experiment", func() error { x.Stop(); return nil })}
		}
	}
	var knobs []knob.Setting
	if kind == trace.Paired {
		if knobs = m.other(); len(knobs) == 0 {
			m.say("info", "stage the other value of a knob (2, then left or right): A lets it take turns with the one in force")
			return nil
		}
	}
	before := m.before(knobs)
	return func() tea.Msg {
		err := guard("begin an experiment", func() error { return x.Begin(kind, knobs) })
		return beginDone{knobs, before, err}
	}
}

// other are the settings to compare those in force with: what is staged, else what the
// selected row of the experiments has, or the baseline's.
func (m *Model) other() []knob.Setting {
	if staged := m.knobs.changes(); len(staged) > 0 || len(m.live.Segments) == 0 {
		return staged
	}
	now := m.live.Segments[len(m.live.Segments)-1].Knobs
	e := &m.experiments
	e.fill(m.see(m.focus))
	for i := range e.rows {
		r := &e.rows[i]
		if m.focus.name == "experiments" && i == e.table.Cursor || m.focus.name != "experiments" && r.baseline {
			return slices.DeleteFunc(advice.Chosen(now, r.Segment.Knobs), func(k knob.Setting) bool { return k.Name == "ceiling" })
		}
	}
	return nil
}

func (m *Model) begun(d beginDone) {
	if d.err != nil {
		m.say("error", d.err.Error())
		return
	}
	for _, k := range d.knobs {
		delete(m.knobs.staged, k.Name)
	}
	if len(d.before) > 0 {
		m.knobs.undo = append(m.knobs.undo, d.before)
	}
	m.analysis.pause = 0
	m.dirty = true
}

// answered tells of an experiment that ended since the last analysis.
func (m *Model) answered(xs []attribution.Experiment) {
	ended := 0
	for i := range xs {
		if !xs[i].Running() {
			ended++
		}
	}
	if was := m.analysis.ended; ended > was && m.analysis.at > 0 && !m.o.Replay && !m.frozen {
		for i := len(xs) - 1; i >= 0; i-- {
			if !xs[i].Running() {
				m.say("info", xs[i].Name()+": "+xs[i].Text())
				break
			}
		}
	}
	m.analysis.ended = max(m.analysis.ended, ended) // a look back at an earlier moment has fewer
}
