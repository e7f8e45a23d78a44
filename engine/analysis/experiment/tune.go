package experiment

import (
	"fmt"
	"math"
	"slices"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Tuning is what a tune may do.
type Tuning struct {
	Knobs   []string            // knobs that it may change; if empty, the usual ones
	Values  map[string][]string // by knob: the values to choose from; other knobs have the usual values
	Workers int                 // the most num_workers; 0: as many as the knob allows
	Memory  int64               // bytes of host memory that the run may be planned to hold; 0: no limit
	Dry     bool                // only say what would be tried

	// Window returns the session with the spans of a time. If it is nil, the spans are not known.
	Window func(from, to int64) *trace.Snapshot
	// Needs returns how much host memory the run would need in all with some changes, in
	// bytes, and why they cannot be made. If Needs is nil, that is not known.
	Needs func(changes []knob.Setting) (host int64, refusal string)
}

// stage is how far a tune is.
type stage uint8

const (
	standing stage = iota // the settings at the start are measured
	trying                // another setting is measured
	retrying              // the best one is measured again, because the host changed
	proving               // the settings at the start are measured again
	proved                // the best ones are measured again
)

// A setting is given up early if it is clearly slower than the best one, after so many
// steps and so much active time. Clearly is by this share of the rate, or by half of it if
// the setting need only be as fast.
const (
	earlySteps  = 20
	earlyActive = int64(600 * time.Millisecond)
	hopeless    = 0.15
)

const (
	mostTries = 10
	plainly   = 1.25 // ratio of rates that needs no more time to be seen
	crowd     = 0.25 // share of the cores: if others use so much more or less, the host counts as changed
	crowding  = 1.5  // ratio of rates that a changed host may explain
)

// tuner looks for the fastest settings. It predicts before it tries, tries the best
// prediction, and learns from each trial. In the end it proves the best settings against
// those at the start.
type tuner struct {
	e        *Experiment
	points   *points
	outlooks *outlooks
	search   *search
	budget   *budget
	journal  *journal
	proof    *proof

	stage stage
	trial outlook // what is tried
	held  point   // the trial's measurement, while the best is measured again
	lit   bool    // a setting with fewer workers was looked for
}

func newTuner(e *Experiment, q *Tuning, s *trace.Snapshot) (*tuner, error) {
	if q == nil {
		q = new(Tuning)
	}
	sp, err := newSpace(q, s, e.found)
	if err != nil {
		return nil, err
	}
	t := &tuner{e: e, points: new(points), budget: &budget{e: e}, journal: &journal{e, sp}}
	t.outlooks = &outlooks{
		space: sp, points: t.points, hostDevice: s.Meta.DeviceKind == "cpu", known: map[seen]outlook{}, trust: map[string]float64{},
	}
	t.search = &search{
		e: e, tuning: q, space: sp, points: t.points, outlooks: t.outlooks, journal: t.journal,
		tried: map[string]bool{sp.key(e.found): true}, varied: map[string]bool{},
	}
	t.proof = &proof{e: e, space: sp, points: t.points, budget: t.budget, journal: t.journal}
	return t, nil
}

// look takes the tune as far as a snapshot allows.
func (t *tuner) look(s *trace.Snapshot) {
	if t.e.segment < 0 {
		return
	}
	m := measure(s, t.e.segment)
	switch t.stage {
	case standing:
		switch {
		case m.stretch.Enough(), !t.search.tuning.Dry && t.budget.overdue() && t.budget.tells(m.step()) && m.block.Steps >= earlySteps:
			m.fit(s, t.search.tuning.Window)
			t.points.all = append(t.points.all, m)
			t.journal.found(t.points.best())
			if t.search.tuning.Dry {
				t.foretell(s)
				return
			}
			t.next(s)
		case t.budget.hopeless(&m) && !t.search.tuning.Dry:
			t.giveUp(s, t.tooShort(&m))
		case t.e.out():
			t.e.finish(s, sideA, t.e.outOf())
		}
	case trying:
		c, done := t.judge(&m)
		if !done {
			return
		}
		m.fit(s, t.search.tuning.Window)
		if t.disturbed(&m) && t.budget.afford(4, t.points.best()) {
			t.held = m
			t.stage = retrying
			if t.ask(s, t.points.best().knobs) == nil {
				return
			}
		}
		t.decide(s, m, c)
	case retrying:
		if !t.budget.measured(&m) {
			return
		}
		m.fit(s, t.search.tuning.Window)
		best := t.points.best()
		again := t.points.compare(best, &m)
		t.journal.again(&t.held, best, &m, &again)
		*best = m
		t.decide(s, t.held, t.points.compare(&m, &t.held))
	case proving:
		if t.budget.measured(&m) {
			t.proof.fresh = m
			t.stage = proved
			if err := t.ask(s, t.points.best().knobs); err != nil {
				t.giveUp(s, err.Error())
			}
		}
	case proved:
		t.proof.look(s, &m)
	}
}

// ask asks for a setting, except for knobs that have shown to have no effect since the tune began.
func (t *tuner) ask(s *trace.Snapshot, knobs []knob.Setting) error {
	e := t.e
	t.budget.begin()
	changes := slices.DeleteFunc(advice.Changed(e.target, knobs), func(k knob.Setting) bool {
		spec := knob.SpecOf(s.Meta.Specs, k.Name)
		return spec != nil && spec.NoEffect != ""
	})
	if err := e.ask(s, changes); err != nil {
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

// valuesOf returns the values of some knobs among all.
func valuesOf(all, some []knob.Setting) []knob.Setting {
	out := make([]knob.Setting, len(some))
	for i, k := range some {
		out[i] = knob.Setting{Name: k.Name, Value: knob.ValueOf(all, k.Name)}
	}
	return out
}

// judge compares the trial with the best so far, and reports whether that is enough to decide. At
// the latest it is after twice the time that a comparison needs.
func (t *tuner) judge(m *point) (c stats.Change, done bool) {
	best := t.points.best()
	least := 1 - hopeless
	if t.trial.light {
		least = 1 - hopeless/2
	}
	early := m.block.Steps >= earlySteps && m.block.Active >= earlyActive
	switch c = t.points.compare(best, m); {
	case early && m.rate() < least*best.rate() && !t.contradicts(m), t.budget.overdue() && m.block.Steps > 0:
		return c, true
	case !m.stretch.Enough():
		return c, false
	case math.Abs(math.Log(m.rate()/best.rate())) >= math.Log(plainly) && !t.trial.light:
		return c, true
	}
	t.budget.compared(m)
	return c, c.Answer != stats.Unknown || t.budget.patient(m)
}

// contradicts reports whether a trial is slower although it was likely to gain, on a host where others take cores. These may
// have taken more than before.
func (t *tuner) contradicts(m *point) bool {
	best := t.points.best()
	return m.cores > 0 && m.others >= crowd*m.cores && t.trial.rate >= (1+worth)*best.rate() && m.rate() < best.rate()
}

// disturbed reports whether other processes came or went since the best settings were measured.
// That may be why a trial seems slower or faster.
func (t *tuner) disturbed(m *point) bool {
	if t.contradicts(m) {
		return true
	}
	best := t.points.best()
	more, gain := m.others-best.others, m.rate()/best.rate()
	return math.Abs(more) >= crowd*m.cores && math.Abs(math.Log(gain)) < math.Log(crowding) && (more > 0) == (gain < 1) && m.cores > 0
}

// decide keeps a trial as the best so far, or drops it, and goes on.
func (t *tuner) decide(s *trace.Snapshot, m point, c stats.Change) {
	best := t.points.best()
	gain := m.rate() / best.rate()
	better := c.Answer == stats.Different && c.Ratio > 1
	if c.Answer == stats.Unknown && !t.trial.light {
		better = gain >= 1+worth && m.stretch.Enough() || gain >= plainly && m.block.Steps >= earlySteps
	}
	cheaper := c.Answer == stats.Same && t.search.space.cheaper(m.knobs, best.knobs)
	t.budget.end()
	t.journal.trial(&t.trial, best, &m, &c, better || cheaper)
	t.outlooks.learn(&t.trial, best, &m, better)
	t.points.all = append(t.points.all, m)
	if better || cheaper {
		t.points.lead = len(t.points.all) - 1
	}
	t.next(s)
}

// next tries another setting, or goes on to prove the best one.
func (t *tuner) next(s *trace.Snapshot) {
	for t.budget.tries < mostTries && t.budget.afford(3, t.points.best()) && !t.lit {
		o, ok := t.search.choose(s)
		if !ok {
			break
		}
		if t.try(s, &o) {
			return
		}
	}
	if !t.lit {
		t.lit = true
		t.search.leaveOut()
		if o, ok := t.search.lighter(); ok && t.budget.afford(4, t.points.best()) && t.search.allows(&o) && t.try(s, &o) {
			return
		}
	}
	if t.points.lead == 0 {
		why := ""
		if t.search.short && t.budget.tries == 0 {
			why = t.tooShort(t.points.best())
		}
		t.giveUp(s, why)
		return
	}
	t.stage = proving
	if err := t.ask(s, t.e.found); err != nil {
		_ = t.ask(s, t.points.best().knobs) // instead of the last trial
		t.giveUp(s, err.Error())
	}
}

// tooShort says that the budget has no room for a trial, of steps as long as a point's, and how long would do.
func (t *tuner) tooShort(p *point) string {
	why := fmt.Sprintf("its budget of %v is too short to try anything", time.Duration(t.e.x.Budget))
	least := time.Duration(max(t.budget.least(p), t.e.spent) + int64(10*time.Second)).Truncate(10 * time.Second)
	if int64(least) <= t.e.x.Budget { // it is short of steps
		return fmt.Sprintf("its budget of %s is too short to try anything", units.Counted(t.e.x.Steps, "step", "steps"))
	}
	return why + fmt.Sprintf(": ~%v would do", least)
}

// foretell says what would be tried first, and ends the tune.
func (t *tuner) foretell(s *trace.Snapshot) {
	if o, ok := t.search.choose(s); ok {
		t.search.take(&o)
		t.journal.wouldTry(t.points.best(), &o)
	}
	t.search.leaveOut()
	t.giveUp(s, trace.DryRun)
}

// try asks for a setting. It returns false where the setting is refused.
func (t *tuner) try(s *trace.Snapshot, o *outlook) bool {
	t.trial, t.stage = *o, trying
	t.search.take(o)
	if err := t.ask(s, o.knobs); err != nil {
		t.exclude(err.Error())
		return false
	}
	return true
}

// refused continues without a setting that the engine could not apply. It returns false where that
// setting was not a trial.
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
	t.exclude(why)
	t.next(s)
	return true
}

// exclude rules the trial out for the rest of the tune, because it could not be put in
// force.
func (t *tuner) exclude(why string) {
	t.journal.refused(t.points.best(), &t.trial, why)
	t.search.close(&t.trial)
}

// giveUp leaves the run with the settings at the start.
func (t *tuner) giveUp(s *trace.Snapshot, why string) { t.e.finish(s, sideA, why) }

// settle makes the experiment name the best settings when the trials are over.
func (t *tuner) settle() {
	e := t.e
	e.x.Trying = nil
	if !e.x.Kept {
		e.x.A, e.x.B = nil, nil
		if t.points.lead > 0 {
			e.x.B = advice.Changed(e.found, t.points.best().knobs)
			e.x.A = valuesOf(e.found, e.x.B)
		}
	}
}
