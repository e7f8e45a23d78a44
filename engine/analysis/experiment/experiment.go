package experiment

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Control changes the run.
type Control interface {
	Set(changes []knob.Setting) error // all or none; the error is one sentence
	Requested() []knob.Setting        // the values asked for last
}

// Log is where an experiment is written down: the run's recorder.
type Log interface {
	Experiment(x trace.Experiment)
	Note(level, text string)
}

// The two sides of an experiment.
const (
	sideA = iota // the settings at its start
	sideB        // the settings that it tries
)

// Experiment is an experiment under way.
type Experiment struct {
	x       trace.Experiment
	control Control
	log     Log

	found   []knob.Setting   // all knobs, as they were when it began
	target  []knob.Setting   // all knobs, as they were asked for last
	passing [][]knob.Setting // settings that may be in force until target is
	segment int32            // the segment with target; -1 while there is none
	asked   int64            // ns, when target was asked for
	strange int              // consecutive looks at which the run was asked for other knobs than target
	odd     int64            // ns, the moment of the last such look
	looked  int64            // ns, at the last look
	seen    int32            // Index of the last step looked at
	spent   int64            // ns of active time since the start
	steps   int64            // since the start
	ending  bool             // the run is left with target

	side  int // the side that target is
	pairs pairing
	tune  *tuner // set if the experiment is a tune
}

// New begins an experiment on the run that s shows. It refuses a question that this run cannot
// answer.
func New(q Question, s *trace.Snapshot, c Control, l Log) (*Experiment, error) {
	if q.Kind == trace.Ceiling {
		q.Knobs = []knob.Setting{{Name: ceiling, Value: "on"}}
	}
	refuse := func(reason, hint string) (*Experiment, error) {
		return nil, errs.New("ask", q.String(), reason, hint)
	}
	n := len(s.Segments)
	if n == 0 || s.Outcome.Ended != 0 {
		return refuse("no training is under way", "ask while it is")
	}
	now := &s.Segments[n-1]
	e := &Experiment{
		control: c, log: l, segment: now.Index, seen: s.Last.Index, found: now.Knobs, target: now.Knobs,
		x: trace.Experiment{Kind: q.Kind, Start: s.Now, First: now.Index + 1, Last: math.MaxInt32, Budget: int64(q.budget())},
	}
	for _, k := range q.Knobs {
		if spec := knob.SpecOf(s.Meta.Specs, k.Name); spec != nil {
			value, err := knob.Canonical(spec, k.Value)
			if err != nil {
				return nil, errs.Wrap(err, "ask", q.String(), "choose a value that it takes")
			}
			k.Value = value
		}
		was, known := knobOf(now.Knobs, k.Name)
		if !known {
			return refuse("there is no knob "+k.Name, "choose one that the run has")
		}
		if was != k.Value {
			e.x.A, e.x.B = append(e.x.A, knob.Setting{Name: k.Name, Value: was}), append(e.x.B, k)
		}
	}
	switch {
	case knob.On(knob.ValueOf(now.Knobs, ceiling)):
		return refuse("cached batches are served, which hide what the loader does", "turn ceiling off first")
	case len(e.x.B) == 0 && q.Kind != trace.Tune:
		return refuse("these settings are in force", "name others")
	case !slices.Equal(c.Requested(), now.Knobs):
		return refuse("another change is under way", "ask again when it is in force")
	}
	if k := len(s.Experiments); k > 0 {
		e.x.Index = s.Experiments[k-1].Index + 1
	}
	if q.Kind == trace.Tune {
		e.x.Steps = q.Steps
		var err error
		if e.tune, err = newTuner(e, q.Tuning, s); err != nil {
			return nil, errs.Wrap(err, "ask", q.String(), "name knobs that the run has")
		}
	}
	e.pairs.random = rand.New(rand.NewPCG(uint64(s.Meta.Seed), uint64(e.x.Index)))
	e.pairs.quarter = int64(quarter(s, e.x.Budget))
	if t := s.Tally(now.Index); t.Epochs > 0 && (knob.ValueOf(e.x.B, "persistent_workers") != "" || startsMatter(t)) && 2*leastPairs*4*t.EpochTime/t.Epochs <= e.x.Budget {
		e.pairs.whole, e.pairs.epoch = true, s.Last.Epoch
	}
	e.pairs.begin()
	l.Experiment(e.x)
	so := attribution.Experiment{Experiment: e.x}
	l.Note("info", so.Asks())
	return e, nil
}

