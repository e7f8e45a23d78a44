package tui

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/panel"
)

// keys handles a key message. Keys that are typed faster than the terminal is read come as one
// message of several runes. Each rune is a key press.
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
		if m.exit.quit {
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
	m.frame.dirty = true
	name := k.String()
	if name == " " {
		name = "space"
	}
	if m.msg.level == "error" {
		m.msg.clear()
	}
	switch {
	case name == "ctrl+c":
		return m.exit.interrupt()
	case name == "ctrl+z":
		return m.stop()
	case m.exit.asking:
		return m.exit.answer(name)
	case m.prompt != nil:
		m.typed(k)
		return nil
	case m.overlay.kind != overlayNone:
		m.overlay.key(name, m.overlay.height(m.help(), &m.session.pic, m.layout.w))
		return nil
	}
	if do := panel.Pressed(m.globals, name); do != nil {
		return do(name)
	}
	if do := panel.Pressed(m.focus.keys(), name); do != nil {
		return do(name)
	}
	m.unknown(name)
	return nil
}

// unknown says of a key that means nothing here what was meant or where the keys are told.
func (m *Model) unknown(name string) {
	other := strings.ToUpper(name)
	if other == name {
		other = strings.ToLower(name)
	}
	switch of := elsewhere[name]; {
	case of != "":
		m.Say("info", "no panel "+name+" here: it shows "+of)
	case utf8.RuneCountInString(name) != 1:
	case other != name && (panel.Pressed(m.globals, other) != nil || panel.Pressed(m.focus.keys(), other) != nil):
		m.Say("info", "no key "+name+" here: did you mean "+other+"?")
	default:
		m.Say("info", "no key "+name+" here")
	}
}

// elsewhere holds the keys of panels that not every session has, with what these panels
// show.
var elsewhere = map[string]string{
	"8": "what a script prints under gpustall torch",
	"9": "the ranks of a distributed training",
	"0": "the lines of a script under gpustall torch, or the host's calls of a profiler's trace",
}

// typed takes a key for the text that is being typed.
func (m *Model) typed(k tea.KeyMsg) {
	p := m.prompt
	switch k.Type {
	case tea.KeyEnter, tea.KeyEsc:
		m.prompt = nil
		p.End(p.Text, k.Type == tea.KeyEnter)
		return
	case tea.KeyBackspace:
		_, n := utf8.DecodeLastRuneInString(p.Text)
		p.Text = p.Text[:len(p.Text)-n]
	case tea.KeyRunes, tea.KeySpace:
		if len(p.Text) < p.Most {
			p.Text += string(k.Runes)
		}
	}
	if p.Changed != nil {
		p.Changed(p.Text)
	}
}

// then makes the handler of a key from a function that needs neither the key's name nor
// a command.
func then(do func()) func(string) tea.Cmd {
	return func(string) tea.Cmd { do(); return nil }
}

// cmd makes the handler of a key from a function that does not need the key's name.
func cmd(do func() tea.Cmd) func(string) tea.Cmd {
	return func(string) tea.Cmd { return do() }
}

// makeGlobals makes the bindings that mean the same whatever has the focus, in the order of the
// footer.
func (m *Model) makeGlobals() []panel.Binding {
	return slices.Concat(m.timeKeys(), m.runKeys(), m.focusKeys(), m.experimentKeys(), m.logKeys(), m.lookKeys(), m.panelKeys(), m.lastKeys())
}

// fewKeys are the keys of the footer on a screen that shows only the verdict.
var fewKeys = []string{"e", "p", "space", "?", "q ctrl+c"}

// few returns those of the globals that fewKeys names.
func few(globals []panel.Binding) (keys []panel.Binding) {
	for _, name := range fewKeys {
		for i := range globals {
			if globals[i].Keys == name {
				keys = append(keys, globals[i])
			}
		}
	}
	return keys
}

// timeKeys pause the run, and choose the moment and the width of time that are shown.
func (m *Model) timeKeys() []panel.Binding {
	return []panel.Binding{
		{Keys: "p", Live: true, Hint: "pause", When: m.goesOn, Help: "pause the training, and go on", Do: cmd(m.requests.pause),
			Now: func() string { return panel.Pick(m.session.paused, "resume", "") }},
		{Show: panel.LeftRight, Replay: "cursor"}, // the timeline's, which has the focus in a replay
		{Keys: "z Z", Replay: "zoom", Help: "timeline: zoom in, out", Do: func(key string) tea.Cmd {
			m.panels.timeline.ZoomBy(panel.Pick(key == "z", -1, 1))
			return m.look()
		}},
		{Keys: "f", Hint: "expand", Replay: "expand", Help: "expand the focused panel, and back", Do: cmd(m.expand)},
		{Keys: "[ ]", Also: "{ }", Replay: "move", Help: "rewind and forward; { } by a whole window; g G start, end", Do: m.moving(m.session.rewind)},
		{Keys: "g home", Do: m.moving(func(string) { m.session.toStart() })},
		{Keys: "G end", Do: m.moving(func(string) { m.session.toEnd() })},
	}
}

