// Package tui is the interactive view of a session: gauges, timeline, knobs,
// verdict, stall breakdown and experiments. It knows traces and their analysis
// and nothing else: what runs is behind Source and Control, so the same screen
// shows a live run and a file.
//
// One tea.Model holds everything. A tick pulls a snapshot and makes a picture of
// it: the numbers of one moment. The panels draw the picture into rectangles of a
// canvas of cells; they are values of one list, which also says what their keys do.
// View returns the cached frame until something changed. No I/O happens in Update
// or View.
package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"

	_ "dev.gpustall/tui/quiet" // before bubbletea, see there
)

// Source is what the screen shows: a *trace.Session, live or read from a file.
type Source interface {
	// Snapshot returns the session with the spans that overlap [from, to].
	Snapshot(from, to int64) *trace.Snapshot
}

// Control changes a live run. Its methods may block for a moment; the screen
// calls Set and Pause off its own goroutine.
type Control interface {
	Set(changes []knob.Setting) error // all or none; the error is one sentence
	Requested() []knob.Setting        // the values asked for last
	Pause(bool)
	Paused() bool
}

// Experiments answer questions about a live run by changing its knobs for a while. Its
// methods may block for a moment; the screen calls them off its own goroutine.
type Experiments interface {
	Begin(kind trace.ExperimentKind, knobs []knob.Setting) error // the error is one sentence
	Stop()                                                       // the one under way, early
}

// Options of the screen.
type Options struct {
	Source      Source
	Control     Control                                                // nil in a replay: the knobs are read-only
	Experiments Experiments                                            // nil where none can be begun
	Note        func(level, text string)                               // adds a line to the session's log; nil where that cannot be
	Baseline    func(segment int32)                                    // chooses segment A of the session; nil where that cannot be
	Evaluate    func() error                                           // on the test split, at the next step; nil hides the key
	Capture     func() error                                           // of a few steps under the framework's own profiler; nil hides the key
	Export      func() (path string, err error)                        // writes the report; nil hides the key
	Foresee     func(changes []knob.Setting) (risk string, grave bool) // what may go wrong if these were set; nil: nobody knows
	Output      func() []string                                        // the last lines that a script printed; nil where there is none
	Ranks       bool                                                   // the training is distributed: there is a panel of its ranks
	FPS         int                                                    // frames a second, 1 to 30; 0 is 10
	ASCII       bool                                                   // no glyph beyond ASCII
	NoColor     bool                                                   // bold and reverse only
	Theme       string                                                 // "default" (or ""), "colorblind" or "mono"
	Replay      bool                                                   // time is moved by the user
}

// The rates that + and - step through, in frames a second.
var rates = []int{1, 2, 5, 10, 15, 20, 30}

const maxFPS = 30

// Model is the screen's state. Use it through bubbletea, or Run.
type Model struct {
	o      Options
	themes []canvas.Theme
	theme  int // of themes
	c      canvas.Canvas
	cached string
	dirty  bool

	w, h     int
	fps      int
	ticks    int // generation of the running tick: a rate change starts a new one
	panels   []panel
	globals  []binding // keys that mean the same everywhere
	focus    *panel
	side     *panel     // the side panel looked at last
	lay      layout     // made by layout
	v        view       // of the panel being drawn, made by see
	head     canvas.Pen // behind its title
	expanded bool
	overlay  overlay
	entry    *entry // a text is being typed
	scroll   int    // of the overlay

	live *trace.Snapshot // the newest snapshot
	pic  picture         // what is drawn: the snapshot as of the moment shown

	timeline    timeline
	knobs       knobs
	verdict     verdict
	guide       guide
	stalls      stalls
	experiments experiments
	ops         ops
	blame       blame
	output      output
	ranks       ranks
	analysis    analysis

	spansAt    time.Time // when the timeline's spans were pulled last
	spansPause time.Duration
	notes      int // notes seen

	frozen bool  // the moment shown stands still
	at     int64 // that moment, ns
	played time.Time
	play   bool // a replay runs

	msg               message
	asking            bool // "quit?" is on screen
	paused            bool
	quit, interrupted bool
	exporting         bool

	// Set by Run: what a suspend needs of the process.
	shell   func() bool // somebody can continue it
	suspend func()      // stop the process and come back
}

// message is the one line of feedback. Errors stay until a key is pressed.
type message struct {
	text  string
	level string // "info", "warn", "error"
	ticks int    // ticks left, for when the session's clock stands still
}

// New makes the screen. Its first frame comes with the first window size.
func New(o Options) *Model {
	m := &Model{o: o, themes: canvas.Themes(), fps: o.FPS, dirty: true}
	m.panels = m.makePanels()
	m.globals = m.makeGlobals()
	m.focus, m.side = m.start(), m.home()
	if m.fps <= 0 {
		m.fps = 10
	}
	m.fps = min(m.fps, maxFPS)
	m.c.Glyphs = &canvas.Unicode
	if o.ASCII {
		m.c.Glyphs = &canvas.ASCII
	}
	for i, t := range m.themes {
		if t.Name == o.Theme {
			m.theme = i
		}
	}
	if o.NoColor {
		m.theme = len(m.themes) - 1
	}
	m.c.Theme = &m.themes[m.theme]
	if o.Replay {
		m.frozen = true
	}
	return m
}

// Init starts the tick.
func (m *Model) Init() tea.Cmd { return m.tick() }

type tickMsg struct {
	gen int
	now time.Time
}

// tick schedules the next frame. There is one at a time: a message of an older
// generation is ignored.
func (m *Model) tick() tea.Cmd {
	gen := m.ticks
	return tea.Tick(time.Second/time.Duration(m.fps), func(now time.Time) tea.Msg {
		return tickMsg{gen, now}
	})
}

// say shows a line for about five seconds; an error until the next key.
func (m *Model) say(level, text string) {
	m.msg = message{text: text, level: level, ticks: 5 * m.fps}
	if level == "error" {
		m.msg.ticks = 0
	}
	m.dirty = true
}

// running reports whether quitting would end a training run.
func (m *Model) running() bool {
	return m.o.Control != nil && m.live != nil && m.live.Outcome.Ended == 0
}
