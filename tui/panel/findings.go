package panel

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Analysis is what the last analysis found: the verdict on the window and the comparisons of the
// session's segments and experiments.
type Analysis struct {
	Win      Window
	Told     advice.Advice
	Beside   []string       // whether this machine can feed the device, where that is known, and other facts to know
	Held     string         // which steps the verdict is about while an experiment goes on; empty: those of the window
	Labels   []advice.Label // of the window, and of settings without a step yet
	Segs     []attribution.SegmentStats
	Starved  []float64                  // of each of Segs, as Window.Starved
	Missing  []string                   // of each of Segs, why there is no comparison with A yet; else empty
	Notes    []string                   // on each of Segs
	Asked    []attribution.SegmentStats // of each experiment, side B as if it were a segment
	Unasked  []string                   // of each of Asked, why there is no answer yet; else empty
	Effects  map[string]Effect          // of each knob's last change without other changes
	Baseline trace.Baseline             // the choice of segment A
	At       int64                      // the moment analysed
	Foresight
}

// Effect is what the last change of one knob did to the throughput.
type Effect struct {
	stats.Change
	Missing string // why there is no answer yet; else empty
	Says    string // the answer in full
	Of      string // the change of the setting
}

// Foresight is what other settings are predicted to do.
type Foresight struct {
	Predicted []predict.Prediction // for a step up and down of each knob, and for each advised value
	Staged    predict.Prediction   // for what was staged on the screen, all of it together
}

// of returns what is predicted of a value of a knob, nil where nothing is.
func (f *Foresight) of(knob, value string) *predict.Prediction {
	i := slices.IndexFunc(f.Predicted, func(p predict.Prediction) bool {
		return p.Changes[0].Name == knob && sameValue(p.Changes[0].Value, value)
	})
	if i < 0 {
		return nil
	}
	return &f.Predicted[i]
}

// foreseen returns the prediction for a knob's advised value. Without such a value, it returns the
// better one of the next values up and down. It is nil where nothing is predicted.
func (a *Analysis) foreseen(knob string) (best *predict.Prediction) {
	for i := range a.Told.Findings {
		if f := &a.Told.Findings[i]; f.Knob == knob && f.Value != "" && !f.Barred {
			if p := a.of(knob, f.Value); p != nil {
				return p
			}
		}
	}
	for i := range a.Predicted {
		if p := &a.Predicted[i]; p.Changes[0].Name == knob && (best == nil || p.Rate > best.Rate) {
			best = p
		}
	}
	return best
}

// Findings is an analysis with what single panels show of it.
type Findings struct {
	Analysis
	Ops    attribution.OpTable // of the segment shown
	Base   attribution.OpTable // of the baseline
	MFU    attribution.MFU     // of the segment shown, where HasMFU
	HasMFU bool
	Blame  attribution.Blame // of the whole run
	Ranks  []trace.Rank      // over rankWindow
	Still  map[int]int64     // ns since the last step of ranks that ended none in that time; 0 for those of which nothing is known
	Peers  []trace.Peer      // what other gpustalls tell of theirs
	World  int               // how many ranks the training has; 0 where that is not known
	Rank   int               // that the session is about, and ...
	Node   string            // ... its machine
	Stand  string            // for which ranks the others wait that end no step
}

// still finds the ranks of a job that ended no step of late. Counts of very many ranks come too rarely to tell.
func still(s *trace.Snapshot, of []trace.Rank, world int) map[int]int64 {
	out := map[int]int64{}
	for rank := range min(world, mostRanks) {
		if world <= mostRanks && !slices.ContainsFunc(of, func(r trace.Rank) bool { return r.Rank == rank }) {
			out[rank], _ = s.Still(rank)
		}
	}
	return out
}