// goesOn reports whether there is still something to ask of the run.
func (m *Model) goesOn() bool { return m.o.Replay || m.session.running() }

// runKeys ask the run for something that not every run can do.
func (m *Model) runKeys() (keys []panel.Binding) {
	if m.o.Evaluate != nil {
		keys = append(keys, panel.Binding{Keys: "v", Hint: "evaluate", When: m.goesOn, Help: "evaluate the model on the test split; the time is in no share", Do: cmd(m.requests.evaluate)})
	}
	if m.o.Capture != nil {
		keys = append(keys, panel.Binding{Keys: "o", Hint: "capture", When: m.goesOn, Do: cmd(m.requests.capture),
			Help: "capture a few steps under PyTorch's profiler: what its operators take; they are in no rate"})
	}
	return keys
}

// focusKeys move to another panel, freeze the screen and close what is open.
func (m *Model) focusKeys() []panel.Binding {
	var first, last, names string
	for _, p := range m.focus.panels {
		if c := p.Describe(); c.Key != "" {
			first = panel.Pick(first == "", c.Key, first)
			names += panel.Pick(names == "", "", ", ") + c.Name
			last = c.Key
		}
	}
	return []panel.Binding{
		{Keys: "tab " + first + "-" + last, Also: "shift+tab", Show: "tab", Hint: "focus", Replay: "focus", Help: "focus: " + names,
			Do: func(key string) tea.Cmd { m.focus.next(panel.Pick(key == "tab", 1, -1)); return nil }},
		{Keys: "space", Hint: "freeze", Replay: "play", Help: panel.Pick(m.o.Replay, "play or stop", "freeze the screen, the run goes on"),
			Now: func() string {
				if m.o.Replay {
					return panel.Pick(m.session.moment.play, "stop", "")
				}
				return panel.Pick(m.session.moment.frozen, "go on", "")
			},
			Do: m.moving(func(string) { m.session.freeze() })},
		{Keys: "esc", Help: panel.Pick(m.o.Replay, "close what is open", "drop what is staged, close what is open, stop tuning"), Do: cmd(m.escape)},
	}
}

// experimentKeys compare settings and take changes back.
func (m *Model) experimentKeys() []panel.Binding {
	q := &m.requests
	underWay := func(kind trace.ExperimentKind) func() bool {
		return func() bool { return m.session.underWay() == kind }
	}
	stop := func(kind trace.ExperimentKind, word string) func() string {
		return func() string { return panel.Pick(m.session.underWay() == kind, word, "") }
	}
	ask := func(kind trace.ExperimentKind) func(string) tea.Cmd {
		return func(string) tea.Cmd { return q.ask(kind) }
	}
	keys := []panel.Binding{
		{Keys: "u", Live: true, Help: "undo the last applied change", Do: cmd(q.undo)},
		{Keys: "a", Help: "make these settings (or the selected row's) baseline A", Do: func(string) tea.Cmd { q.setBaseline(); return m.look() }},
		{Keys: "A", Live: true, Hint: stats.Turns, Now: stop(trace.Paired, "stop "+stats.Turns), Do: ask(trace.Paired),
			Help: "what is staged (else the selected row, or A) takes turns with the settings in force until it is known which is faster; again: stop",
			When: func() bool { return len(q.knobs.Changes()) > 0 || m.session.underWay() == trace.Paired }},
		{Keys: "T", Live: true, Hint: "tune", When: underWay(trace.Tune), Now: stop(trace.Tune, "stop tuning"), Do: ask(trace.Tune),
			Help: "find the fastest loader settings; again, or esc: stop"},
	}
	if m.o.Capture != nil { // a PyTorch training has no ceiling
		return keys
	}
	return append(keys, panel.Binding{Keys: "c", Live: true, Hint: "ceiling", When: underWay(trace.Ceiling), Now: stop(trace.Ceiling, "stop"), Do: ask(trace.Ceiling),
		Help: "what would fixing data buy? Cached batches are served for some seconds; again: stop"})
}

