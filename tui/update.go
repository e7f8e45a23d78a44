package tui

import (
	"fmt"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// Update handles one message. It does no I/O: what may block runs in a command.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = msg.Width, msg.Height
		m.dirty = true
		return m, m.look()
	case tickMsg:
		if msg.gen != m.ticks {
			return m, nil
		}
		return m, tea.Batch(m.advance(msg.now), m.tick())
	case tea.KeyMsg:
		return m, m.keys(msg)
	case analysedMsg:
		m.analysed(msg)
		m.guide.update(m)
		m.experiments.update(m.knobs.specs, &m.analysis.result)
		if m.timeline.autozoom(&m.analysis.win, !m.frozen) {
			m.refresh(time.Now(), true)
		}
		if m.frozen && msg.at != m.pic.snap.Now || msg.baseline != m.pic.snap.Baseline {
			return m, m.analyse(time.Now(), true) // the view moved meanwhile
		}
	case brokenMsg:
		panic(string(msg))
	case setDone:
		m.setDone(msg)
	case foreseen:
		m.knobs.risks.take(msg)
		m.dirty = true
	case pauseDone:
		if msg.err != nil {
			m.say("error", msg.err.Error())
		}
	case beginDone:
		m.begun(msg)
	case exportDone:
		m.exporting = false
		if msg.err != nil {
			m.say("error", "export: "+msg.err.Error())
		} else {
			m.say("info", "report written to "+msg.path)
			m.note("report written to " + msg.path)
			m.guide.exported(m, msg.path)
		}
	case suspendMsg:
		return m, m.stop()
	}
	return m, nil
}

// advance is a tick: time passes, a new snapshot becomes the picture.
func (m *Model) advance(now time.Time) tea.Cmd {
	if m.msg.ticks > 0 {
		if m.msg.ticks--; m.msg.ticks == 0 {
			m.msg = message{}
			m.dirty = true
		}
	}
	if m.play && m.live != nil {
		if !m.played.IsZero() {
			m.at += now.Sub(m.played).Nanoseconds()
		}
		m.played = now
		if m.at >= m.live.Now {
			m.at, m.play = m.live.Now, false
		}
	}
	if m.o.Replay && !m.play && m.live != nil {
		return nil // a file does not change
	}
	m.refresh(now, false)
	return tea.Batch(m.analyse(now, false), m.foresee())
}

// look refreshes after the view was moved by hand.
func (m *Model) look() tea.Cmd {
	m.dirty = true
	m.verdict.tall.loosen()
	m.timeline.tall.loosen()
	now := time.Now()
	m.refresh(now, true)
	return m.analyse(now, m.o.Replay || m.frozen)
}

// freeze stops the screen and lets it go; in a replay it plays and stops.
func (m *Model) freeze() tea.Cmd {
	if m.live == nil {
		return nil
	}
	if m.o.Replay {
		m.play = !m.play
		m.played = time.Time{}
		if m.play && m.at >= m.live.Now {
			m.at = 0
		}
		return m.look()
	}
	m.frozen = !m.frozen
	m.at = m.pic.at
	if !m.frozen {
		m.timeline.cursor = -1
	}
	return m.look()
}

// rewind moves the moment shown by a quarter of the window, or a whole one.
func (m *Model) rewind(name string) tea.Cmd {
	if m.live == nil {
		return nil
	}
	if !m.frozen {
		m.frozen, m.at = true, m.pic.at
	}
	d := max(m.timeline.bin()*int64(m.timeline.cols)/4, m.timeline.bin())
	from := m.at
	switch name {
	case "[":
		m.at -= d
	case "]":
		m.at += d
	case "{":
		m.at -= 4 * d
	case "}":
		m.at += 4 * d
	}
	m.at = max(m.at, 0)
	if m.timeline.cursor >= 0 { // it stays in its column
		m.timeline.cursor = max(0, m.timeline.cursor+m.at-from)
	}
	if m.at >= m.live.Now {
		m.toEnd()
	}
	return m.look()
}

// toStart goes to the first moment whose timeline is full: it begins where the
// recording does, or, where the first step ends behind the middle of that, a quarter
// of the columns before its end. At time 0 there would be nothing to see.
func (m *Model) toStart() tea.Cmd {
	if m.live == nil {
		return nil
	}
	width := m.timeline.bin() * int64(m.timeline.cols)
	at := width - 1 // the last of the columns that begin at 0
	if m.live.Total.Steps > 0 && m.live.First.End > width/2 {
		at = m.live.First.End + width*3/4
	}
	if at >= m.live.Now {
		at = m.live.Now
		m.say("info", "the timeline shows the recording from its start to now")
	}
	m.frozen, m.at, m.timeline.cursor = true, at, -1
	return m.look()
}

// toEnd goes to the newest moment and, in a live run, follows it.
func (m *Model) toEnd() {
	if m.live == nil {
		return
	}
	m.at = m.live.Now
	m.timeline.cursor = -1
	m.play = false
	if !m.o.Replay {
		m.frozen = false
	}
}

// refreshRate steps through the rates.
func (m *Model) refreshRate(d int) tea.Cmd {
	i, exact := slices.BinarySearch(rates, m.fps)
	switch {
	case d < 0 || exact:
		i += d
	}
	m.fps = rates[min(max(i, 0), len(rates)-1)]
	m.ticks++
	m.say("info", fmt.Sprintf("%d frames a second", m.fps))
	return m.tick()
}

// answer is the reply to "quit?".
func (m *Model) answer(name string) tea.Cmd {
	switch name {
	case "y", "Y", "q", "enter":
		return m.leave()
	}
	m.asking = false
	return nil
}

// leave quits.
func (m *Model) leave() tea.Cmd {
	m.quit, m.asking = true, false
	return tea.Quit
}

// stop suspends the process, as ctrl+z does in a shell.
func (m *Model) stop() tea.Cmd {
	if m.shell == nil || !m.shell() {
		m.say("info", "nothing to suspend to: this terminal has no shell with job control")
		return nil
	}
	suspend := m.suspend
	return func() tea.Msg { suspend(); return nil }
}
