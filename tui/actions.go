package tui

import (
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/base/knob"
)

type setDone struct {
	changes, before []knob.Setting
	undoable        bool
	err             error
}

// apply asks the engine for changes. The staged values stay until it accepts.
func (m *Model) apply(changes []knob.Setting, undoable bool) tea.Cmd {
	ctl := m.o.Control
	if ctl == nil || len(changes) == 0 {
		return nil
	}
	before := m.before(changes)
	return func() tea.Msg {
		err := guard("apply the knobs", func() error { return ctl.Set(changes) })
		return setDone{changes, before, undoable, err}
	}
}

func (m *Model) setDone(d setDone) {
	if d.err != nil {
		m.say("error", d.err.Error())
		return
	}
	m.knobs.accepted(d.changes, m.o.Control.Requested())
	if d.undoable {
		m.knobs.undo = append(m.knobs.undo, d.before)
	}
	m.dirty = true
}

// undo applies the values from before the last change.
func (m *Model) undo() tea.Cmd {
	n := len(m.knobs.undo)
	if n == 0 {
		m.say("info", "nothing to undo")
		return nil
	}
	last := m.knobs.undo[n-1]
	m.knobs.undo = m.knobs.undo[:n-1]
	words := make([]string, len(last))
	for i, k := range last {
		words[i] = k.Name + " " + k.Value
	}
	m.say("info", "undo: back to "+strings.Join(words, ", "))
	return m.apply(last, false)
}

type pauseDone struct{ err error }

func (m *Model) pauseEngine() tea.Cmd {
	ctl := m.o.Control
	if ctl == nil {
		m.say("info", "a replay has no engine to pause; space plays and stops")
		return nil
	}
	if !m.running() {
		m.say("info", "the run has ended")
		return nil
	}
	on := !m.paused
	return func() tea.Msg {
		return pauseDone{guard("pause the engine", func() error { ctl.Pause(on); return nil })}
	}
}

// evaluate asks for an evaluation on the test split.
func (m *Model) evaluate() tea.Cmd {
	if !m.running() {
		m.say("info", "the run has ended")
		return nil
	}
	m.say("info", "evaluating on the test split")
	return func() tea.Msg {
		return pauseDone{guard("evaluate", m.o.Evaluate)}
	}
}

// capture asks for a few steps under the profiler.
func (m *Model) capture() tea.Cmd {
	if !m.running() {
		m.say("info", "the run has ended")
		return nil
	}
	m.say("info", "capturing a few steps; n tells what came of it, 6 what operators took")
	return func() tea.Msg {
		return pauseDone{guard("capture", m.o.Capture)}
	}
}

type exportDone struct {
	path string
	err  error
}

func (m *Model) export() tea.Cmd {
	f := m.o.Export
	if f == nil {
		m.say("info", "nothing to export to: the session is not stored")
		return nil
	}
	if m.exporting {
		return nil
	}
	m.exporting = true
	m.say("info", "writing the report ...")
	return func() tea.Msg {
		var d exportDone
		d.err = guard("write the report", func() (err error) { d.path, err = f(); return err })
		return d
	}
}

// note writes a line into the session's log, and reports whether there is one to write
// to: that of a run that goes on.
func (m *Model) note(text string) bool {
	if m.o.Note == nil || !m.running() {
		return false
	}
	m.o.Note("info", text)
	return true
}

// hypothesis lets the user write down what they expect, before they try it.
func (m *Model) hypothesis() {
	if m.o.Note == nil || !m.running() {
		m.say("info", "the log of a run that has ended is closed")
		return
	}
	m.entry = &entry{prompt: "hypothesis: ", most: 200, end: func(text string, ok bool) {
		if text = strings.TrimSpace(text); ok && text != "" && m.note("hypothesis: "+text) {
			m.say("info", "noted; n shows the notes")
		}
	}}
}

// guard turns a panic of f into an error that names what was done.
func guard(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v", what, p)
		}
	}()
	return f()
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
