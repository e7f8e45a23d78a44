package experiment

import (
	"time"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/trace"
)

// proof measures the best settings and those at the start anew, because the best of many is partly
// the luckiest. If that gives no answer and there is time, the two take turns.
type proof struct {
	e       *Experiment
	space   *space
	points  *points
	budget  *budget
	journal *journal

	fresh point // the settings at the start, measured anew
	turns bool  // both take turns, which Experiment does
}

// look takes in what was measured anew of the best settings.
func (p *proof) look(s *trace.Snapshot, m *point) {
	c := p.points.compare(&p.fresh, m)
	if !p.budget.measured(m) {
		return
	}
	p.budget.compared(m)
	switch {
	case c.Answer != stats.Unknown, p.plain(m):
		p.conclude(s, m, &c)
	case !p.budget.patient(m) && !p.budget.overdue():
	case p.affordTurns():
		p.journal.proof(p.how(), &p.fresh, m, &c, trace.Doubted, "not known from that, so they take turns")
		*p.points.best() = *m
		p.turns = true
		p.e.pairs.quarter = int64(p.quarter())
		p.e.pairs.begin()
	default:
		p.conclude(s, m, &c)
	}
}

// how says how the two settings were compared.
func (p *proof) how() string {
	if p.turns {
		return "taking turns"
	}
	return "both measured anew"
}

// plain reports whether the best settings were so much faster than those at the start that no
// interval is needed. Both measurements of each must say so. A drift cannot cause that, because
// the four measurements alternated.
func (p *proof) plain(m *point) bool {
	slow := max(p.points.all[0].rate(), p.fresh.rate())
	return min(p.points.best().rate(), m.rate()) >= plainly*slow && m.block.Steps >= earlySteps && p.fresh.block.Steps >= earlySteps
}

// accepts reports whether an answer is a reason to keep the best settings. They must be
// faster, or as fast while they take less of the host.
func (p *proof) accepts(c *stats.Change) bool {
	switch c.Answer {
	case stats.Different:
		return c.Ratio > 1
	case stats.Same:
		return p.space.cheaper(p.points.best().knobs, p.space.found)
	}
	return false
}

// conclude ends the tune with the best settings, or with those at the start.
func (p *proof) conclude(s *trace.Snapshot, m *point, c *stats.Change) {
	verdict, side := trace.Doubted, sideA
	if p.accepts(c) || c.Answer == stats.Unknown && p.plain(m) {
		verdict, side = trace.Confirmed, sideB
	}
	p.journal.proof(p.how(), &p.fresh, m, c, verdict, "")
	p.e.finish(s, side, "")
}

// concludeTurns ends the tune when the two have taken turns.
func (p *proof) concludeTurns(s *trace.Snapshot, c *stats.Change) {
	m := *p.points.best()
	p.fresh.block, m.block = sum(p.e.x.Pairs)
	p.conclude(s, &m, c)
}

// sum adds up what pairs have measured of each side.
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

// quarter returns how long a quarter of a pair is to last.
func (p *proof) quarter() time.Duration {
	return stats.Quarter(p.fresh.stretch, p.points.history(), time.Duration(max(0, p.e.x.Budget-p.e.spent)))
}

// leastPairs is the fewest pairs that are worth beginning. Fewer pairs never have an
// answer (engine/analysis/stats).
const leastPairs = 6

// affordTurns reports whether the budget has room for the turns, with a quarter on top
// for the transitions.
func (p *proof) affordTurns() bool {
	need := int64(5 * leastPairs * p.quarter())
	return p.budget.room(need, need/max(1, p.fresh.step()))
}
