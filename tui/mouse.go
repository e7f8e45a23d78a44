package tui

import (
	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/tui/panel"
)

// wheel holds the key that does the same as a turn of the mouse's wheel.
var wheel = map[tea.MouseButton]string{tea.MouseButtonWheelUp: "up", tea.MouseButtonWheelDown: "down"}

// clicked is a panel whose lines can be selected. Line 0 is the first one inside its box.
type clicked interface{ Click(line int) }

// mouse handles a click or a turn of the wheel. A click gives a panel the focus and selects what it is on. The wheel scrolls
// the panel under the pointer, or what is open over the panels.
func mouse(m *Model, e tea.MouseMsg) tea.Cmd {
	key := wheel[e.Button]
	switch {
	case e.Action != tea.MouseActionPress, key == "" && e.Button != tea.MouseButtonLeft, m.exit.asking, m.prompt != nil:
		return nil
	case m.overlay.kind != overlayNone:
		if key == "" {
			return nil
		}
		return m.key(tea.KeyMsg{Type: panel.Pick(key == "up", tea.KeyUp, tea.KeyDown)})
	}
	i := m.layout.at(e.X, e.Y)
	if i < 0 {
		return nil
	}
	m.frame.dirty = true
	p := m.focus.panels[i]
	if key != "" {
		if do := panel.Pressed(p.Describe().Keys, key); do != nil {
			return do(key)
		}
		return nil
	}
	if p.Describe().Key != "" {
		m.focus.set(p)
	}
	if c, ok := p.(clicked); ok {
		c.Click(e.Y - m.layout.panels[i].Inner().Y)
	}
	return nil
}
