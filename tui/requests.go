package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/panel"
)

// requests asks the run for what the user wants, and takes its answers. Its methods return
// commands, which run everything that may block.
type requests struct {
	o           *Options
	session     *followed
	screen      panel.Screen
	knobs       *panel.Knobs
	experiments *panel.Experiments

	undone    [][]knob.Setting // values before each change, the newest last
	learnt    int32            // experiments before this one are over, and undone has what they left in force
	exporting bool
}

// setDone is the run's answer to changes of knobs.
type setDone struct {
	changes, before []knob.Setting
	undoable        bool
	err             error
}

// apply asks the run for changes. The staged values stay until it accepts them.
func (q *requests) apply(changes []knob.Setting, undoable bool) tea.Cmd {
	ctl := q.o.Control
	if ctl == nil || len(changes) == 0 {
		return nil
	}
	q.learn() // learn about earlier experiments first
	before := q.knobs.Before(changes)
	return func() tea.Msg {
		err := guard("apply the knobs", func() error { return ctl.Set(changes) })
		return setDone{changes, before, undoable, err}
	}
}

func (q *requests) applied(d setDone) {
	if d.err != nil {
		q.screen.Say("error", d.err.Error())
		return
	}
	q.knobs.Accepted(d.changes, q.o.Control.Requested())
	if d.undoable {
		q.undone = append(q.undone, d.before)
		q.screen.Say("info", "asked for "+inWords(d.changes)+"; u takes it back")
	}
}

// learn makes it possible to undo what experiments left in force. Settings that an experiment took
// back itself are no change.
func (q *requests) learn() {
	if q.session.live == nil {
		return
	}
	for i := range q.session.live.Experiments {
		x := &q.session.live.Experiments[i]
		if x.Index < q.learnt {
			continue
		}
		if x.Running() {
			return
		}
		if q.learnt = x.Index + 1; x.Kept {
			q.undone = append(q.undone, x.A)
		}
	}
}

// undo asks for the values from before the last change. While an experiment changes the settings,
// undo stops the experiment, which takes them back.
func (q *requests) undo() tea.Cmd {
	if q.session.underWay() != "" {
		return q.stop()
	}
	q.learn()
	n := len(q.undone)
	if n == 0 {
		q.screen.Say("info", "nothing to undo")
		return nil
	}
	last := q.undone[n-1]
	q.undone = q.undone[:n-1]
	q.screen.Say("info", "undo: back to "+inWords(last))
	return q.apply(last, false)
}

// inWords names settings in a sentence.
func inWords(settings []knob.Setting) string {
	words := make([]string, len(settings))
	for i, k := range settings {
		words[i] = k.Name + " " + k.Value
	}
	return strings.Join(words, ", ")
}

// foresee asks what may go wrong with the staged values, once for each set of values.
func (q *requests) foresee() tea.Cmd {
	ask := q.o.Foresee
	if ask == nil {
		return nil
	}
	staged := q.knobs.NewlyStaged()
	if len(staged) == 0 {
		return nil
	}
	return func() tea.Msg {
		r := panel.Risk{Of: staged}
		if err := guard("look ahead", func() error { r.Text, r.Grave = ask(staged); return nil }); err != nil {
			r.Text = err.Error()
		}
		return r
	}
}

// pauseDone is the answer to a request for which only a failure is told.
type pauseDone struct{ err error }

// pause pauses the run, or lets it go on.
func (q *requests) pause() tea.Cmd {
	ctl := q.o.Control
	if ctl == nil {
		q.screen.Say("info", "a replay has no engine to pause; space plays and stops")
		return nil
	}
	on := !q.session.paused
	return q.askRunning("pause the training", "", func() error { ctl.Pause(on); return nil })
}

// evaluate asks for an evaluation on the test split.
func (q *requests) evaluate() tea.Cmd {
	return q.askRunning("evaluate", "evaluating on the test split", q.o.Evaluate)
}

// capture asks for a few steps under the profiler.
func (q *requests) capture() tea.Cmd {
	return q.askRunning("capture", "capturing a few steps; n tells what came of it, 6 what operators took", q.o.Capture)
}

// askRunning calls f to ask something of a run that goes on, and says so.
func (q *requests) askRunning(what, says string, f func() error) tea.Cmd {
	if !q.session.running() {
		q.screen.Say("info", "the run has ended")
		return nil
	}
	if says != "" {
		q.screen.Say("info", says)
	}
	return func() tea.Msg { return pauseDone{guard(what, f)} }
}

// exportDone is a report that was written, or why it was not.
type exportDone struct {
	path string
	err  error
}

