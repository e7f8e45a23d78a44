package tui

import (
	"math"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/panel"
)

// followed is the session as the screen follows it: its newest snapshot, the moment shown, and
// the picture and analysis of these.
type followed struct {
	o        *Options
	screen   panel.Screen
	timeline *panel.Timeline
	knobs    *panel.Knobs

	live     *trace.Snapshot // the newest snapshot
	pic      panel.Picture   // the snapshot as of the moment shown
	moment   moment
	analysis analysis
	paused   bool // the run is

	spansAt    time.Time // when the timeline's spans were pulled last
	spansPause time.Duration
	notes      int // number of notes seen
}

// running reports whether quitting would end a training run.
func (f *followed) running() bool {
	return f.o.Control != nil && f.live != nil && f.live.Outcome.Ended == 0
}

// underWay returns the kind of the experiment that currently changes the run's knobs, or "".
func (f *followed) underWay() trace.ExperimentKind {
	if !f.running() {
		return ""
	}
	if n := len(f.live.Experiments); n > 0 && f.live.Experiments[n-1].Running() {
		return f.live.Experiments[n-1].Kind
	}
	return ""
}

// refresh pulls a snapshot and computes the picture of the moment shown, for a timeline that is
// width columns wide inside. Pulling the spans costs most when a column is wide. So refresh
// pulls them only as often as takes under 1 % of a core, unless force says that the view was
// moved. It reports whether the picture changed.
func (f *followed) refresh(now time.Time, force bool, width int) (changed bool) {
	first := f.live == nil
	if first {
		f.begin()
	}
	f.timeline.Resize(width)
	at := f.moment.at
	if !f.moment.frozen {
		at = math.MaxInt64
	}
	was, wasPaused, asked := f.pic.At, f.paused, f.underWay()
	if force || first || (now.Sub(f.spansAt) >= f.spansPause && !(f.moment.frozen && was == at)) {
		spent := timer.Spent(func() {
			from, to := f.timeline.SpanWindow(f.live, at)
			f.live = f.o.Source.Snapshot(from, to)
			f.draw(at)
			f.timeline.Update(&f.pic, f.live.Spans)
			f.timeline.Explain(f.screen.See(f.timeline))
		})
		f.spansAt, f.spansPause = now, 100*spent
	} else {
		f.live = f.o.Source.Snapshot(0, 0)
		f.draw(at)
	}
	f.news()
	if asked != "" && f.underWay() == "" && f.moment.frozen { // the analysis of the moment shown does not tell
		x := attribution.Experiment{Experiment: f.live.Experiments[len(f.live.Experiments)-1]}
		f.screen.Say("info", x.Name()+" has ended; space goes on and shows what it found")
	}
	return !f.moment.frozen || first || was != f.pic.At || wasPaused != f.paused || asked != f.underWay()
}

// begin takes the first snapshot, to learn the time and which parts of the session are damaged.
func (f *followed) begin() {
	f.live = f.o.Source.Snapshot(0, 0)
	f.notes = len(f.live.Notes)
	if f.o.Replay {
		f.moment.at = f.live.Now
	}
	if n := len(f.live.Damage); n == 1 {
		f.screen.Say("error", f.live.Damage[0])
	} else if n > 1 {
		f.screen.Say("error", f.live.Damage[0]+" (n shows what else is)")
	}
}

// draw computes the picture of the moment at from the newest snapshot.
func (f *followed) draw(at int64) {
	if f.o.Control != nil {
		f.paused = f.o.Control.Paused()
	}
	f.knobs.Update(f.live, f.o.Control)
	f.pic.Compute(f.live, min(at, f.live.Now))
}

// news shows a warning or an error of the log once, when it arrives.
func (f *followed) news() {
	for notes := f.live.Notes; f.notes < len(notes); f.notes++ {
		if n := &notes[f.notes]; n.Level != "info" {
			f.screen.Say(n.Level, firstLine(n.Text))
		}
	}
}

// analyse returns the command that analyses the picture, or nil when one is under way or the
// last was a moment ago. force skips the wait.
func (f *followed) analyse(now time.Time, force bool) tea.Cmd {
	if f.live == nil {
		return nil
	}
	return f.analysis.start(now, force, &f.pic.Snap, f.o.Source, f.knobs.Changes())
}

// analysed takes an analysis, and tells of the experiment that it found to be over.
func (f *followed) analysed(r *analysedMsg) {
	x := f.analysis.answer(r.Told.Experiments)
	if x != nil && !f.o.Replay && !f.moment.frozen {
		f.screen.Say("info", x.Name()+": "+x.Text())
	}
	f.analysis.take(r)
}

// outdated reports whether the analysis r is of another moment or baseline than the one shown.
func (f *followed) outdated(r *analysedMsg) bool {
	return f.moment.frozen && r.At != f.pic.Snap.Now || r.Baseline != f.pic.Snap.Baseline
}

// rewind moves the moment shown by a quarter of the window, or with { and } by a whole one.
func (f *followed) rewind(key string) {
	f.moment.freeze(f.pic.At)
	d := max(f.timeline.Bin()*int64(f.timeline.Cols())/4, f.timeline.Bin())
	from := f.moment.at
	switch key {
	case "[":
		f.moment.move(-d)
	case "]":
		f.moment.move(d)
	case "{":
		f.moment.move(-4 * d)
	case "}":
		f.moment.move(4 * d)
	}
	f.timeline.ShiftCursor(f.moment.at - from)
	if f.moment.at >= f.live.Now {
		f.toEnd()
	}
}

// toStart goes to the first moment with a full timeline, which begins where the recording does. If
// the first step ends in the right half of the timeline or later, toStart goes on until that end
// is a quarter of the columns from the left. At time 0 there would be nothing to see.
func (f *followed) toStart() {
	width := f.timeline.Bin() * int64(f.timeline.Cols())
	at := width - 1 // the last of the columns that begin at 0
	if f.live.Total.Steps > 0 && f.live.First.End > width/2 {
		at = f.live.First.End + width*3/4
	}
	if at >= f.live.Now {
		at = f.live.Now
		f.screen.Say("info", "the timeline shows the recording from its start to now")
	}
	f.moment.frozen, f.moment.at = true, at
	f.timeline.DropCursor()
}

// toEnd goes to the newest moment and, in a live run, follows it.
func (f *followed) toEnd() {
	f.moment.toEnd(f.live.Now, f.o.Replay)
	f.timeline.DropCursor()
}

// freeze makes the screen stand still, or lets it move again. In a replay it plays or stops.
func (f *followed) freeze() {
	if f.o.Replay {
		f.moment.playOrStop(f.live.Now)
		return
	}
	f.moment.frozen, f.moment.at = !f.moment.frozen, f.pic.At
	if !f.moment.frozen {
		f.timeline.DropCursor()
	}
}
