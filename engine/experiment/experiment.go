package experiment

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/fault"
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/knob"
	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// Control changes the run.
type Control interface {
	Set(changes []trace.Knob) error // all or none; the error is one sentence
	Requested() []trace.Knob        // the values asked for last
}

// Log is where an experiment is written down: the run's recorder.
type Log interface {
	Experiment(x trace.Experiment)
	Note(level, text string)
}

// Question is what an experiment is to answer.
type Question struct {
	Kind   trace.ExperimentKind
	Knobs  []trace.Knob  // of B, where it is Paired
	Budget time.Duration // of training, without pauses; 0 is the usual one
}

// The usual budgets.
const (
	PairedBudget  = 5 * time.Minute
	CeilingBudget = time.Minute
)

// The two sides of an experiment.
const (
	sideA = iota // the settings that it found
	sideB        // those that it tries
)

// Experiment is one under way.
type Experiment struct {
	x       trace.Experiment
	control Control
	log     Log
	knobs   [2][]trace.Knob // all of A's; all of B's, once they were asked for

	side    int   // asked for last
	segment int32 // that has it; -1 while none does
	asked   int64 // ns, when it was asked for
	strange int   // looks in a row at which the knobs asked for were not those of side
	seen    int32 // Index of the last step looked at
	spent   int64 // ns of active time since the start
	ending  bool  // side is the one that the run is left with

	pairs pairing
}

// New begins an experiment on the run that s shows. A question that has no answer there
// is refused.
func New(q Question, s *trace.Snapshot, c Control, l Log) (*Experiment, error) {
	if q.Kind == trace.Ceiling {
		q.Knobs = []trace.Knob{{Name: ceiling, Value: "on"}}
	}
	refuse := func(reason, mend string) (*Experiment, error) {
		return nil, fault.New("ask", q.what(), reason, mend)
	}
	n := len(s.Segments)
	if n == 0 || s.Outcome.Ended != 0 {
		return refuse("no training is under way", "ask while it is")
	}
	now := &s.Segments[n-1]
	e := &Experiment{
		control: c, log: l, segment: now.Index, seen: s.Last.Index,
		knobs: [2][]trace.Knob{sideA: now.Knobs},
		x:     trace.Experiment{Kind: q.Kind, Start: s.Now, First: now.Index + 1, Last: math.MaxInt32, Budget: int64(q.budget())},
	}
	for _, k := range q.Knobs {
		if i := slices.IndexFunc(s.Meta.Specs, func(o trace.KnobSpec) bool { return o.Name == k.Name }); i >= 0 {
			value, err := knob.Canonical(&s.Meta.Specs[i], k.Value)
			if err != nil {
				return nil, fault.Wrap(err, "ask", q.what(), "choose a value that it takes")
			}
			k.Value = value
		}
		i := slices.IndexFunc(now.Knobs, func(o trace.Knob) bool { return o.Name == k.Name })
		if i < 0 {
			return refuse("there is no knob "+k.Name, "choose one that the run has")
		}
		if was := now.Knobs[i]; was.Value != k.Value {
			e.x.A, e.x.B = append(e.x.A, was), append(e.x.B, k)
		}
	}
	switch {
	case trace.On(trace.KnobValue(now.Knobs, ceiling)):
		return refuse("cached batches are served, which hide what the loader does", "turn ceiling off first")
	case len(e.x.B) == 0:
		return refuse("these settings are in force", "name others")
	case !slices.Equal(c.Requested(), now.Knobs):
		return refuse("another change is under way", "ask again when it is in force")
	}
	if k := len(s.Experiments); k > 0 {
		e.x.Index = s.Experiments[k-1].Index + 1
	}
	e.pairs.random = rand.New(rand.NewPCG(uint64(s.Meta.Seed), uint64(e.x.Index)))
	e.pairs.quarter = int64(quarter(s, e.x.Budget))
	e.pairs.begin()
	l.Experiment(e.x)
	so := stall.Experiment{Experiment: e.x}
	l.Note("info", so.Asks())
	return e, nil
}

// ceiling is the knob of cached batches.
const ceiling = "ceiling"

// what names the question.
func (q *Question) what() string {
	if q.Kind == trace.Ceiling {
		return "what fixing data would buy"
	}
	words := make([]string, len(q.Knobs))
	for i, k := range q.Knobs {
		words[i] = k.Name + "=" + k.Value
	}
	return "whether " + strings.Join(words, ", ") + " is faster"
}

func (q *Question) budget() time.Duration {
	if q.Kind == trace.Ceiling {
		return cmp.Or(q.Budget, CeilingBudget)
	}
	return cmp.Or(q.Budget, PairedBudget)
}

// quarter is how long a quarter of a pair is to last.
func quarter(s *trace.Snapshot, budget int64) time.Duration {
	rows := stall.Segments(s)
	var h evidence.History
	var m evidence.Stretch
	for i := range rows {
		h.Learn(m)
		m = rows[i].Stretch
	}
	return evidence.Quarter(m, h, time.Duration(budget))
}

