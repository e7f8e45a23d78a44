// Package tui is the interactive view of a session: gauges, timeline, knobs,
// verdict, stall breakdown and experiments. It knows only traces and their analysis.
// The run is behind Source and Control, so the same screen shows a live run and a file.
//
// A tick pulls a snapshot and makes a picture of it: the numbers of one moment. The
// panels draw the picture into rectangles of a canvas of cells. The panels are values
// of one list, and also say what their keys do. View returns the cached frame until
// something changes. No I/O happens in Update or View.
package tui

import (
	"os/exec"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"

	"dev.gpustall/tui/panel"
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
	Stop()                                                       // ends the one under way early
}

// Options of the screen.
type Options struct {
	Source      Source
	Control     Control                                                // nil in a replay: the knobs are read-only
	Apart       bool                                                   // another process has the run: to quit leaves it alone
	Experiments Experiments                                            // nil where none can be begun
	Note        func(level, text string)                               // adds a line to the session's log; nil where that is not possible
	Baseline    func(segment int32)                                    // chooses segment A of the session; nil where that is not possible
	Evaluate    func() error                                           // evaluates on the test split, at the next step; nil hides the key
	Capture     func() error                                           // captures a few steps under the framework's own profiler; nil hides the key
	Export      func() (path string, err error)                        // writes the report; nil hides the key
	Foresee     func(changes []knob.Setting) (risk string, grave bool) // says what may go wrong with these settings; nil where that is not known
	Output      func() []string                                        // returns the last lines that a script printed; nil where there is no script
	Ranks       bool                                                   // the training is distributed: show a panel of its ranks
	Rank        func(trace.Peer) *exec.Cmd                             // opens the screen of another rank's session in this terminal
	Lines       bool                                                   // the training is a script's: show a panel of its lines of code
	Profile     *trace.Profile                                         // of an imported trace: show a panel of the host, if it has any; else nil
	Looks       panel.Looks                                            // how often lines are looked for; nil in a replay
	FPS         int                                                    // frames a second, 1 to 30; 0 is 10
	ASCII       bool                                                   // no glyph beyond ASCII
	NoColor     bool                                                   // only bold and reverse
	Theme       string                                                 // one of Themes; "default" (or "") goes by the background that the terminal tells
	Replay      bool                                                   // the user moves the time
}

// Model is the screen. Use it through bubbletea, or Run.
type Model struct {
	o        Options
	panels   panels
	session  followed
	requests requests
	guide    guide

	frame  frame
	layout layout
	focus  focus
	v      panel.View // of the panel drawn last, made by See

	globals []panel.Binding // keys that mean the same everywhere
	few     []panel.Binding // those in the footer of a screen of SizeLine
	prompt  *panel.Prompt   // a text is being typed
	overlay overlay
	msg     message
	pace    pace
	exit    exit
}

// panels holds the panels that the model gives something to show.
type panels struct {
	timeline    *panel.Timeline
	knobs       *panel.Knobs
	verdict     *panel.Verdict
	story       *panel.Story
	experiments *panel.Experiments
	ops         *panel.Ops
	blame       *panel.Blame
	ranks       *panel.Ranks
	brief       *panel.Brief
}

// New makes the screen. Its first frame comes with the first window size.
func New(o Options) *Model {
	m := &Model{o: o, frame: newFrame(&o), pace: newPace(o.FPS)}
	m.focus = newFocus(m.makePanels(), panel.Pick(o.Replay, "timeline", "knobs"))
	p := &m.panels
	m.session.o, m.session.screen, m.session.timeline, m.session.knobs = &m.o, m, p.timeline, p.knobs
	m.session.moment.frozen = o.Replay
	m.requests = requests{o: &m.o, session: &m.session, screen: m, knobs: p.knobs, experiments: p.experiments}
	m.guide = guide{session: &m.session, requests: &m.requests, knobs: p.knobs, strip: p.story}
	m.globals = m.makeGlobals()
	m.few = few(m.globals)
	return m
}

// makePanels makes all panels, in the order of tab and from left to right where they stand side
// by side.
func (m *Model) makePanels() []panel.Panel {
	p := &m.panels
	p.timeline, p.knobs, p.story, p.experiments = panel.NewTimeline(m), panel.NewKnobs(m, m.o.Control != nil, m.o.Looks), panel.NewStory(), panel.NewExperiments()
	p.verdict, p.ops, p.blame, p.ranks = panel.NewVerdict(&m.session.analysis.Analysis, p.knobs), panel.NewOps(), panel.NewBlame(), panel.NewRanks(m, m.o.Rank)
	p.brief = panel.NewBrief(p.verdict, p.timeline, p.knobs)
	all := []panel.Panel{
		panel.NewGauges(), p.timeline, p.knobs, p.verdict, p.story, panel.NewStalls(), p.experiments,
	}
	all = append(all, p.ops, p.blame, panel.NewNotes(p.knobs))
	if m.o.Output != nil {
		all = append(all, panel.NewOutput(m.o.Output))
	}
	if m.o.Ranks {
		all = append(all, p.ranks)
	}
	if m.o.Lines {
		all = append(all, panel.NewLines(m, m.o.Looks))
	}
	if p := m.o.Profile; p != nil && len(p.GPUs) > 0 && len(p.Busiest().Host) > 0 {
		all = append(all, panel.NewHost(p))
	}
	return all
}

// Init starts the tick, and asks the terminal for its background where nobody chose a theme.
func (m *Model) Init() tea.Cmd {
	if !m.frame.asks {
		return m.pace.tick()
	}
	return tea.Batch(m.pace.tick(), askBackground)
}

// Say shows a line of feedback. Like the next five methods, it belongs to panel.Screen.
func (m *Model) Say(level, text string) {
	m.msg.set(level, text, m.pace.fps)
	m.frame.dirty = true
}

// Prompt lets the user type a text.
func (m *Model) Prompt(p *panel.Prompt) { m.prompt = p }

// Freeze makes the moment shown stand still, and says so.
func (m *Model) Freeze() {
	if !m.session.moment.frozen {
		m.session.moment.freeze(m.session.pic.At)
		m.Say("info", "frozen to look around; space goes on")
	}
}

// Focus gives a panel the focus.
func (m *Model) Focus(name string) { m.focus.set(m.focus.named(name)) }

// Apply asks the run for changes, which can be undone.
func (m *Model) Apply(changes []knob.Setting) tea.Cmd { return m.requests.apply(changes, true) }

// See returns what a panel would draw from now. It is overwritten by the next call.
func (m *Model) See(p panel.Panel) *panel.View {
	s := &m.session
	ready, capacity := m.panels.timeline.Queue()
	focused := p == m.focus.now
	m.v = panel.View{
		C: &m.frame.c, Pic: &s.pic, Win: &s.analysis.Win, Analysis: &s.analysis.Analysis, Live: s.live, At: s.moment.at, Class: m.layout.class,
		Focused: focused, Expanded: focused && m.focus.expanded, CanSet: s.running(), CanCapture: m.o.Capture != nil,
		Replay: m.o.Replay, Playing: s.moment.play, Frozen: s.moment.frozen, Paused: s.paused,
		Ready: ready, Capacity: capacity,
	}
	return &m.v
}