// Analyse analyses a snapshot, and predicts what the staged settings would do. pull returns the
// session with the spans of an interval.
func Analyse(s *trace.Snapshot, pull func(from, to int64) *trace.Snapshot, staged []knob.Setting) Findings {
	asOfNow(s)
	steps := attribution.Window(s)
	if n := len(steps); n > 0 {
		s.Spans = pull(steps[0].Start, min(steps[n-1].End, s.Now)).Spans
	}
	r := Findings{Analysis: Analysis{
		Win:      newWindow(steps),
		Segs:     attribution.Segments(s),
		Effects:  map[string]Effect{},
		Baseline: s.Baseline, At: s.Now,
	}, Blame: attribution.Blames(s), Ranks: s.InStep(s.Now-int64(rankWindow), s.Now), Peers: s.Peers}
	r.World, _ = strconv.Atoi(knob.ValueOf(s.Meta.Host, trace.JobRanks))
	r.Rank, _ = strconv.Atoi(knob.ValueOf(s.Meta.Host, trace.JobRank))
	r.Node = knob.ValueOf(s.Meta.Host, trace.JobNode)
	r.Still = still(s, r.Ranks, r.World)
	r.Win.Starved = advice.WithoutCore(s, r.Win.Tally)
	var judged *trace.Tally
	judged, r.Held = hold(s, r.Segs, r.Win.Tally)
	r.Told = advice.Of(s, judged, r.Segs)
	if whole := s.Tally(judged.Segment); whole.Steady.Steps > judged.Steady.Steps {
		r.Told.Settle(s, whole, r.Segs)
	}
	if question, answer := r.Told.Feed(s.Meta.Device); answer != "" {
		r.Beside = append(r.Beside, question+" "+answer)
	}
	for i := range r.Told.Asides {
		r.Beside = append(r.Beside, "To know: "+r.Told.Asides[i].Evidence+".")
	}
	r.Stand = advice.Standstill(s)
	if halted := advice.Halted(s); halted != "" { // nothing else matters then
		r.Told.Asked = halted
	}
	r.foresee(s, judged.Segment, staged)
	r.Labels = advice.Labels(s, r.Win.Tally)
	for _, l := range advice.Labels(s, new(trace.Tally)) {
		if !slices.ContainsFunc(r.Labels, func(o advice.Label) bool { return o.Key == l.Key }) {
			r.Labels = append(r.Labels, l)
		}
	}
	if n := len(steps); n > 0 {
		for _, g := range s.Segments {
			if g.Index == steps[n-1].Segment {
				r.Ops = attribution.Ops(s, g)
				r.MFU, r.HasMFU = attribution.MFUOf(s, &g)
			}
		}
		if base := r.base(); base != nil {
			r.Base = attribution.Ops(s, base.Segment)
		}
	}
	for _, t := range r.Told.Tried { // a later change replaces an earlier one
		t = t.Toward(knob.ValueOf(r.current().Segment.Knobs, t.Knob))
		c := t.Change.Throughput
		r.Effects[t.Knob] = Effect{c, c.Missing.String(), c.String(), t.From + arrowText + t.To}
	}
	for i := range r.Segs {
		r.Starved = append(r.Starved, advice.WithoutCore(s, s.Tally(r.Segs[i].Segment.Index)))
		c := &r.Segs[i].VsA.Throughput
		text := Pick(c.Missing.OfA(), "run A longer", c.Missing.String())
		if more, certain := c.Early(); certain {
			text = "~" + units.Narrow.Time(max(time.Second, more.Round(time.Second)).Nanoseconds()) + " more"
		} else if c.Missing.What == stats.Precision {
			text = Pick(c.Missing.Soon(), "~"+units.Narrow.Time(c.Missing.More.Round(time.Second).Nanoseconds())+" more", "interval too wide")
		}
		r.Missing = append(r.Missing, text)
		r.Notes = append(r.Notes, noteOf(&r.Segs[i], r.Told.Remarks[i]))
	}
	for i := range r.Told.Experiments {
		x := &r.Told.Experiments[i]
		b := attribution.SegmentStats{
			Segment: trace.Segment{Index: x.First, Knobs: x.Settings[1], Reason: against(x) + x.Text()},
			Steps:   int(x.Sides[1].Steps), Excluded: int(x.LeftOut), VsA: x.Change,
		}
		r.Asked, r.Unasked = append(r.Asked, b), append(r.Unasked, x.Change.Throughput.Missing.String())
	}
	return r
}

