package tui

import (
	"strconv"
	"unicode/utf8"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/trace"
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
	if name == " " {
		name = "space"
	}
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
	case m.entry != nil:
		m.entry.key(m, k)
		return nil
	case m.overlay != overlayNone:
		return m.overlayKey(name)
	}
	if do := pressed(m.globals, name); do != nil {
		return do(m, name)
	}
	if do := pressed(m.focus.keys, name); do != nil {
		return do(m, name)
	}
	return nil
}

// makeGlobals makes the bindings that mean the same whatever has the focus, in the
// order of the footer.
func (m *Model) makeGlobals() []binding {
	keys := []binding{
		{keys: "p", live: true, hint: "pause", now: func(m *Model) string { return pick(m.paused, "resume", "") },
			help: "pause the engine, and go on", do: func(m *Model, _ string) tea.Cmd { return m.pauseEngine() }},
		{show: leftRight, replay: "cursor"}, // the timeline's, which has the focus then
		{keys: "z Z", replay: "zoom", help: "timeline: zoom in, out", do: func(m *Model, key string) tea.Cmd {
			m.timeline.zoomBy(pick(key == "z", -1, 1))
			return m.look()
		}},
		{keys: "f", hint: "expand", replay: "expand", help: "expand the focused panel, and back", do: (*Model).expand},
		{keys: "[ ]", also: "{ }", replay: "move", help: "rewind and forward; { } by a whole window; g G start, end", do: (*Model).rewind},
		{keys: "g home", do: func(m *Model, _ string) tea.Cmd { return m.toStart() }},
		{keys: "G end", do: func(m *Model, _ string) tea.Cmd { m.toEnd(); return m.look() }},
	}
	if m.o.Evaluate != nil {
		keys = append(keys, binding{keys: "v", hint: "evaluate", help: "evaluate the model on the test split; the time is in no share",
			do: func(m *Model, _ string) tea.Cmd { return m.evaluate() }})
	}
	if m.o.Capture != nil {
		keys = append(keys, binding{keys: "o", hint: "capture", help: "capture a few steps under PyTorch's profiler: what its operators take; they are in no rate",
			do: func(m *Model, _ string) tea.Cmd { return m.capture() }})
	}
	var first, last, names string
	for i := range m.panels {
		if p := &m.panels[i]; p.key != "" {
			first = pick(first == "", p.key, first)
			names += pick(names == "", "", ", ") + p.name
			last = p.key
		}
	}
	keys = append(keys,
		binding{keys: "tab " + first + "-" + last, also: "shift+tab", show: "tab", hint: "focus", replay: "focus", help: "focus: " + names,
			do: func(m *Model, key string) tea.Cmd { m.nextFocus(pick(key == "tab", 1, -1)); return nil }},
		binding{keys: "space", hint: "freeze", replay: "play", help: pick(m.o.Replay, "play or stop", "freeze the screen, the run goes on"),
			now: func(m *Model) string {
				if m.o.Replay {
					return pick(m.play, "stop", "")
				}
				return pick(m.frozen, "go on", "")
			},
			do: func(m *Model, _ string) tea.Cmd { return m.freeze() }},
		binding{keys: "esc", help: pick(m.o.Replay, "close what is open", "drop what is staged, close what is open, stop tuning"), do: func(m *Model, _ string) tea.Cmd { return m.escape() }},
		binding{keys: "u", live: true, help: "undo the last applied change", do: func(m *Model, _ string) tea.Cmd { return m.undo() }},
		binding{keys: "a", help: "make this configuration (or the selected row) baseline A", do: func(m *Model, _ string) tea.Cmd {
			m.setBaseline()
			return m.look()
		}},
		binding{keys: "A", live: true, hint: "A-B-A", help: "what is staged (else the selected row, or A) takes turns with the settings in force until it is known which is faster; again: stop",
			when: func(m *Model) bool { return len(m.knobs.staged) > 0 || m.underWay() == trace.Paired },
			now:  func(m *Model) string { return pick(m.underWay() == trace.Paired, "stop A-B-A", "") },
			do:   func(m *Model, _ string) tea.Cmd { return m.ask(trace.Paired) }},
		binding{keys: "c", live: true, hint: "ceiling", help: "what would fixing data buy? Cached batches are served for some seconds; again: stop",
			when: func(m *Model) bool { return m.underWay() == trace.Ceiling },
			now:  func(m *Model) string { return pick(m.underWay() == trace.Ceiling, "stop", "") },
			do:   func(m *Model, _ string) tea.Cmd { return m.ask(trace.Ceiling) }},
		binding{keys: "T", live: true, hint: "tune", help: "find the fastest loader settings; again, or esc: stop",
			when: func(m *Model) bool { return m.underWay() == trace.Tune },
			now:  func(m *Model) string { return pick(m.underWay() == trace.Tune, "stop tuning", "") },
			do:   func(m *Model, _ string) tea.Cmd { return m.ask(trace.Tune) }},
		binding{keys: "/", help: "timeline: show only lanes whose name contains a text", do: func(m *Model, _ string) tea.Cmd {
			m.setFocus(m.panel("timeline"))
			m.filter()
			return nil
		}},
		binding{keys: "n", help: "notes: the session's log", do: func(m *Model, _ string) tea.Cmd { m.open(overlayNotes); return nil }},
		binding{keys: "N", live: true, help: "note a hypothesis in the session's log", do: func(m *Model, _ string) tea.Cmd { m.hypothesis(); return nil }},
		binding{keys: "e", hint: "export", replay: "export", help: "export the report", do: func(m *Model, _ string) tea.Cmd { return m.export() }},
		binding{keys: "S", live: true, help: "the story: practise on an injected bottleneck, where one is offered", do: func(m *Model, _ string) tea.Cmd { return m.guide.key(m) }},
		binding{keys: "t", help: "theme: default, colorblind, mono", do: func(m *Model, _ string) tea.Cmd { m.nextTheme(); return nil }},
		binding{keys: "+ -", also: "= _", help: "refresh rate", do: func(m *Model, key string) tea.Cmd {
			return m.refreshRate(pick(key == "+" || key == "=", 1, -1))
		}},
		binding{keys: "ctrl+z", help: "suspend"}, // see key
	)
	for i := range m.panels {
		if p := &m.panels[i]; p.key != "" {
			keys = append(keys, binding{keys: p.key, hint: p.hint, replay: p.hint,
				when: func(m *Model) bool { return m.focus != p },
				do:   func(m *Model, _ string) tea.Cmd { m.setFocus(p); return nil }})
		}
	}
	return append(keys,
		binding{keys: "?", hint: "help", replay: "help", do: func(m *Model, _ string) tea.Cmd { m.open(overlayHelp); return nil }},
		binding{keys: "q ctrl+c", show: "q", hint: "quit", replay: "quit", help: "quit (q asks once while training runs; ctrl+c does not)",
			do: func(m *Model, _ string) tea.Cmd {
				if m.running() {
					m.asking = true
					return nil
				}
				return m.leave()
			}},
	)
}

