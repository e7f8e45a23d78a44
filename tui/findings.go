package tui

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// result is what the last analysis found.
type result struct {
	win      window
	told     advice.Advice
	beside   []string       // what is said beside verdict and advice: whether this machine can feed the device, where that is known, and what to know
	held     string         // which steps the verdict is on while an experiment goes on; else empty: the window's
	labels   []advice.Label // of the window, and of settings without a step yet
	segs     []attribution.SegmentStats
	starved  []float64                  // of each of segs, as the window's
	missing  []string                   // what keeps each of segs from a comparison with A, if anything
	notes    []string                   // on each of segs
	asked    []attribution.SegmentStats // of each experiment, its B as if it were a segment
	unasked  []string                   // what keeps each of asked from an answer
	effects  map[string]effect          // of each knob's last change, when it changed alone
	baseline trace.Baseline             // the choice of segment A
	at       int64                      // the moment analysed
	foresight
}

// effect is what the last change of one knob did to the throughput.
type effect struct {
	stats.Change
	missing string // what keeps it from an answer
	says    string // all of it
	of      string // the change
}

// foresight is what other settings would do.
type foresight struct {
	predicted []predict.Prediction // for a step up and down of each knob
	staged    predict.Prediction   // for what was staged on the screen, all of it together
}

// best is the better one of a knob's neighbours; nil where nothing is predicted.
func (f *foresight) best(knob string) (best *predict.Prediction) {
	for i := range f.predicted {
		if p := &f.predicted[i]; p.Changes[0].Name == knob && (best == nil || p.Rate > best.Rate) {
			best = p
		}
	}
	return best
}

// Findings is an analysis with what single panels show of it.
type Findings struct {
	result
	ops    attribution.OpTable // of the segment shown
	base   attribution.OpTable // of the baseline
	mfu    attribution.MFU     // of the segment shown, where ...
	hasMFU bool                // ... it is known
	Blame  attribution.Blame   // of the whole run
	Ranks  []trace.Rank        // over rankWindow
}

// Analyse analyses a snapshot, and predicts what the staged settings would do. The source has the
// spans of the snapshot's window.
func Analyse(s *trace.Snapshot, source Source, staged []knob.Setting) Findings {
	asOfNow(s)
	steps := attribution.Window(s)
	if n := len(steps); n > 0 {
		s.Spans = source.Snapshot(steps[0].Start, min(steps[n-1].End, s.Now)).Spans
	}
	r := Findings{result: result{
		win:      newWindow(steps),
		segs:     attribution.Segments(s),
		effects:  map[string]effect{},
		baseline: s.Baseline, at: s.Now,
	}, Blame: attribution.Blames(s), Ranks: s.Ranks(s.Now-int64(rankWindow), s.Now)}
	r.win.starved = advice.WithoutCore(s, r.win.tally)
	var judged *trace.Tally
	judged, r.held = hold(s, r.segs, r.win.tally)
	r.told = advice.Of(s, judged, r.segs)
	if question, answer := r.told.Feed(s.Meta.Device); answer != "" {
		r.beside = append(r.beside, question+" "+answer)
	}
	for i := range r.told.Asides {
		r.beside = append(r.beside, "To know: "+r.told.Asides[i].Evidence+".")
	}
	if m := r.told.Model; m != nil {
		r.predicted = m.Neighbours()
		if len(staged) > 0 {
			r.staged, _ = m.Predict(staged...)
		}
	}
	r.labels = advice.Labels(s, r.win.tally)
	for _, l := range advice.Labels(s, new(trace.Tally)) {
		if !slices.ContainsFunc(r.labels, func(o advice.Label) bool { return o.Key == l.Key }) {
			r.labels = append(r.labels, l)
		}
	}
	if n := len(steps); n > 0 {
		for _, g := range s.Segments {
			if g.Index == steps[n-1].Segment {
				r.ops = attribution.Ops(s, g)
				r.mfu, r.hasMFU = attribution.MFUOf(s, &g)
			}
		}
		for i := range r.segs {
			if r.segs[i].Baseline {
				r.base = attribution.Ops(s, r.segs[i].Segment)
			}
		}
	}
	for _, t := range r.told.Tried {
		c := t.Change.Throughput
		r.effects[t.Knob] = effect{c, c.Missing.String(), c.String(), t.From + arrowText + t.To} // the last one stays
	}
	for i := range r.segs {
		r.starved = append(r.starved, advice.WithoutCore(s, s.Tally(r.segs[i].Segment.Index)))
		missing := r.segs[i].VsA.Throughput.Missing
		r.missing = append(r.missing, pick(missing.OfA(), "run A longer", missing.String()))
		r.notes = append(r.notes, noteOf(&r.segs[i], r.told.Remarks[i]))
	}
	for i := range r.told.Experiments {
		x := &r.told.Experiments[i]
		b := attribution.SegmentStats{Segment: trace.Segment{Index: x.First, Knobs: x.Settings[1], Reason: x.Text()}, Steps: int(x.Sides[1].Steps), Excluded: int(x.LeftOut), VsA: x.Change}
		r.asked, r.unasked = append(r.asked, b), append(r.unasked, x.Change.Throughput.Missing.String())
	}
	return r
}

// hold is what the verdict is on: the window, or, while an experiment lets settings take
// turns or serves cached batches, all steps of the settings that it found. The verdict would
// else change with every block. held says so; empty for the window.
func hold(s *trace.Snapshot, rows []attribution.SegmentStats, window *trace.Tally) (judged *trace.Tally, held string) {
	n := len(s.Experiments)
	if n == 0 || !s.Experiments[n-1].Running() {
		return window, ""
	}
	x := attribution.Experiment{Experiment: s.Experiments[n-1]}
	for i := range rows {
		if r := &rows[i]; r.Segment.Index == x.First-1 && r.Steps >= advice.MinSteps {
			return s.Tally(r.Segment.Index), fmt.Sprintf("held while %s goes on: all %s of %s ", x.Name(), units.Counted(r.Steps, "step", "steps"), r.Name())
		}
	}
	return window, ""
}

// asOfNow counts the steps of the newest segment again when some of them end after
// the moment shown.
func asOfNow(s *trace.Snapshot) {
	n := len(s.Tallies)
	if n == 0 || s.Tallies[n-1].End <= s.Now {
		return
	}
	s.Tallies = slices.Clone(s.Tallies)
	s.Tallies[n-1], _ = s.TallyUntil(s.Tallies[n-1].Segment, s.Now) // of what can be read
}

// current is the newest segment's row, nil before there is one.
func (a *result) current() *attribution.SegmentStats {
	if len(a.segs) == 0 {
		return nil
	}
	return &a.segs[len(a.segs)-1]
}

// cost is the device's idle time in a segment's transition, once it is worked out.
func (a *result) cost(index int32) (ns int64, known bool) {
	for i := len(a.segs) - 1; i >= 0; i-- {
		if g := &a.segs[i].Segment; g.Index == index {
			return g.Transition, true
		}
	}
	return 0, false
}
