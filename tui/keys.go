package tui

import (
	"strconv"

	tea "github.com/charmbracelet/bubbletea"
)

// keys handles a key message. Keys typed faster than the terminal is read come as
// one message of several runes: each is a key press.
func (m *Model) keys(k tea.KeyMsg) tea.Cmd {
	if k.Type != tea.KeyRunes || len(k.Runes) < 2 || k.Paste {
		return m.key(k)
	}
	var cmds []tea.Cmd
	for _, r := range k.Runes {
		one := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}, Alt: k.Alt}
		if r == ' ' {
			one.Type = tea.KeySpace
		}
		if cmd := m.key(one); cmd != nil {
			cmds = append(cmds, cmd)
		}
		if m.quit {
			break
		}
	}
	switch len(cmds) {
	case 0:
		return nil
	case 1:
		return cmds[0]
	}
	return tea.Sequence(cmds...)
}

// key handles a key press.
func (m *Model) key(k tea.KeyMsg) tea.Cmd {
	m.dirty = true
	name := k.String()
	if m.msg.level == "error" {
		m.msg = message{}
	}
	switch {
	case name == "ctrl+c":
		m.interrupted = true
		return m.leave()
	case name == "ctrl+z":
		return m.stop()
	case m.asking:
		return m.answer(name)
	case m.kn.editing:
		return m.editKey(k)
	case m.tl.typing:
		m.filterKey(k)
		return nil
	case m.overlay != overlayNone:
		return m.overlayKey(name)
	}
	if cmd, done := m.globalKey(name); done {
		return cmd
	}
	switch m.focus {
	case paneKnobs:
		return m.knobKey(name)
	case paneTimeline:
		m.timelineKey(name)
	case paneExperiments:
		m.tableKey(name)
	case paneOps:
		m.op.key(name)
	case paneVerdict:
		if name == "enter" {
			m.stageAdvice()
		}
	}
	return nil
}

// globalKey handles the keys that mean the same everywhere.
func (m *Model) globalKey(name string) (tea.Cmd, bool) {
	switch name {
	case "q":
		if m.running() {
			m.asking = true
			return nil, true
		}
		return m.leave(), true
	case "?":
		m.overlay, m.scroll = overlayHelp, 0
	case "n":
		m.overlay, m.scroll = overlayNotes, 0
	case "tab":
		m.setFocus(m.focus%lastPane + 1)
	case "shift+tab":
		m.setFocus((m.focus+lastPane-2)%lastPane + 1)
	case "1", "2", "3", "4", "5", "6":
		m.setFocus(panel(name[0] - '0'))
	case "f":
		m.expanded = !m.expanded
		if !m.expanded && m.alone() {
			m.setFocus(paneVerdict)
		}
		return m.look(), true
	case " ":
		return m.freeze(), true
	case "[", "]", "{", "}":
		return m.rewind(name), true
	case "g", "home":
		return m.toStart(), true
	case "G", "end":
		m.toEnd()
		return m.look(), true
	case "z":
		m.tl.zoomBy(-1)
		return m.look(), true
	case "Z":
		m.tl.zoomBy(1)
		return m.look(), true
	case "/":
		m.tl.typing, m.tl.filter = true, ""
		m.setFocus(paneTimeline)
	case "+", "=":
		return m.refreshRate(1), true
	case "-", "_":
		return m.refreshRate(-1), true
	case "t":
		m.theme = (m.theme + 1) % len(m.themes)
		m.c.Theme = &m.themes[m.theme]
		m.say("info", "theme: "+m.c.Theme.Name)
	case "p":
		return m.pauseEngine(), true
	case "e":
		return m.export(), true
	case "u":
		return m.undo(), true
	case "a":
		m.setBaseline()
		return m.analyse(m.an.started, true), true
	case "A":
		m.say("info", "the paired A-B-A test is not built yet: set A with a, change a knob, and read vs A with its 95% CI")
	case "esc":
		m.escape()
	default:
		return nil, false
	}
	return nil, true
}

func (m *Model) setFocus(p panel) {
	m.focus = p
	if p == paneVerdict || p == paneStalls || p == paneExperiments || p == paneOps {
		m.side = p
	}
}

// escape drops the nearest thing: staged values, the cursor, the filter, the
// expansion.
func (m *Model) escape() {
	switch {
	case len(m.kn.staged) > 0:
		m.say("info", "dropped "+strconv.Itoa(len(m.kn.staged))+" staged")
		clear(m.kn.staged)
	case m.tl.cursor >= 0:
		m.tl.cursor = -1
		m.tl.lineKey = [3]int64{}
		m.tl.explain(m)
	case m.tl.filter != "":
		m.tl.filter = ""
		m.refreshTimeline()
	case m.expanded:
		m.expanded = false
	case m.focus == paneOps, m.alone(): // what they stand in for comes back
		m.setFocus(paneVerdict)
	case m.msg.text != "":
		m.msg = message{}
	}
}

// alone: a small screen has no line for the focused panel, so it shows it instead
// of all others.
func (m *Model) alone() bool { return classOf(m.w, m.h) == sizeSmall && m.focus >= paneStalls }

func (m *Model) overlayKey(name string) tea.Cmd {
	switch name {
	case "up", "k":
		m.scroll = max(0, m.scroll-1)
	case "down", "j":
		m.scroll = min(m.scroll+1, max(0, m.overlayLines()-1))
	case "pgdown", " ":
		m.scroll = min(m.scroll+10, max(0, m.overlayLines()-1))
	case "pgup":
		m.scroll = max(0, m.scroll-10)
	case "q", "esc", "?", "n", "enter":
		m.overlay = overlayNone
	}
	return nil
}

func (m *Model) overlayLines() int {
	if m.overlay == overlayHelp {
		return helpLines(min(m.w, 84) - 2)
	}
	return len(m.pic.snap.Notes)
}

// timelineKey moves the cursor, which needs a screen that stands still.
func (m *Model) timelineKey(name string) {
	d := 0
	switch name {
	case "left", "h":
		d = -1
	case "right", "l":
		d = 1
	case "shift+left", "H":
		d = -10
	case "shift+right", "L":
		d = 10
	case "ctrl+left":
		d = -40
	case "ctrl+right":
		d = 40
	case "up", "k":
		m.tl.scroll = max(0, m.tl.scroll-1)
	case "down", "j":
		m.tl.scroll++
	}
	if d != 0 {
		if !m.frozen {
			m.frozen, m.at = true, m.pic.at
			m.say("info", "frozen to look around; space goes on")
		}
		m.tl.moveCursor(d)
		m.tl.explain(m)
	}
}

func (m *Model) tableKey(name string) {
	n := len(m.an.segs)
	if n == 0 {
		return
	}
	if m.ex.sel < 0 || m.ex.sel >= n {
		m.ex.sel = n - 1
	}
	switch name {
	case "up", "k":
		m.ex.sel = max(0, m.ex.sel-1)
	case "down", "j":
		m.ex.sel++
		if m.ex.sel >= n-1 {
			m.ex.sel = -1
		}
	}
}

func (m *Model) filterKey(k tea.KeyMsg) {
	switch k.Type {
	case tea.KeyEnter:
		m.tl.typing = false
	case tea.KeyEsc:
		m.tl.typing, m.tl.filter = false, ""
	case tea.KeyBackspace:
		m.tl.filter = chop(m.tl.filter)
	case tea.KeyRunes, tea.KeySpace:
		if len(m.tl.filter) < 24 {
			m.tl.filter += string(k.Runes)
		}
	}
	m.refreshTimeline()
}
