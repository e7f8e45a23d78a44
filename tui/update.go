package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/tui/panel"
)

// Update handles one message. It does no I/O. Whatever may block runs in a command.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.layout.w, m.layout.h = msg.Width, msg.Height
		return m, m.look()
	case tickMsg:
		if msg.gen != m.pace.ticks {
			return m, nil
		}
		return m, tea.Batch(m.advance(msg.now), m.pace.tick())
	case tea.KeyMsg:
		return m, m.keys(msg)
	case tea.MouseMsg:
		return m, mouse(m, msg)
	case analysedMsg:
		return m, m.analysed(&msg)
	case brokenMsg:
		panic(string(msg))
	case setDone:
		m.requests.applied(msg)
	case panel.Risk:
		m.panels.knobs.SetRisk(msg)
	case pauseDone:
		if msg.err == nil {
			return m, nil
		}
		m.Say("error", msg.err.Error())
	case beginDone:
		m.requests.begun(msg)
	case exportDone:
		if m.requests.exported(msg) {
			m.guide.exported(msg.path)
		}
	case panel.Failed:
		m.Say("error", string(msg))
	case backgroundMsg:
		m.frame.background(bool(msg))
	case suspendMsg:
		return m, m.stop()
	default:
		return m, nil
	}
	m.frame.dirty = true
	return m, nil
}

// advance handles a tick: time passes, and a new snapshot becomes the picture.
func (m *Model) advance(now time.Time) tea.Cmd {
	if m.msg.tick() {
		m.frame.dirty = true
	}
	s := &m.session
	if s.live != nil {
		s.moment.advance(now, s.live.Now)
		if m.o.Replay && !s.moment.play {
			return nil // a file does not change
		}
	}
	m.refresh(now, false)
	return tea.Batch(s.analyse(now, false), m.requests.foresee())
}

// look refreshes after the view was moved by hand.
func (m *Model) look() tea.Cmd {
	m.frame.dirty = true
	m.panels.verdict.Loosen()
	m.panels.timeline.Loosen()
	now := time.Now()
	m.refresh(now, true)
	return m.session.analyse(now, m.o.Replay || m.session.moment.frozen)
}

// refresh shows a new snapshot. force pulls the timeline's spans even if the last ones are recent.
func (m *Model) refresh(now time.Time, force bool) {
	if m.o.Source != nil && m.session.refresh(now, force, m.arrange().inside(&m.focus, m.panels.timeline)) {
		m.frame.dirty = true
	}
}

// analysed gives the panels what an analysis found.
func (m *Model) analysed(r *analysedMsg) tea.Cmd {
	m.session.analysed(r)
	m.panels.ops.Set(&r.Findings)
	m.panels.blame.Set(r.Blame)
	m.panels.ranks.Set(&r.Findings)
	if r.World > 1 && !m.o.Ranks { // since an elastic restart
		m.o.Ranks, m.focus.panels = true, append(m.focus.panels, m.panels.ranks)
		m.globals = m.makeGlobals()
	}
	m.guide.update()
	m.panels.experiments.Update(m.panels.knobs.Specs(), &m.session.analysis.Analysis)
	m.frame.dirty = true
	if m.panels.timeline.Autozoom(&m.session.analysis.Win, !m.session.moment.frozen) {
		m.refresh(time.Now(), true)
	}
	if m.session.outdated(r) { // the view moved meanwhile
		return m.session.analyse(time.Now(), true)
	}
	return nil
}
