package tui

import (
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// panel is a box of the screen. The layout, the order of tab, what keys do, the
// footer and the help all follow from these values: to add a panel, write a file
// that makes one, and name it in makePanels.
type panel struct {
	key   string // gives it the focus; "" for a panel that only shows
	name  string // in the help
	title string // of its box; "" for a panel that draws boxes of its own
	hint  string // its word in the footer while another panel has the focus

	place func(s space) place // what it asks of the layout

	// The compact screen has room for one side panel beside the knobs, the one that
	// had the focus last. One that stands in for the others shows only then on larger
	// screens too, instead of them.
	side    bool
	instead bool

	// The small screen shows what matters of these beside each other, and others
	// alone, while they have the focus.
	small bool

	keys  []binding                              // what keys do while it has the focus
	about func(v *view, p *canvas.Pen)           // writes behind the title; nil: nothing
	draw  func(v *view, inside canvas.Rectangle) // draws what is inside the box
}

// makePanels makes all panels, in the order of tab and from left to right where they
// stand side by side.
func (m *Model) makePanels() []panel {
	panels := []panel{
		gaugesPanel(),
		m.timeline.panel(),
		m.knobs.panel(m.o.Control != nil),
		m.verdict.panel(&m.analysis),
		m.guide.panel(),
		m.stalls.panel(),
		m.experiments.panel(),
		m.ops.panel(),
		m.blame.panel(),
		m.notesPanel(),
	}
	if m.o.Output != nil {
		m.output.lines = m.o.Output
		panels = append(panels, m.output.panel())
	}
	if m.o.Ranks {
		panels = append(panels, m.ranks.panel())
	}
	return panels
}

// view is all that a panel draws from, besides its own state.
type view struct {
	c        *canvas.Canvas
	pic      *picture        // the moment shown
	win      *window         // its last steps, which all numbers but the histories are of
	analysis *analysis       // the verdict on them and the comparisons
	live     *trace.Snapshot // the newest
	at       int64           // the moment that the user chose, ns

	class      sizeClass
	focused    bool // the panel has the focus
	expanded   bool // and the whole body
	canSet     bool // there is a run whose knobs can be changed
	replay     bool
	canCapture bool // a few steps, with o
	playing    bool
	frozen     bool
	paused     bool

	ready, capacity int64 // of the queue, as its lane shows them
}

// see makes the view of a panel.
func (m *Model) see(p *panel) *view {
	m.v = view{
		c: &m.c, pic: &m.pic, win: &m.analysis.win, analysis: &m.analysis, live: m.live, at: m.at, class: m.lay.class,
		focused: p == m.focus, expanded: p == m.focus && m.expanded, canSet: m.o.Control != nil, canCapture: m.o.Capture != nil,
		replay: m.o.Replay, playing: m.play, frozen: m.frozen, paused: m.paused,
		ready: m.timeline.ready, capacity: m.timeline.capacity,
	}
	return &m.v
}

// drawPanel draws a panel with its box into r.
func (m *Model) drawPanel(p *panel, r canvas.Rectangle) {
	v := m.see(p)
	if p.title == "" {
		p.draw(v, r)
		return
	}
	m.head = m.c.Box(r, p.key, p.title, v.focused)
	if p.about != nil {
		p.about(v, &m.head)
	}
	p.draw(v, r.Inner())
}

// panel returns the one of a name.
func (m *Model) panel(name string) *panel {
	return &m.panels[slices.IndexFunc(m.panels, func(p panel) bool { return p.name == name })]
}

// setFocus gives a panel the keys.
func (m *Model) setFocus(p *panel) {
	m.focus = p
	if p.side {
		m.side = p
	}
}

// start is the panel that has the focus at first.
func (m *Model) start() *panel { return m.panel(pick(m.o.Replay, "timeline", "knobs")) }

// home is the side panel that is shown when no other was asked for.
func (m *Model) home() *panel {
	return &m.panels[slices.IndexFunc(m.panels, func(p panel) bool { return p.side })]
}

// nextFocus goes on by d among the panels that can have the focus.
func (m *Model) nextFocus(d int) {
	i := slices.IndexFunc(m.panels, func(p panel) bool { return p.name == m.focus.name })
	for {
		i = (i + d + len(m.panels)) % len(m.panels)
		if m.panels[i].key != "" {
			m.setFocus(&m.panels[i])
			return
		}
	}
}

// binding is what one key does, or several that belong together, with its words in
// the footer and in the help.
type binding struct {
	keys string // their names, as a person reads them
	also string // further keys, which are told of nowhere
	show string // in the footer, where it is shorter than keys
	help string // what they do; "" leaves them out of the help
	live bool   // they do nothing in a replay, whose help leaves them out

	hint   string                // a word for the footer; "" leaves them out of it
	replay string                // likewise, while a file is replayed
	now    func(m *Model) string // in place of the word, where it says something
	when   func(m *Model) bool   // whether the footer has it; nil: always

	// do handles a key. Nil leaves it to the keys that mean the same everywhere, or
	// to nobody.
	do func(m *Model, key string) tea.Cmd
}

// The keys that panels share.
const (
	upDownKeys    = "up down / j k"
	leftRightKeys = "left right / h l"
	biggerKeys    = "shift, ctrl"
	biggerAlso    = "shift+left shift+right ctrl+left ctrl+right H L"
	pageKeys      = "pgup pgdown"
	biggerHelp    = "bigger steps with left or right (or H L)"

	upDown    = "^v" // in the footer, where glyphs stand for them
	leftRight = "<>"
)

// names lists b's keys. A stroke between keys is for people.
func (b *binding) names() []string {
	names := strings.Fields(b.keys)
	if len(names) > 1 {
		names = slices.DeleteFunc(names, func(s string) bool { return s == "/" })
	}
	return append(names, strings.Fields(b.also)...)
}

// pressed finds what handles a key among bindings.
func pressed(bindings []binding, key string) func(*Model, string) tea.Cmd {
	for i := range bindings {
		if b := &bindings[i]; b.do != nil && slices.Contains(b.names(), key) {
			return b.do
		}
	}
	return nil
}

// stride is how far a key goes.
type stride uint8

const (
	strideOne stride = iota
	strideShift
	strideCtrl
	stridePage
)

// direction is where an arrow key, its letter or a page key goes: -1 back or up, 1
// on or down, 0 nowhere; and how far.
func direction(key string) (d int, far stride) {
	switch key {
	case "left", "h", "up", "k":
		return -1, strideOne
	case "right", "l", "down", "j":
		return 1, strideOne
	case "shift+left", "H":
		return -1, strideShift
	case "shift+right", "L":
		return 1, strideShift
	case "ctrl+left":
		return -1, strideCtrl
	case "ctrl+right":
		return 1, strideCtrl
	case "pgup":
		return -1, stridePage
	case "pgdown":
		return 1, stridePage
	}
	return 0, strideOne
}