// logKeys filter the lanes, and read and write the session's log and the report.
func (m *Model) logKeys() []panel.Binding {
	keys := []panel.Binding{
		{Keys: "/", Help: "timeline: show only lanes whose name contains a text", Do: then(func() {
			f, ok := m.focus.now.(filtered)
			if !ok {
				f = m.panels.timeline
				m.focus.set(m.panels.timeline)
			}
			f.TypeFilter()
		})},
		{Keys: "n", Help: "notes: the session's log", Do: then(func() { m.overlay = overlay{kind: overlayNotes} })},
		{Keys: "N", Live: true, Help: "note a hypothesis in the session's log", Do: then(m.requests.hypothesis)},
		{Keys: "e", Hint: "export", Replay: "export", Help: "export the report", Do: cmd(m.requests.export)},
	}
	if m.o.Capture != nil { // nothing is injected into a PyTorch training
		return keys
	}
	return append(keys, panel.Binding{Keys: "S", Live: true, Help: "the story: practise on an injected bottleneck, where one is offered", Do: cmd(m.guide.key)})
}

// lookKeys change how the screen looks.
func (m *Model) lookKeys() []panel.Binding {
	return []panel.Binding{
		{Keys: "t", Help: "theme: " + strings.Join(Themes(), ", "), Do: then(func() { m.Say("info", "theme: "+m.frame.nextTheme()) })},
		{Keys: "+ -", Also: "= _", Help: "refresh rate", Do: func(key string) tea.Cmd {
			next := m.pace.step(panel.Pick(key == "+" || key == "=", 1, -1))
			m.Say("info", strconv.Itoa(m.pace.fps)+" frames a second")
			return next
		}},
		{Keys: "ctrl+z", Help: "suspend"}, // key handles it
		{Keys: "mouse", Help: "click: focus a panel, select a knob; wheel: scroll; shift lets the terminal select text"}, // mouse handles it
	}
}

// panelKeys give panels the focus.
func (m *Model) panelKeys() (keys []panel.Binding) {
	for _, p := range m.focus.panels {
		if c := p.Describe(); c.Key != "" {
			keys = append(keys, panel.Binding{Keys: c.Key, Hint: c.Hint, Replay: c.Hint,
				When: func() bool { return m.focus.now != p },
				Do:   then(func() { m.focus.set(p) })})
		}
	}
	return keys
}

// lastKeys returns the two keys that the footer always has room for.
func (m *Model) lastKeys() []panel.Binding {
	return []panel.Binding{
		{Keys: "?", Hint: "help", Replay: "help", Help: "this help", Do: then(func() { m.overlay = overlay{kind: overlayHelp} })},
		{Keys: "q ctrl+c", Show: "q", Hint: "quit", Replay: "quit", Help: "quit (q asks once while training runs; ctrl+c does not)",
			Do: func(string) tea.Cmd { return m.exit.ask(m.session.running() && !m.o.Apart) }},
	}
}

// moving makes the handler of a key from a function that moves the moment shown. The key does
// nothing before the first snapshot.
func (m *Model) moving(move func(key string)) func(key string) tea.Cmd {
	return func(key string) tea.Cmd {
		if m.session.live == nil {
			return nil
		}
		move(key)
		return m.look()
	}
}

// expand gives the focused panel the whole body, or takes it back.
func (m *Model) expand() tea.Cmd {
	m.focus.expanded = !m.focus.expanded
	if !m.focus.expanded && m.alone() {
		m.focus.set(m.focus.start)
	}
	return m.look()
}

// filtered is a panel that shows only what contains a text.
type filtered interface {
	TypeFilter()
	DropFilter() bool // reports whether there was one, or something else to leave
}

// dropFilter makes the panel with the focus show everything again. It reports whether
// there was anything to do.
func (m *Model) dropFilter() bool {
	f, ok := m.focus.now.(filtered)
	return ok && f.DropFilter()
}

// escape drops the first of these that there is: staged values, the cursor, the filter, the
// expansion, a tune under way.
func (m *Model) escape() tea.Cmd {
	t := m.panels.timeline
	switch n := m.panels.knobs.Drop(); {
	case n > 0:
		m.Say("info", "dropped "+strconv.Itoa(n)+" staged")
	case t.Cursor() >= 0:
		t.DropCursor()
		t.Explain(m.See(t))
	case t.DropFilter(), m.dropFilter():
	case m.focus.expanded:
		m.focus.expanded = false
	case m.focus.now.Describe().Instead, m.alone(): // the panels that it replaced come back
		m.focus.back()
	case m.guide.leave():
	case m.session.underWay() == trace.Tune:
		return m.requests.ask(trace.Tune)
	case m.msg.text != "":
		m.msg.clear()
	}
	return nil
}

// alone reports whether the focused panel is shown instead of all others, because a small screen
// has no line for it.
func (m *Model) alone() bool {
	return panel.ClassOf(m.layout.w, m.layout.h) == panel.SizeSmall && !m.focus.now.Describe().Small
}

// stop suspends the process, as ctrl+z does in a shell.
func (m *Model) stop() tea.Cmd {
	cmd := m.exit.pause()
	if cmd == nil {
		m.Say("info", "nothing to suspend to: this terminal has no shell with job control")
	}
	return cmd
}