// Look goes on as far as a snapshot shows, which must not be older than the one before. It
// reports whether the experiment is over.
func (e *Experiment) Look(s *trace.Snapshot) (over bool) {
	if !e.x.Running() {
		return true
	}
	now := &s.Segments[len(s.Segments)-1]
	switch {
	case s.Outcome.Ended != 0:
		e.Abandon(s)
	case slices.Equal(now.Knobs, e.knobs[e.side]):
		e.segment = now.Index
	case e.segment < 0 && slices.Equal(now.Knobs, e.knobs[1-e.side]): // not in force yet
	default: // somebody's change is
		e.leave(s, now, now.Index-1)
	}
	if !e.x.Running() || e.overruled(s, now) {
		return !e.x.Running()
	}
	steps := e.news(s)
	switch {
	case e.ending:
		if e.segment >= 0 { // it and what follows are what the run is left with
			e.close(s, e.segment-1)
		}
	case e.spent >= e.x.Budget:
		e.finish(s, sideA, "its budget of "+figures.Prose.Time(e.x.Budget)+" is spent")
	case e.x.Kind == trace.Ceiling:
		e.interlude(s)
	default:
		e.alternate(s, steps)
	}
	return !e.x.Running()
}

// Stop ends the experiment early. Look must still be called until it is over.
func (e *Experiment) Stop(s *trace.Snapshot) {
	if e.x.Running() && !e.ending {
		e.finish(s, sideA, "it was stopped")
	}
}

// Abandon ends the experiment with the run.
func (e *Experiment) Abandon(s *trace.Snapshot) {
	if e.x.Running() {
		e.x.Why = trace.RunEnded
		e.close(s, s.Segments[len(s.Segments)-1].Index)
	}
}

// news are the steps that were not looked at yet.
func (e *Experiment) news(s *trace.Snapshot) []trace.Step {
	from, _ := slices.BinarySearchFunc(s.Recent, e.seen+1, func(st trace.Step, index int32) int { return cmp.Compare(st.Index, index) })
	steps := s.Recent[from:]
	for i := range steps {
		e.spent += steps[i].Active()
	}
	if n := len(steps); n > 0 {
		e.seen = steps[n-1].Index
	}
	return steps
}

// want asks for a side, unless it is the one asked for.
func (e *Experiment) want(s *trace.Snapshot, side int) {
	if side == e.side {
		return
	}
	if err := e.control.Set([2][]trace.Knob{e.x.A, e.x.B}[side]); err != nil {
		e.x.Why, e.x.Kept = err.Error(), e.side == sideB
		e.ending = true // what is in force stays
		return
	}
	e.side, e.segment, e.asked = side, -1, s.Now
	if e.knobs[side] == nil { // one that is tried may move another that nobody set
		e.knobs[side] = e.control.Requested()
		for i := range e.x.B {
			e.x.B[i].Value = trace.KnobValue(e.knobs[side], e.x.B[i].Name)
		}
	}
}

// finish asks for the side that the run is left with.
func (e *Experiment) finish(s *trace.Snapshot, side int, why string) {
	e.x.Why, e.ending = why, true
	e.want(s, side)
	e.x.Kept = e.side == sideB
}

// close writes the end down. last is the last segment that belongs to it.
func (e *Experiment) close(s *trace.Snapshot, last int32) {
	e.x.End, e.x.Last = max(s.Now, e.x.Start+1), last
	e.log.Experiment(e.x)
	so := e.so(s)
	e.log.Note("info", so.Text())
}

// so is what the experiment came to so far.
func (e *Experiment) so(s *trace.Snapshot) stall.Experiment {
	with := *s
	with.Experiments = append(slices.DeleteFunc(slices.Clone(s.Experiments), func(x trace.Experiment) bool { return x.Index == e.x.Index }), e.x)
	all := stall.Experiments(&with, stall.Segments(&with))
	return all[len(all)-1]
}

// patience is at how many looks in a row the knobs asked for must be others than the
// experiment's before it gives up: a note that says why comes a moment later.
const patience = 3

// overruled ends the experiment when the knobs asked for are not its own any more: the
// engine could not make its change, or somebody asked for another one.
func (e *Experiment) overruled(s *trace.Snapshot, now *trace.Segment) bool {
	if slices.Equal(e.control.Requested(), e.knobs[e.side]) {
		e.strange = 0
		return false
	}
	if e.strange++; e.strange < patience {
		return true
	}
	for i := len(s.Notes) - 1; i >= 0 && s.Notes[i].T >= e.asked; i-- {
		if text := s.Notes[i].Text; e.segment < 0 && strings.Contains(text, trace.NotApplied) {
			e.x.Why = text
			e.close(s, now.Index-1)
			return true
		}
	}
	e.leave(s, now, now.Index)
	return true
}

// leave ends the experiment because somebody set a knob, which stays. What the experiment
// tries goes back, but for a knob that they set.
func (e *Experiment) leave(s *trace.Snapshot, now *trace.Segment, last int32) {
	var back []trace.Knob
	var set []string
	for _, k := range e.control.Requested() {
		a, tried := knobOf(e.x.A, k.Name)
		switch {
		case k.Value != trace.KnobValue(e.knobs[e.side], k.Name):
			set = append(set, k.Name+" "+k.Value)
		case tried && !e.ending && a != k.Value:
			back = append(back, trace.Knob{Name: k.Name, Value: a})
		}
	}
	if len(back) > 0 {
		last = now.Index // nobody chose what is in force until then
		if err := e.control.Set(back); err != nil {
			e.log.Note("warn", err.Error())
		}
	}
	e.x.Why = cmp.Or(strings.Join(set, ", "), "a knob") + " was set by hand"
	e.close(s, last)
}

// knobOf is a knob's value, where it is among them.
func knobOf(knobs []trace.Knob, name string) (string, bool) {
	i := slices.IndexFunc(knobs, func(k trace.Knob) bool { return k.Name == name })
	if i < 0 {
		return "", false
	}
	return knobs[i].Value, true
}
