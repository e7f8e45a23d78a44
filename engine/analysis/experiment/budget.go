package experiment

import "time"

// These are what a setting is assumed to need, with the transition to it, until one was
// tried.
const (
	leastMeasured = int64(2500 * time.Millisecond)
	leastSteps    = 60
)

// turn is how long a single setting is measured at most, as a share of the budget.
const turn = 0.25

// budget is the training that a tune may take, and what its trials took of it.
type budget struct {
	e *Experiment

	begun, begunAt int64 // e.spent and e.steps at the moment when the setting in force was asked for
	enough         int64 // ns of the setting's active time at which a comparison could be made; 0 before that

	tries           int
	cost, costSteps int64 // of all tries
}

// begin starts the time of another setting.
func (b *budget) begin() { b.begun, b.begunAt, b.enough = b.e.spent, b.e.steps, 0 }

// end counts a trial.
func (b *budget) end() {
	b.tries++
	b.cost, b.costSteps = b.cost+b.e.spent-b.begun, b.costSteps+b.e.steps-b.begunAt
}

// measured reports whether the setting in force was measured for as long as a comparison
// needs, or as long as it may be.
func (b *budget) measured(m *point) bool {
	return m.stretch.Enough() || b.overdue() && m.block.Steps > 0
}

// overdue reports whether the setting in force has had its share of the budget.
func (b *budget) overdue() bool {
	e := b.e
	return e.out() || float64(e.spent-b.begun) > turn*float64(e.x.Budget) ||
		e.x.Steps > 0 && float64(e.steps-b.begunAt) > turn*float64(e.x.Steps)
}

// compared notes that a comparison can be made with what was measured.
func (b *budget) compared(m *point) {
	if b.enough == 0 {
		b.enough = m.block.Active
	}
}

// patient reports whether a setting was measured for twice as long as a comparison needs.
func (b *budget) patient(m *point) bool { return m.block.Active >= 2*b.enough }

// least returns the budget, in ns, that would have had room for n more measurements, of steps as long as a point's.
func (b *budget) least(n int64, p *point) int64 {
	each, _ := b.each(p)
	return b.e.spent + n*each
}

// afford reports whether there is room for n more measurements, of steps as long as a point's.
func (b *budget) afford(n int64, p *point) bool {
	each, steps := b.each(p)
	return b.room(n*each, n*steps)
}

// each returns what a measurement takes, in ns of active time and in steps.
func (b *budget) each(p *point) (active, steps int64) {
	if b.tries > 0 {
		return b.cost / int64(b.tries), b.costSteps / int64(b.tries)
	}
	step := p.block.Active / max(1, p.block.Steps)
	return max(leastMeasured, leastSteps*step), max(leastSteps, leastMeasured/max(1, step))
}

// room reports whether so much more active time, in ns, and so many more steps are left.
func (b *budget) room(active, steps int64) bool {
	e := b.e
	return e.spent+active <= e.x.Budget && (e.x.Steps == 0 || e.steps+steps <= e.x.Steps)
}
