package tui

import (
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/tui/internal/demo"
)

// TestMouse clicks on panels and knobs and turns the wheel over them.
func TestMouse(t *testing.T) {
	run := demo.Session()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.View()
	at := func(panel string, line int, button tea.MouseButton) {
		r := s.layout.panels[slices.Index(s.focus.panels, s.focus.named(panel))].Inner()
		s.send(tea.MouseMsg{X: r.X + 2, Y: r.Y + line, Button: button, Action: tea.MouseActionPress})
		s.View()
	}
	focus := func() string { return s.focus.now.Describe().Name }
	at("timeline", 1, tea.MouseButtonLeft)
	if focus() != "timeline" {
		t.Errorf("a click on the timeline focuses %s", focus())
	}
	lines := strings.Split(s.box("knobs"), "\n")
	line := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "prefetch_factor") })
	at("knobs", line, tea.MouseButtonLeft)
	if k := s.panels.knobs.Selected(); focus() != "knobs" || k.Name != "prefetch_factor" {
		t.Errorf("a click on prefetch_factor focuses %s and selects %s", focus(), k.Name)
	}
	at("timeline", 1, tea.MouseButtonLeft)
	at("knobs", line, tea.MouseButtonWheelUp)
	if k := s.panels.knobs.Selected(); focus() != "timeline" || k.Name == "prefetch_factor" {
		t.Errorf("the wheel over the knobs focuses %s and selects %s", focus(), k.Name)
	}
	selected := s.panels.knobs.Selected()
	at("knobs", 0, tea.MouseButtonLeft) // a heading
	s.send(tea.MouseMsg{X: 500, Y: 500, Button: tea.MouseButtonLeft, Action: tea.MouseActionPress})
	s.press("q")
	at("knobs", line, tea.MouseButtonLeft) // while it asks
	s.press("n", "?")
	at("timeline", 1, tea.MouseButtonLeft) // under the help
	at("timeline", 1, tea.MouseButtonWheelDown)
	if s.overlay.scroll != 1 || focus() != "knobs" || s.panels.knobs.Selected() != selected {
		t.Errorf("help scrolled by %d, focus on %s, %s selected", s.overlay.scroll, focus(), s.panels.knobs.Selected().Name)
	}
}
