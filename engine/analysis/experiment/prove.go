package experiment

import (
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/trace"
)

// prove compares the best settings with those found, both measured anew. Where that does
// not tell, they take turns, if there is time for it.
func (t *tuner) prove(s *trace.Snapshot, m *point) {
	c := t.compare(&t.fresh, m)
	switch {
	case !t.measured(m):
		return
	case t.enough == 0:
		t.enough = m.block.Active
	}
	switch {
	case c.Answer != stats.Unknown, t.plain(m):
		t.conclude(s, m, &c)
	case m.block.Active < 2*t.enough && !t.overdue():
	case t.affordPairs():
		t.recordProof(m, &c, trace.Doubted, "not known from that, so they take turns")
		t.points[t.lead] = *m
		t.stage = pairs
		e := t.e
		e.pairs.quarter = int64(t.quarter())
		e.pairs.begin()
	default:
		t.conclude(s, m, &c)
	}
}

// plain reports whether the best settings were so much faster than those found, in both of
// two measurements each, that it needs no interval: what drifts does not do that, since the
// four were made in turns.
func (t *tuner) plain(m *point) bool {
	slow := max(t.points[0].rate(), t.fresh.rate())
	return min(t.best().rate(), m.rate()) >= plainly*slow && m.block.Steps >= earlySteps && t.fresh.block.Steps >= earlySteps
}

// accepts reports whether an answer is a reason to keep the best settings: they are
// faster, or as fast and take less of the host.
func (t *tuner) accepts(c *stats.Change) bool {
	switch c.Answer {
	case stats.Different:
		return c.Ratio > 1
	case stats.Same:
		return t.space.cheaper(t.best().knobs, t.e.found)
	}
	return false
}

// conclude ends the tune with the best settings, or with those found.
func (t *tuner) conclude(s *trace.Snapshot, m *point, c *stats.Change) {
	verdict, side := trace.Doubted, sideA
	if t.accepts(c) || c.Answer == stats.Unknown && t.plain(m) {
		verdict, side = trace.Confirmed, sideB
	}
	t.recordProof(m, c, verdict, "")
	t.e.finish(s, side, "")
}

// concludePairs is conclude by pairs.
func (t *tuner) concludePairs(s *trace.Snapshot, c *stats.Change) {
	m := *t.best()
	t.fresh.block, m.block = sum(t.e.x.Pairs)
	t.conclude(s, &m, c)
}

// sum adds up what pairs have measured of either side.
func sum(pairs []trace.Pair) (a, b trace.Block) {
	add := func(to *trace.Block, o *trace.Block) {
		to.Steps += o.Steps
		to.Samples += o.Samples
		to.Active += o.Active
		to.Busy += o.Busy
		to.Squares += o.Squares
	}
	for i := range pairs {
		add(&a, &pairs[i].A)
		add(&b, &pairs[i].B)
	}
	return a, b
}

// quarter is how long a quarter of a pair is to last.
func (t *tuner) quarter() time.Duration {
	var h stats.History
	for i := range t.points {
		h.Learn(t.points[i].stretch)
	}
	return stats.Quarter(t.fresh.stretch, h, time.Duration(max(0, t.e.x.Budget-t.e.spent)))
}

// leastPairs is how many pairs are worth beginning: fewer never answer (engine/analysis/stats).
const leastPairs = 6

// affordPairs reports whether the budget has room for them, with a quarter on top for the
// transitions.
func (t *tuner) affordPairs() bool {
	e := t.e
	need := int64(5 * leastPairs * t.quarter())
	step := t.fresh.block.Active / max(1, t.fresh.block.Steps)
	return e.spent+need <= e.x.Budget && (e.x.Steps == 0 || e.steps+need/max(1, step) <= e.x.Steps)
}

// settle makes the experiment name the best settings once nothing is tried any more.
func (t *tuner) settle() {
	e := t.e
	e.x.Trying = nil
	if !e.x.Kept {
		e.x.A, e.x.B = nil, nil
		if t.lead > 0 {
			e.x.B = advice.Changed(e.found, t.best().knobs)
			e.x.A = valuesOf(e.found, e.x.B)
		}
	}
}