// startsMatter reports whether starting workers anew in each epoch takes a twentieth of the time or more.
func startsMatter(t *trace.Tally) bool {
	return 20*t.Steady.Stall[trace.CauseStartup] >= t.Steady.Active()
}

// ceiling is the knob of cached batches.
const ceiling = "ceiling"

// quarter returns how long a quarter of a pair is to last.
func quarter(s *trace.Snapshot, budget int64) time.Duration {
	rows := attribution.Segments(s)
	var h stats.History
	var m stats.Stretch
	for i := range rows {
		h.Learn(m)
		m = rows[i].Stretch
	}
	return stats.Quarter(m, h, time.Duration(budget))
}

// Look takes the experiment as far as a snapshot allows, and reports whether it is over. The
// snapshot must not be older than the last one.
func (e *Experiment) Look(s *trace.Snapshot) (over bool) {
	if !e.x.Running() {
		return true
	}
	e.looked = s.Now
	now := &s.Segments[len(s.Segments)-1]
	is := func(knobs []knob.Setting) bool { return slices.Equal(now.Knobs, knobs) }
	switch {
	case s.Outcome.Ended != 0:
		e.Abandon(s)
	case is(e.target):
		e.segment, e.passing = now.Index, nil
	case e.segment < 0 && slices.ContainsFunc(e.passing, is): // target is not in force yet
	case now.ByScript && s.Now-now.Start < renewal && slices.Equal(e.control.Requested(), e.target):
		e.segment = -1 // the script made a new loader; target comes into force again, and the steps until then count for neither side
	default: // somebody else's change is in force
		e.leave(s, now, now.Index-1)
	}
	if !e.x.Running() || e.overruled(s, now) {
		return !e.x.Running()
	}
	steps := e.news(s)
	switch {
	case e.ending:
		if e.segment >= 0 { // the run is left with this segment and those after it
			e.close(s, e.segment-1)
		}
	case e.tune != nil && !e.tune.proof.turns:
		e.tune.look(s)
	case e.out():
		e.finish(s, sideA, e.outOf())
	case e.x.Kind == trace.Ceiling:
		e.interlude(s)
	default:
		e.alternate(s, steps)
	}
	return !e.x.Running()
}

// renewal is how long, in ns, the settings of a new loader of the script may be in force before the
// requested ones are.
const renewal = 30e9

// out reports whether the budget is spent.
func (e *Experiment) out() bool {
	return e.spent >= e.x.Budget || e.x.Steps > 0 && e.steps >= e.x.Steps
}

