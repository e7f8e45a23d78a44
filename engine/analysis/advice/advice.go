// Package advice says what a session's numbers mean: what holds the device up, what to
// try, and what a reader must know about the numbers. It is pure: a session goes in,
// words and values come out.
package advice

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Advice is all that is said of a session at one moment. Screen, report, JSON and
// headless lines show the same value.
type Advice struct {
	Verdict  Verdict      // of the steps judged
	Labels   []Label      // of the whole session
	Findings []Finding    // what to do about it; knobs to turn come first
	Keep     Keep         // the settings to keep
	Short    string       // why nothing is advised, where the run ended too soon; else empty
	Costly   Costly       // where the device's own time goes, when the run is bound by it
	Lines    []lines.Cost // of a PyTorch training's code, with the settings judged
	Asides   []Finding    // what a reader should know, although nothing can be done about it
	Tried    []Trial
	Model    *predict.Model // predicts other settings; nil where too little was measured
	Remarks  []string       // by row, what the comparison with the baseline does not say; empty for most rows
	Ceiling  Ceiling        // how much a loader could gain that never makes the device wait, if somebody asked

	Experiments []attribution.Experiment // all of the session's
	Asked       string                   // the question of the experiment under way, or the text of Ceiling; empty if there is neither
}

// Of advises on a session. t are the steps to judge: a segment's, or a window of them. rows are
// attribution.Segments of the session. Of judges only the later steps, if the run's first epochs
// are among t and differ from the epochs since.
func Of(s *trace.Snapshot, t *trace.Tally, rows []attribution.SegmentStats) Advice {
	xs := attribution.Experiments(s, rows)
	a := Advice{
		Labels: Labels(s, nil), Tried: tried(s, rows, xs), Keep: keep(s, rows), Remarks: remarks(s, rows),
		Ceiling: ceiling(s, rows, xs, t.Segment), Experiments: xs,
	}
	a.Asked = a.Ceiling.Text
	if n := len(xs); n > 0 && xs[n-1].Running() {
		a.Asked = xs[n-1].Name() + ": " + xs[n-1].Text()
	}
	var c *situation
	a.Verdict, c = verdict(s, t, rows, a.Tried)
	switch {
	case c == nil:
	case tooShort(s):
		a.Short = fmt.Sprintf("the run took %s, too short to advise on: who has the cores, and how full the queue is, are read a few times a second; run it for a second or longer",
			units.Prose.Time(s.Outcome.Ended))
	default:
		if !c.lockedOut() { // else what the loader needs is not what the loop waits for
			a.Model, _ = predict.Fit(s, c.tally, rows)
		}
		c.knobs.model = a.Model
		a.Findings, a.Asides = c.findings(), c.told()
	}
	if c != nil {
		a.Lines = c.lines
	}
	if c := a.Verdict.Class; c == DeviceBound || c == ScriptBound {
		a.Costly = costly(s, t.Segment)
	}
	return a
}

// Settle gives the advice on a window the value and the prediction that all steps with these settings have, whole, as a
// report has them, as long as both advise the same knob and others use as many cores in them.
func (a *Advice) Settle(s *trace.Snapshot, whole *trace.Tally, rows []attribution.SegmentStats) {
	first := a.First()
	if first.Value == "" || a.Model == nil {
		return
	}
	_, c := verdict(s, whole, rows, a.Tried)
	if c == nil || c.lockedOut() {
		return
	}
	m, ok := predict.Fit(s, c.tally, rows)
	if !ok || !m.Beside(a.Model) {
		return
	}
	c.knobs.model = m
	all := c.findings()
	if len(all) == 0 || all[0].Knob != first.Knob || all[0].Value == "" {
		return
	}
	f, to := &all[0], &a.Findings[0]
	to.Value, to.Remedy, to.Predicted, to.Measured = f.Value, f.Remedy, f.Predicted, f.Measured
	a.Model = m
}

// minTime is how long a run must take to be advised on. The host's gauges are read twice a second,
// and a rate needs two readings.
const minTime = time.Second

// tooShort reports whether a run ended before there was anything to advise from. An imported trace
// is never too short: it has no gauges, and nothing more will come.
func tooShort(s *trace.Snapshot) bool {
	return s.Outcome.Ended > 0 && s.Outcome.Ended < int64(minTime) && s.Meta.Imported == ""
}

// First returns the leading finding; an empty one when there is none.
func (a *Advice) First() Finding {
	if len(a.Findings) == 0 {
		return Finding{}
	}
	return a.Findings[0]
}

// Text returns what to do, in one sentence; empty while there is nothing to say.
func (a *Advice) Text() string {
	next, why := a.Next()
	switch {
	case why == "":
		return next
	case len(a.Findings) == 0:
		return why + "; " + next
	}
	return next + ": " + why
}

// fasterScript is what to do where a training's own code takes the time.
const fasterScript = "a faster step must come from the script: its model, its threads, or what else it does with a batch"

// keepsUp says why there is nothing to do about a loader.
const keepsUp = "the loader keeps up and no setting of it can gain more than the share lost to data"

// Next returns what to do, with the predicted gain, and why. Both are empty while there is
// nothing to say.
func (a *Advice) Next() (next, why string) {
	switch {
	case a.Short != "":
		return a.Short, ""
	case len(a.Findings) > 0:
		return a.Findings[0].Next(), a.Findings[0].Evidence
	case a.Verdict.Class == DeviceBound:
		return "a faster step must come from the model, its precision or the device", keepsUp
	case a.Verdict.Class == ScriptBound:
		return fasterScript, keepsUp
	case a.Verdict.Class == NotInputBound:
		return "what the device did is not in the trace", keepsUp
	case a.Verdict.Class == NotEnoughSteps || a.Verdict.Class == "":
		return "", ""
	}
	return "no knob is known to help here", ""
}

// Feed asks whether this machine can feed the device, and answers in one sentence: what it
// can feed, what the device takes, and what is short. The answer is empty where that is not
// known.
func (a *Advice) Feed(device string) (question, answer string) {
	if a.Model != nil {
		answer = a.Model.Feed()
	}
	return fmt.Sprintf("Could this machine feed its device, %s?", cmp.Or(device, "which is not known")), answer
}

// Rows are the rows of attribution.Segments by which a run is described.
type Rows struct {
	Baseline int
	// Last is the last row that is a result. It has enough steps, and real batches, since
	// nobody trains with a ceiling. Where there is no such row, Last is the last row with
	// steps.
	Last int
	Kept int // the row of the settings to keep; where there was nothing to choose from, Last
}

// Overall advises on a run as a whole, for report, summary and list. The verdict is about the
// settings to keep.
func Overall(s *trace.Snapshot, rows []attribution.SegmentStats) (Advice, Rows) {
	if len(rows) == 0 {
		return Of(s, new(trace.Tally), nil), Rows{}
	}
	first := baseline(rows)
	at := Rows{Baseline: first, Last: first, Kept: first}
	result := false
	for i := range rows {
		t := s.Tally(rows[i].Segment.Index)
		if counts := rows[i].Steps >= enough(s) && t.Flags&trace.FlagCeiling == 0; counts || !result && t.All.Steps > 0 {
			at.Last, result = i, result || counts
		}
	}
	if k := keep(s, rows); k.Text != "" {
		at.Kept = slices.IndexFunc(rows, func(r attribution.SegmentStats) bool { return r.Segment.Index == k.Segment })
	} else { // a script that changed its own settings is judged by its last ones
		at.Kept = at.Last
	}
	return Of(s, s.Tally(rows[at.Kept].Segment.Index), rows), at
}
