package tui

import (
	"strconv"
	"unicode/utf8"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/trace"
)

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
	case "1", "2", "3", "4", "5":
		m.setFocus(panel(name[0] - '0'))
	case "f":
		m.expanded = !m.expanded
		return m.look(), true
	case " ":
		return m.freeze(), true
	case "[", "]", "{", "}":
		return m.rewind(name), true
	case "g", "home":
		m.frozen, m.at = true, 0
		return m.look(), true
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
		m.say("info", "theme: "+m.themes[m.theme].name)
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
	if p == paneVerdict || p == paneStalls || p == paneExperiments {
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
	case m.msg.text != "":
		m.msg = message{}
	}
}

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
		return len(helpKeys) + helpLegend + 1
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

// knobKey selects and stages.
func (m *Model) knobKey(name string) tea.Cmd {
	switch name {
	case "up", "k":
		m.kn.move(-1)
		return nil
	case "down", "j":
		m.kn.move(1)
		return nil
	case "pgup":
		m.kn.move(-8)
		return nil
	case "pgdown":
		m.kn.move(8)
		return nil
	}
	d, size := 0, 1
	switch name {
	case "left", "h":
		d = -1
	case "right", "l":
		d = 1
	case "shift+left", "H":
		d, size = -1, 4
	case "shift+right", "L":
		d, size = 1, 4
	case "ctrl+left":
		d, size = -1, 16
	case "ctrl+right":
		d, size = 1, 16
	case "enter":
		if len(m.kn.staged) > 0 {
			return m.apply(m.kn.changes(), true)
		}
		m.edit()
		return nil
	case "i":
		m.edit()
		return nil
	default:
		return nil
	}
	if m.o.Control == nil {
		m.say("info", "a replay's knobs are read-only")
		return nil
	}
	if s := m.kn.selected(); s != nil {
		m.kn.step(d, size, m.inForce(s.Name))
	}
	return nil
}

// edit opens the selected knob: text for numbers and times, the other value for
// a switch.
func (m *Model) edit() {
	s := m.kn.selected()
	if s == nil {
		return
	}
	if m.o.Control == nil {
		m.say("info", "a replay's knobs are read-only")
		return
	}
	cur := m.kn.target(s.Name, m.inForce(s.Name))
	switch {
	case s.Type == "bool":
		m.kn.stage(s.Name, boolLike(cur, !isOn(cur)), m.inForce(s.Name))
	case s.Type == "enum":
		next := stepped(s, cur, 1, 1)
		if next == cur && len(s.Values) > 0 {
			next = s.Values[0]
		}
		m.kn.stage(s.Name, next, m.inForce(s.Name))
	default:
		m.kn.editing, m.kn.edit = true, ""
	}
}

func (m *Model) editKey(k tea.KeyMsg) tea.Cmd {
	s := m.kn.selected()
	switch k.Type {
	case tea.KeyEnter:
		m.kn.editing = false
		if m.kn.edit == "" {
			return nil
		}
		v, problem := valid(s, m.kn.edit)
		if problem != "" {
			m.say("error", problem)
			return nil
		}
		m.kn.stage(s.Name, v, m.inForce(s.Name))
	case tea.KeyEsc:
		m.kn.editing = false
	case tea.KeyBackspace:
		m.kn.edit = chop(m.kn.edit)
	case tea.KeyRunes:
		if len(m.kn.edit) < 24 {
			m.kn.edit += string(k.Runes)
		}
	}
	return nil
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

// chop removes the last rune.
func chop(s string) string {
	_, n := utf8.DecodeLastRuneInString(s)
	return s[:len(s)-n]
}

// stageAdvice stages what the verdict suggests.
func (m *Model) stageAdvice() {
	v := &m.an.verdict
	if v.Knob == "" || m.o.Control == nil {
		return
	}
	for i := range m.kn.specs {
		if m.kn.specs[i].Name == v.Knob {
			m.kn.sel = i
			m.kn.stage(v.Knob, v.Value, m.inForce(v.Knob))
			m.setFocus(paneKnobs)
			m.say("info", v.Knob+" "+v.Value+" is staged: enter applies it")
			return
		}
	}
}

// inForce is the value the newest segment of the live session has.
func (m *Model) inForce(name string) string {
	if m.live == nil || len(m.live.Segments) == 0 {
		return ""
	}
	return knobValue(m.live.Segments[len(m.live.Segments)-1].Knobs, name)
}

// before are the values in force of the knobs that changes set.
func (m *Model) before(changes []trace.Knob) []trace.Knob {
	out := make([]trace.Knob, len(changes))
	for i, c := range changes {
		out[i] = trace.Knob{Name: c.Name, Value: m.inForce(c.Name)}
	}
	return out
}