// foresee predicts what other settings would do, and says for which of them the session measured it.
// While an experiment puts other settings in force, it predicts nothing.
func (a *Analysis) foresee(s *trace.Snapshot, segment int32, staged []knob.Setting) {
	m, g := a.Told.Model, s.Segment(segment)
	if m == nil || g == nil || asking(s) {
		return
	}
	a.Predicted = m.Neighbours()
	for i := range a.Told.Findings {
		if f := &a.Told.Findings[i]; (f.Predicted.Made() || f.Measured.Value > 0) && a.of(f.Knob, f.Value) == nil {
			change := []knob.Setting{{Name: f.Knob, Value: f.Value}}
			a.Predicted = append(a.Predicted, predict.Prediction{Changes: change, Prediction: f.Predicted})
		}
	}
	for i := range a.Predicted {
		p := &a.Predicted[i]
		p.Known = a.Told.Measured(g.Knobs, p.Changes[0].Name, p.Changes[0].Value)
	}
	if len(staged) > 0 {
		a.Staged, _ = m.Predict(staged...)
	}
	if c := a.Staged.Changes; len(c) == 1 {
		a.Staged.Known = a.Told.Measured(g.Knobs, c[0].Name, c[0].Value)
	}
}

// asking reports whether an experiment is under way.
func asking(s *trace.Snapshot) bool {
	n := len(s.Experiments)
	return n > 0 && s.Experiments[n-1].Running()
}

// hold returns the steps that the verdict is about. While an experiment changes the settings,
// the verdict would change with each of its blocks. So the verdict is held on all steps of the
// settings from before the experiment. Where the run ended soon after a change of settings, it is held on those that the summary
// judges. held says so, and is empty for the window.
func hold(s *trace.Snapshot, rows []attribution.SegmentStats, window *trace.Tally) (judged *trace.Tally, held string) {
	switch {
	case s.Outcome.Ended != 0 && window.Steady.Steps < advice.MinSteps && len(rows) > 0:
		_, at := advice.Overall(s, rows)
		if r := &rows[at.Kept]; r.Steps >= advice.MinSteps {
			return s.Tally(r.Segment.Index), fmt.Sprintf("all %s of %s ", units.Counted(r.Steps, "step", "steps"), r.Name())
		}
		return window, ""
	case !asking(s):
		return window, ""
	}
	x := attribution.Experiment{Experiment: s.Experiments[len(s.Experiments)-1]}
	for i := range rows {
		if r := &rows[i]; r.Segment.Index == x.First-1 && r.Steps >= advice.MinSteps {
			return s.Tally(r.Segment.Index), fmt.Sprintf("held while %s goes on: all %s of %s ", x.Name(), units.Counted(r.Steps, "step", "steps"), r.Name())
		}
	}
	return window, ""
}

// asOfNow counts the steps of the newest segment again if some of them end after the moment
// shown.
func asOfNow(s *trace.Snapshot) {
	n := len(s.Tallies)
	if n == 0 || s.Tallies[n-1].End <= s.Now {
		return
	}
	s.Tallies = slices.Clone(s.Tallies)
	s.Tallies[n-1], _ = s.TallyUntil(s.Tallies[n-1].Segment, s.Now) // steps that cannot be read are not counted
}

// current returns the row of the newest segment, nil before there is one.
func (a *Analysis) current() *attribution.SegmentStats {
	if len(a.Segs) == 0 {
		return nil
	}
	return &a.Segs[len(a.Segs)-1]
}

// base returns the row of segment A, nil before there is one.
func (a *Analysis) base() *attribution.SegmentStats {
	for i := range a.Segs {
		if a.Segs[i].Baseline {
			return &a.Segs[i]
		}
	}
	return nil
}

// cost returns the device's idle time in a segment's transition, once it is known.
func (a *Analysis) cost(index int32) (ns int64, known bool) {
	for i := len(a.Segs) - 1; i >= 0; i-- {
		if g := &a.Segs[i].Segment; g.Index == index {
			return g.Transition, true
		}
	}
	return 0, false
}

// against says which rate the other side of an A/B test had, where that side's own row has all of its steps.
func against(x *attribution.Experiment) string {
	if x.Kind != trace.Paired || len(x.Pairs) == 0 {
		return ""
	}
	return "against " + units.Rate(x.Rates()[0]) + "/s: "
}