// export writes the report, unless that is under way.
func (q *requests) export() tea.Cmd {
	f := q.o.Export
	if f == nil {
		q.screen.Say("info", "nothing to export to: the session is not stored")
		return nil
	}
	if q.exporting {
		return nil
	}
	q.exporting = true
	q.screen.Say("info", "writing the report ...")
	return func() tea.Msg {
		var d exportDone
		d.err = guard("write the report", func() (err error) { d.path, err = f(); return err })
		return d
	}
}

// exported says how an export ended, and reports whether there is a report.
func (q *requests) exported(d exportDone) bool {
	q.exporting = false
	if d.err != nil {
		q.screen.Say("error", "export: "+d.err.Error())
		return false
	}
	q.screen.Say("info", "report written to "+d.path)
	q.note("report written to " + d.path)
	return true
}

// note writes a line into the session's log. It reports whether there is a log to write to,
// which only a run that goes on has.
func (q *requests) note(text string) bool {
	if q.o.Note == nil || !q.session.running() {
		return false
	}
	q.o.Note("info", text)
	return true
}

// hypothesis lets the user write down what they expect, before they try it.
func (q *requests) hypothesis() {
	if q.o.Note == nil || !q.session.running() {
		q.screen.Say("info", "the log of a run that has ended is closed")
		return
	}
	q.screen.Prompt(&panel.Prompt{Question: "hypothesis: ", Most: 200, End: func(text string, ok bool) {
		if text = strings.TrimSpace(text); ok && text != "" && q.note("hypothesis: "+text) {
			q.screen.Say("info", "noted; n shows the notes")
		}
	}})
}

// beginDone is the run's answer to the beginning of an experiment, or to its end.
type beginDone struct {
	knobs []knob.Setting
	err   error
}

// ask begins an experiment, or stops the one under way.
func (q *requests) ask(kind trace.ExperimentKind) tea.Cmd {
	x := q.o.Experiments
	switch {
	case x == nil || !q.session.running():
		q.screen.Say("info", "only a run that goes on can be asked: its knobs are changed for a while")
		return nil
	case q.session.underWay() != "":
		return q.stop()
	}
	var knobs []knob.Setting
	if kind == trace.Paired {
		if knobs = q.other(); len(knobs) == 0 {
			q.screen.Say("info", "stage the other value of a knob (2, then left or right): A lets it take turns with the one in force")
			return nil
		}
	}
	return func() tea.Msg {
		err := guard("begin an experiment", func() error { return x.Begin(kind, knobs) })
		return beginDone{knobs, err}
	}
}

// stop stops the experiment under way.
func (q *requests) stop() tea.Cmd {
	q.screen.Say("info", "stopping: the settings that it began with come back")
	return func() tea.Msg {
		return beginDone{err: guard("stop the experiment", func() error { q.o.Experiments.Stop(); return nil })}
	}
}

// other returns the settings with which to compare those in force: the staged ones, or
// else those of the selected row of the experiments, or the baseline's.
func (q *requests) other() []knob.Setting {
	segments := q.session.live.Segments
	if staged := q.knobs.Changes(); len(staged) > 0 || len(segments) == 0 {
		return staged
	}
	other := q.experiments.Other(q.screen.See(q.experiments))
	if other == nil {
		return nil
	}
	chosen := advice.Chosen(segments[len(segments)-1].Knobs, other)
	return slices.DeleteFunc(chosen, func(k knob.Setting) bool { return k.Name == "ceiling" })
}

func (q *requests) begun(d beginDone) {
	if d.err != nil {
		q.screen.Say("error", d.err.Error())
		return
	}
	q.knobs.Unstage(d.knobs)
	q.session.analysis.pause = 0
}

// setBaseline makes the selected row segment A, or the newest segment if another panel has the
// focus.
func (q *requests) setBaseline() {
	segs := q.session.analysis.Segs
	if len(segs) == 0 {
		q.screen.Say("info", "nothing measured yet: there is no segment to compare with")
		return
	}
	chosen := segs[len(segs)-1].Segment.Index
	if v := q.screen.See(q.experiments); v.Focused {
		selected, ok := q.experiments.Selected(v)
		if !ok {
			q.screen.Say("info", "an experiment has no settings of its own: choose a row with a number")
			return
		}
		chosen = selected
	}
	if q.o.Baseline == nil {
		q.screen.Say("info", "the baseline of this session cannot be changed")
		return
	}
	q.o.Baseline(chosen)
	q.session.analysis.pause = 0
	q.screen.Say("info", "baseline A is now #"+strconv.Itoa(int(chosen)))
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
