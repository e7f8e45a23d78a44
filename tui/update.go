package tui

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/trace"
)

// Update handles one message. It does no I/O: what may block runs in a command.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = msg.Width, msg.Height
		m.dirty = true
		return m, m.look()
	case tickMsg:
		if msg.gen != m.ticks {
			return m, nil
		}
		return m, tea.Batch(m.advance(msg.now), m.tick())
	case tea.KeyMsg:
		return m, m.key(msg)
	case analysedMsg:
		m.analysed(msg)
		if m.frozen && msg.at != m.pic.snap.Now || msg.baseline != m.an.baseline {
			return m, m.analyse(time.Now(), true) // the view moved meanwhile
		}
	case setDone:
		m.setDone(msg)
	case pauseDone:
		if msg.err != nil {
			m.say("error", msg.err.Error())
		}
	case exportDone:
		m.exporting = false
		if msg.err != nil {
			m.say("error", "export: "+msg.err.Error())
		} else {
			m.say("info", "report written to "+msg.path)
		}
	case suspendMsg:
		return m, m.stop()
	}
	return m, nil
}

// advance is a tick: time passes, a new snapshot becomes the picture.
func (m *Model) advance(now time.Time) tea.Cmd {
	if m.msg.ticks > 0 {
		if m.msg.ticks--; m.msg.ticks == 0 {
			m.msg = message{}
			m.dirty = true
		}
	}
	if m.play && m.live != nil {
		if !m.played.IsZero() {
			m.at += now.Sub(m.played).Nanoseconds()
		}
		m.played = now
		if m.at >= m.live.Now {
			m.at, m.play = m.live.Now, false
		}
	}
	if m.o.Replay && !m.play && m.live != nil {
		return nil // a file does not change
	}
	m.refresh(now, false)
	return m.analyse(now, false)
}

// refresh pulls a snapshot and computes the picture of the moment shown. The
// spans, which cost most when a column is wide, are pulled only as often as
// keeps them under 1 % of a core, unless force says that the view was moved.
func (m *Model) refresh(now time.Time, force bool) {
	if m.o.Source == nil {
		return
	}
	first := m.live == nil
	if first {
		m.live = m.o.Source.Snapshot(0, 0) // to learn the time
		m.notes = len(m.live.Notes)
		if m.o.Replay {
			m.at = m.live.Now
		}
	}
	m.tl.cols = timelineCols(m.timelineWidth())
	at := m.at
	if !m.frozen {
		at = math.MaxInt64
	}
	was, wasPaused := m.pic.at, m.paused
	spans := force || first || (now.Sub(m.spansAt) >= m.spansPause && !(m.frozen && was == at))
	if spans {
		t0 := time.Now()
		from, to := m.spanWindow(at)
		m.live = m.o.Source.Snapshot(from, to)
		m.picture(at)
		m.tl.update(&m.pic, m.live.Spans)
		if m.tl.autozoom(&m.pic) {
			from, to = m.spanWindow(m.pic.at)
			m.tl.update(&m.pic, m.o.Source.Snapshot(from, to).Spans)
		}
		m.tl.explain(m)
		m.spansAt, m.spansPause = now, 100*time.Since(t0)
	} else {
		m.live = m.o.Source.Snapshot(0, 0)
		m.picture(at)
	}
	m.news()
	if !m.frozen || first || was != m.pic.at || wasPaused != m.paused {
		m.dirty = true
	}
}

// picture computes the numbers of the moment at from the newest snapshot.
func (m *Model) picture(at int64) {
	if m.o.Control != nil {
		m.paused = m.o.Control.Paused()
	}
	m.kn.update(m.live)
	m.pic.compute(m.live, min(at, m.live.Now))
}

// news shows a warning or an error of the log once, when it arrives.
func (m *Model) news() {
	for notes := m.live.Notes; m.notes < len(notes); m.notes++ {
		if n := &notes[m.notes]; n.Level == "warn" || n.Level == "error" {
			m.say(n.Level, firstLine(n.Text))
		}
	}
}

// spanWindow is the interval of spans that the timeline needs for the moment
// at, with a margin for the time that passes until the snapshot is taken.
func (m *Model) spanWindow(at int64) (from, to int64) {
	if at == math.MaxInt64 {
		from, _ = m.tl.window(m.live.Now - 500e6)
		return max(from, 0), math.MaxInt64
	}
	from, _ = m.tl.window(max(0, at-500e6))
	return max(from, 0), max(at, 1)
}

