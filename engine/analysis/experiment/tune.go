package experiment

import (
	"math"
	"slices"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// Tuning is what a tune may do.
type Tuning struct {
	Knobs   []string            // that it may change; none: the usual ones
	Values  map[string][]string // of a knob, to choose from; those of others are the usual ones
	Workers int                 // the most num_workers; 0: as many as the knob allows
	Memory  int64               // bytes of the host's that the run may be planned to hold; 0: no limit

	// Window is the session with its spans of a time; where it is nil, without them.
	Window func(from, to int64) *trace.Snapshot
	// Needs is what changes would need of the host's memory in all, in bytes, and why they
	// cannot be; where it is nil, nobody knows.
	Needs func(changes []knob.Setting) (host int64, refusal string)
}

// stage is where a tune is.
type stage uint8

const (
	standing stage = iota // the settings at the start are measured
	trying                // one setting is
	retrying              // the best one is measured again, because the host changed
	proving               // the settings at the start are measured again
	proved                // and the best ones
	pairs                 // both take turns, since that did not tell
)

// The least to give a setting up after, and how much slower than the best it must be for
// that: by half of this where it is only to be as fast.
const (
	earlySteps  = 20
	earlyActive = int64(600 * time.Millisecond)
	hopeless    = 0.15
)

const (
	mostTries = 10
	turn      = 0.25 // of the budget: the most that a single setting is measured for
	plainly   = 1.25 // ratio of rates that needs no more time to be seen
	crowd     = 0.25 // of the cores: where others use so much more or less, the host is another one
	crowding  = 1.5  // ratio of rates that this may explain
)

// tuner looks for the fastest settings: it predicts before it tries, tries the best of what
// it predicts, learns from each, and in the end measures the best one and the settings
// found anew, because the best of many is partly the luckiest.
type tuner struct {
	e          *Experiment
	q          Tuning
	space      *space
	hostDevice bool // the device computes on the host's cores

	points   []point
	lead     int // of points, the best so far
	outlooks map[seen]outlook
	tried    map[string]bool    // settings, by key
	closed   [][]knob.Setting   // settings over a limit, and with them all that take more
	varied   map[string]bool    // knobs that were tried
	trust    map[string]float64 // of a knob, the share of what was predicted that it gained; 1 where it was not tried

	stage   stage
	trial   outlook // what is tried
	held    point   // what was measured of it, while the best is measured again
	fresh   point   // the settings at the start, measured again
	light   bool    // the trial is to be as fast with fewer workers
	lit     bool    // there was such a trial
	begun   int64   // of the experiment's active time, when the setting was asked for
	begunAt int64   // the same of its steps
	enough  int64   // ns of the setting's active time at which a comparison could be made

	tries, asked    int
	cost, costSteps int64 // of all tries
}

func newTuner(e *Experiment, q *Tuning, s *trace.Snapshot) (*tuner, error) {
	if q == nil {
		q = new(Tuning)
	}
	sp, err := newSpace(q, s, e.found)
	if err != nil {
		return nil, err
	}
	return &tuner{
		e: e, q: *q, space: sp, hostDevice: s.Meta.DeviceKind == "cpu",
		outlooks: map[seen]outlook{}, tried: map[string]bool{sp.key(e.found): true}, varied: map[string]bool{}, trust: map[string]float64{},
	}, nil
}

func (t *tuner) best() *point { return &t.points[t.lead] }

// pairing reports whether two settings take turns, which is not the tuner's to mind.
func (t *tuner) pairing() bool { return t.stage == pairs }

// look goes on.
func (t *tuner) look(s *trace.Snapshot) {
	if t.e.segment < 0 {
		return
	}
	m := measure(s, t.e.segment)
	switch t.stage {
	case standing:
		switch {
		case m.stretch.Enough():
			m.fit(s, t.q.Window)
			t.points = append(t.points, m)
			t.recordFound()
			t.next(s)
		case t.e.out():
			t.e.finish(s, sideA, t.e.outOf())
		}
	case trying:
		c, done := t.judge(&m)
		if !done {
			return
		}
		m.fit(s, t.q.Window)
		if t.disturbed(&m) && t.afford(4) {
			t.held = m
			t.stage = retrying
			if t.ask(s, t.best().knobs) == nil {
				return
			}
		}
		t.decide(s, m, c)
	case retrying:
		if !t.measured(&m) {
			return
		}
		m.fit(s, t.q.Window)
		t.recordAgain(t.best(), &m)
		t.points[t.lead] = m
		t.decide(s, t.held, t.compare(&m, &t.held))
	case proving:
		if t.measured(&m) {
			t.fresh = m
			t.stage = proved
			if err := t.ask(s, t.best().knobs); err != nil {
				t.giveUp(s, err.Error())
			}
		}
	case proved:
		t.prove(s, &m)
	}
}

// ask asks for a setting.
func (t *tuner) ask(s *trace.Snapshot, knobs []knob.Setting) error {
	e := t.e
	t.begun, t.begunAt, t.enough = e.spent, e.steps, 0
	if err := e.ask(s, advice.Changed(e.target, knobs)); err != nil {
		return err
	}
	e.x.B = advice.Changed(e.found, e.target)
	e.x.A = valuesOf(e.found, e.x.B)
	e.x.Trying = advice.Chosen(e.found, e.target)
	e.side = sideA
	if len(e.x.B) > 0 {
		e.side = sideB
	}
	e.log.Experiment(e.x)
	return nil
}

// valuesOf are the values of some knobs among all.
func valuesOf(all, some []knob.Setting) []knob.Setting {
	out := make([]knob.Setting, len(some))
	for i, k := range some {
		out[i] = knob.Setting{Name: k.Name, Value: knob.ValueOf(all, k.Name)}
	}
	return out
}

// measured reports whether the setting in force was measured for as long as a comparison
// needs, or as long as it may be.
func (t *tuner) measured(m *point) bool {
	return m.stretch.Enough() || t.overdue() && m.block.Steps > 0
}

// overdue reports whether the setting in force has had its share of the budget.
func (t *tuner) overdue() bool {
	e := t.e
	return e.out() || float64(e.spent-t.begun) > turn*float64(e.x.Budget) ||
		e.x.Steps > 0 && float64(e.steps-t.begunAt) > turn*float64(e.x.Steps)
}

// judge compares what is tried with the best so far, and reports whether that is enough to
// decide: at the latest after twice the time that a comparison needs.
func (t *tuner) judge(m *point) (c stats.Change, done bool) {
	best := t.best()
	least := 1 - hopeless
	if t.light {
		least = 1 - hopeless/2
	}
	early := m.block.Steps >= earlySteps && m.block.Active >= earlyActive
	switch c = t.compare(best, m); {
	case early && m.rate() < least*best.rate(), t.overdue() && m.block.Steps > 0:
		return c, true
	case !m.stretch.Enough():
		return c, false
	case math.Abs(math.Log(m.rate()/best.rate())) >= math.Log(plainly) && !t.light:
		return c, true
	case t.enough == 0:
		t.enough = m.block.Active
	}
	return c, c.Answer != stats.Unknown || m.block.Active >= 2*t.enough
}

// disturbed reports whether other processes came or went since the best settings were
// measured, and may be why a trial seems slower, or faster.
func (t *tuner) disturbed(m *point) bool {
	best := t.best()
	more, gain := m.others-best.others, m.rate()/best.rate()
	return math.Abs(more) >= crowd*m.cores && math.Abs(math.Log(gain)) < math.Log(crowding) && (more > 0) == (gain < 1) && m.cores > 0
}

// decide takes what was measured of a trial for the best so far, or not, and goes on.
func (t *tuner) decide(s *trace.Snapshot, m point, c stats.Change) {
	best := t.best()
	gain := m.rate() / best.rate()
	better := c.Answer == stats.Different && c.Ratio > 1 || c.Answer == stats.Unknown && gain >= 1+worth && m.stretch.Enough() && !t.light
	cheaper := c.Answer == stats.Same && t.space.cheaper(m.knobs, best.knobs)
	t.tries++
	t.cost, t.costSteps = t.cost+t.e.spent-t.begun, t.costSteps+t.e.steps-t.begunAt
	t.recordTrial(best, &m, &c, better || cheaper)
	t.learn(best, &m, better)
	t.points = append(t.points, m)
	if better || cheaper {
		t.lead = len(t.points) - 1
	}
	t.next(s)
}

// next tries another setting, or goes on to prove the best one.
func (t *tuner) next(s *trace.Snapshot) {
	for t.tries < mostTries && t.afford(3) && !t.lit {
		o, ok := t.choose(s)
		if !ok {
			break
		}
		if t.try(s, &o) {
			return
		}
	}
	if !t.lit {
		t.lit = true
		t.leaveOut()
		if o, ok := t.lighter(); ok && t.afford(4) && t.allows(&o) {
			t.light = true
			if t.try(s, &o) {
				return
			}
		}
	}
	if t.lead == 0 {
		t.giveUp(s, "")
		return
	}
	t.stage = proving
	if err := t.ask(s, t.e.found); err != nil {
		t.giveUp(s, err.Error())
	}
}

// try asks for a setting; false where that is refused.
func (t *tuner) try(s *trace.Snapshot, o *outlook) bool {
	t.trial, t.stage = *o, trying
	t.tried[t.space.key(o.knobs)] = true
	for _, k := range advice.Chosen(t.best().knobs, o.knobs) {
		t.varied[k.Name] = true
	}
	if err := t.ask(s, o.knobs); err != nil {
		t.recordRefused(err.Error())
		t.closed = append(t.closed, o.knobs)
		return false
	}
	return true
}

// refused goes on without a setting that the engine could not put in force; false where it
// was none that was tried.
func (t *tuner) refused(s *trace.Snapshot, why string) bool {
	e := t.e
	if t.stage != trying {
		return false
	}
	e.target, e.strange, e.passing = e.control.Requested(), 0, nil
	e.side = sideA
	if !slices.Equal(e.target, e.found) {
		e.side = sideB
	}
	t.recordRefused(why)
	t.closed = append(t.closed, t.trial.knobs)
	t.next(s)
	return true
}

// afford reports whether the budget allows so many more measurements.
func (t *tuner) afford(n int64) bool {
	e, p := t.e, t.best()
	step := p.block.Active / max(1, p.block.Steps)
	each, steps := max(leastMeasured, leastSteps*step), max(leastSteps, leastMeasured/max(1, step))
	if t.tries > 0 {
		each, steps = t.cost/int64(t.tries), t.costSteps/int64(t.tries)
	}
	return e.spent+n*each <= e.x.Budget && (e.x.Steps == 0 || e.steps+n*steps <= e.x.Steps)
}

// What a setting is taken to need, with the transition to it, before one was tried.
const (
	leastMeasured = int64(2500 * time.Millisecond)
	leastSteps    = 60
)

// giveUp leaves the run with the settings at the start.
func (t *tuner) giveUp(s *trace.Snapshot, why string) { t.e.finish(s, sideA, why) }