// expand gives the focused panel the whole body, and takes it back.
func (m *Model) expand(string) tea.Cmd {
	m.expanded = !m.expanded
	if !m.expanded && m.alone() {
		m.setFocus(m.start())
	}
	return m.look()
}

func (m *Model) nextTheme() {
	m.theme = (m.theme + 1) % len(m.themes)
	m.c.Theme = &m.themes[m.theme]
	m.say("info", "theme: "+m.c.Theme.Name)
}

// escape drops the nearest thing: staged values, the cursor, the filter, the
// expansion, a tune under way.
func (m *Model) escape() tea.Cmd {
	switch {
	case len(m.knobs.staged) > 0:
		m.say("info", "dropped "+strconv.Itoa(len(m.knobs.staged))+" staged")
		clear(m.knobs.staged)
	case m.timeline.cursor >= 0:
		m.timeline.cursor = -1
		m.timeline.explained = [3]int64{}
		m.explain()
	case m.timeline.filter != "":
		m.timeline.filter = ""
		m.refreshTimeline()
	case m.expanded:
		m.expanded = false
	case m.focus.instead, m.alone(): // what it stands in for comes back
		m.side = m.home()
		m.setFocus(m.start())
	case m.guide.leave(m):
	case m.underWay() == trace.Tune:
		return m.ask(trace.Tune)
	case m.msg.text != "":
		m.msg = message{}
	}
	return nil
}

// alone: a small screen has no line for the focused panel, so it shows it instead
// of all others.
func (m *Model) alone() bool { return m.space().class == sizeSmall && !m.focus.small }

// entry is a text that is being typed. All keys go to it, until enter or esc.
type entry struct {
	prompt  string // in the footer, before the text
	most    int    // the longest text, in bytes
	text    string
	changed func(text string)          // after every key; nil: nothing follows it
	end     func(text string, ok bool) // after enter, or esc, which is not ok
}

func (e *entry) key(m *Model, k tea.KeyMsg) {
	switch k.Type {
	case tea.KeyEnter, tea.KeyEsc:
		m.entry = nil
		e.end(e.text, k.Type == tea.KeyEnter)
		return
	case tea.KeyBackspace:
		_, n := utf8.DecodeLastRuneInString(e.text)
		e.text = e.text[:len(e.text)-n]
	case tea.KeyRunes, tea.KeySpace:
		if len(e.text) < e.most {
			e.text += string(k.Runes)
		}
	}
	if e.changed != nil {
		e.changed(e.text)
	}
}
