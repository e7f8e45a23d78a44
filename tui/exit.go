package tui

import tea "github.com/charmbracelet/bubbletea"

// exit is how the screen is left, for good or for a while.
type exit struct {
	asking      bool // "quit?" is on screen
	quit        bool // the user quit
	interrupted bool // by ctrl+c

	// Run sets what a suspend needs of the process.
	shell   func() bool // reports whether somebody can continue the process
	suspend func()      // stops the process and comes back
}

// ask quits. It asks first if that would end a training run.
func (e *exit) ask(running bool) tea.Cmd {
	if running {
		e.asking = true
		return nil
	}
	return e.leave()
}

// answer takes the key that answers "quit?".
func (e *exit) answer(key string) tea.Cmd {
	switch key {
	case "y", "Y", "q", "enter":
		return e.leave()
	}
	e.asking = false
	return nil
}

// interrupt quits at once.
func (e *exit) interrupt() tea.Cmd {
	e.interrupted = true
	return e.leave()
}

func (e *exit) leave() tea.Cmd {
	e.quit, e.asking = true, false
	return tea.Quit
}

// pause returns the command that suspends the process, as ctrl+z does in a shell. It is nil where
// nobody could continue the process.
func (e *exit) pause() tea.Cmd {
	if e.shell == nil || !e.shell() {
		return nil
	}
	suspend := e.suspend
	return func() tea.Msg { suspend(); return nil }
}
