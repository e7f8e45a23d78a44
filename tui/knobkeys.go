package tui

import (
	"unicode/utf8"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/trace"
)

// stageStep stages another value of the selected knob.
func (m *Model) stageStep(key string) tea.Cmd {
	if m.o.Control == nil {
		m.say("info", "a replay's knobs are read-only")
		return nil
	}
	if s := m.kn.selected(); s != nil {
		d, far := direction(key)
		m.kn.step(d, [...]int{strideOne: 1, strideShift: 4, strideCtrl: 16}[far], m.inForce(s.Name))
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
			m.setFocus(m.panel("knobs"))
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
	return trace.KnobValue(m.live.Segments[len(m.live.Segments)-1].Knobs, name)
}

// before are the values in force of the knobs that changes set.
func (m *Model) before(changes []trace.Knob) []trace.Knob {
	out := make([]trace.Knob, len(changes))
	for i, c := range changes {
		out[i] = trace.Knob{Name: c.Name, Value: m.inForce(c.Name)}
	}
	return out
}