// outOf says which budget is spent.
func (e *Experiment) outOf() string {
	if e.spent >= e.x.Budget {
		return "its budget of " + units.Prose.Time(e.x.Budget) + " is spent"
	}
	return "its budget of " + units.Counted(e.x.Steps, "step", "steps") + " is spent"
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

// news returns the steps since the last look.
func (e *Experiment) news(s *trace.Snapshot) []trace.Step {
	from, _ := slices.BinarySearchFunc(s.Recent, e.seen+1, func(st trace.Step, index int32) int { return cmp.Compare(st.Index, index) })
	steps := s.Recent[from:]
	for i := range steps {
		e.spent += steps[i].Active()
	}
	e.steps += int64(len(steps))
	if n := len(steps); n > 0 {
		e.seen = steps[n-1].Index
	}
	return steps
}

// ask asks for changes.
func (e *Experiment) ask(s *trace.Snapshot, changes []knob.Setting) error {
	if err := e.control.Set(changes); err != nil {
		return err
	}
	e.passing = append(e.passing, e.target)
	e.target, e.segment, e.asked = e.control.Requested(), -1, s.Now
	return nil
}

// want asks for a side, unless that was asked for already.
func (e *Experiment) want(s *trace.Snapshot, side int) {
	if side == e.side {
		return
	}
	if err := e.ask(s, [2][]knob.Setting{e.x.A, e.x.B}[side]); err != nil {
		e.x.Why, e.x.Kept = err.Error(), e.side == sideB
		e.ending = true // the settings in force stay
		return
	}
	e.side = side
	if side == sideB { // trying a knob may change another one that nobody set
		for i := range e.x.B {
			e.x.B[i].Value = knob.ValueOf(e.target, e.x.B[i].Name)
		}
	}
}

// finish asks for the side that the run is left with.
func (e *Experiment) finish(s *trace.Snapshot, side int, why string) {
	e.x.Why, e.ending = why, true
	e.want(s, side)
	e.x.Kept = e.side == sideB
}

// close records the end. last is the last segment that belongs to the experiment.
func (e *Experiment) close(s *trace.Snapshot, last int32) {
	if e.tune != nil {
		e.tune.settle()
	}
	e.x.End, e.x.Last = max(s.Now, e.x.Start+1), last
	e.log.Experiment(e.x)
	so := e.so(s)
	e.log.Note("info", so.Text())
}

// so returns the experiment with its result so far.
func (e *Experiment) so(s *trace.Snapshot) attribution.Experiment {
	with := *s
	with.Experiments = append(slices.DeleteFunc(slices.Clone(s.Experiments), func(x trace.Experiment) bool { return x.Index == e.x.Index }), e.x)
	all := attribution.Experiments(&with, attribution.Segments(&with))
	return all[len(all)-1]
}

// patience is how many consecutive looks must show requests for other knobs than the experiment's
// before it gives up, each of a later moment. The note that says why comes a moment later.
const patience = 3

// overruled ends the experiment when the run is asked for other knobs than the experiment's.
// Either the engine could not make the change, or somebody asked for another one. A tune continues
// without what the engine could not do.
func (e *Experiment) overruled(s *trace.Snapshot, now *trace.Segment) bool {
	if !slices.ContainsFunc(e.control.Requested(), e.foreign) {
		e.strange = 0
		return false
	}
	if s.Now != e.odd { // what was recorded since is not there yet
		e.strange++
	}
	if e.odd = s.Now; e.strange < patience {
		return true
	}
	if text := e.refusal(s); text != "" && e.segment < 0 {
		if e.tune == nil || !e.tune.refused(s, text) {
			e.x.Why = text
			e.close(s, now.Index-1)
		}
		return true
	}
	e.leave(s, now, now.Index)
	return true
}

// foreign reports whether the run is asked for another value of a knob than the experiment's. Knobs that only the run
// has do not count: its loop may have gone on to another loader.
func (e *Experiment) foreign(k knob.Setting) bool {
	v, ok := knobOf(e.target, k.Name)
	return ok && v != k.Value
}

// refusal says why what the experiment asked for is not made; empty where it was not refused.
func (e *Experiment) refusal(s *trace.Snapshot) string {
	for i := len(s.Notes) - 1; i >= 0 && s.Notes[i].T >= e.asked; i-- {
		if text := s.Notes[i].Text; strings.Contains(text, trace.NotApplied) || strings.Contains(text, trace.HeldBack) {
			return text
		}
	}
	now := e.control.Requested()
	for _, k := range e.target {
		if spec := knob.SpecOf(s.Meta.Specs, k.Name); spec != nil && k.Value != knob.ValueOf(now, k.Name) {
			if why := spec.Bars(k.Value); why != "" {
				return k.Name + "=" + k.Value + trace.NotApplied + why
			}
		}
	}
	return ""
}

// leave ends the experiment because somebody set a knob. That knob stays, and the other knobs get
// their earlier values back.
func (e *Experiment) leave(s *trace.Snapshot, now *trace.Segment, last int32) {
	var back []knob.Setting
	var set []string
	for _, k := range e.control.Requested() {
		was := knob.ValueOf(e.found, k.Name)
		switch {
		case e.foreign(k):
			set = append(set, k.Name+" "+k.Value)
		case !e.ending && was != "" && was != k.Value:
			back = append(back, knob.Setting{Name: k.Name, Value: was})
		}
	}
	if len(back) > 0 {
		last = now.Index // nobody chose what is in force until then
		if err := e.control.Set(back); err != nil {
			e.log.Note("warn", err.Error())
		}
	}
	e.x.Why = cmp.Or(strings.Join(set, ", "), "a knob") + " was set by hand"
	if now.ByScript && len(set) == 0 {
		e.x.Why = "the script changed its settings itself"
	}
	e.close(s, last)
}

// knobOf returns a knob's value; false where it is not among them.
func knobOf(knobs []knob.Setting, name string) (string, bool) {
	i := slices.IndexFunc(knobs, func(k knob.Setting) bool { return k.Name == name })
	if i < 0 {
		return "", false
	}
	return knobs[i].Value, true
}