func (m *Model) timelineWidth() int {
	l := m.layout()
	switch {
	case l.class == sizeSmall:
		return m.w
	case !l.timeline.empty():
		return l.timeline.inner().w
	}
	return m.w - 2
}

// look refreshes after the view was moved by hand.
func (m *Model) look() tea.Cmd {
	m.dirty = true
	now := time.Now()
	m.refresh(now, true)
	return m.analyse(now, m.o.Replay || m.frozen)
}

// refreshTimeline aggregates again, with the spans at hand.
func (m *Model) refreshTimeline() {
	if m.live != nil {
		m.tl.update(&m.pic, m.tl.spans)
		m.tl.lineKey = [3]int64{}
		m.tl.explain(m)
	}
}

// freeze stops the screen and lets it go; in a replay it plays and stops.
func (m *Model) freeze() tea.Cmd {
	if m.live == nil {
		return nil
	}
	if m.o.Replay {
		m.play = !m.play
		m.played = time.Time{}
		if m.play && m.at >= m.live.Now {
			m.at = 0
		}
		return m.look()
	}
	m.frozen = !m.frozen
	m.at = m.pic.at
	if !m.frozen {
		m.tl.cursor = -1
	}
	return m.look()
}

// rewind moves the moment shown by a quarter of the window, or a whole one.
func (m *Model) rewind(name string) tea.Cmd {
	if m.live == nil {
		return nil
	}
	if !m.frozen {
		m.frozen, m.at = true, m.pic.at
	}
	d := max(m.tl.bin()*int64(m.tl.cols)/4, m.tl.bin())
	switch name {
	case "[":
		m.at -= d
	case "]":
		m.at += d
	case "{":
		m.at -= 4 * d
	case "}":
		m.at += 4 * d
	}
	m.at = max(m.at, 0)
	if m.at >= m.live.Now {
		m.toEnd()
	}
	return m.look()
}

// toEnd goes to the newest moment and, in a live run, follows it.
func (m *Model) toEnd() {
	if m.live == nil {
		return
	}
	m.at = m.live.Now
	m.tl.cursor = -1
	m.play = false
	if !m.o.Replay {
		m.frozen = false
	}
}

// refreshRate steps through the rates.
func (m *Model) refreshRate(d int) tea.Cmd {
	i, exact := slices.BinarySearch(rates, m.fps)
	switch {
	case d < 0 || exact:
		i += d
	}
	m.fps = rates[min(max(i, 0), len(rates)-1)]
	m.ticks++
	m.say("info", fmt.Sprintf("%d frames a second", m.fps))
	return m.tick()
}

type setDone struct {
	changes, before []trace.Knob
	undoable        bool
	err             error
}

// apply asks the engine for changes. The staged values stay until it accepts.
func (m *Model) apply(changes []trace.Knob, undoable bool) tea.Cmd {
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
	m.kn.accepted(d.changes)
	if d.undoable {
		m.kn.undo = append(m.kn.undo, d.before)
	}
	m.dirty = true
}

// undo applies the values from before the last change.
func (m *Model) undo() tea.Cmd {
	n := len(m.kn.undo)
	if n == 0 {
		m.say("info", "nothing to undo")
		return nil
	}
	last := m.kn.undo[n-1]
	m.kn.undo = m.kn.undo[:n-1]
	m.say("info", "undo: "+last[0].Name+" back to "+last[0].Value)
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

// answer is the reply to "quit?".
func (m *Model) answer(name string) tea.Cmd {
	switch name {
	case "y", "Y", "q", "enter":
		return m.leave()
	}
	m.asking = false
	return nil
}

// leave quits; Run calls Options.Quit when the program is gone.
func (m *Model) leave() tea.Cmd {
	m.quit, m.asking = true, false
	return tea.Quit
}

// stop suspends the process, as ctrl+z does in a shell.
func (m *Model) stop() tea.Cmd {
	if m.shell == nil || !m.shell() {
		m.say("info", "nothing to suspend to: this terminal has no shell with job control")
		return nil
	}
	suspend := m.suspend
	return func() tea.Msg { suspend(); return nil }
}
