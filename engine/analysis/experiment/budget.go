package experiment

import "time"

// These are what a setting is assumed to need, with the transition to it, until one was
// tried.
const (
	leastMeasured = int64(2500 * time.Millisecond)
	leastSteps    = 60
)

// roomySteps has room for earlySteps and the transition to a setting; fewSteps tell how long a step is.
const (
	roomySteps = earlySteps * 5 / 4
	fewSteps   = 5
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

// least returns the budget, in ns, whose turns have room for enough steps as long as a point's.
func (b *budget) least(p *point) int64 {
	return int64(float64(max(earlyActive, roomySteps*p.step())) / turn)
}

// hopeless reports whether the settings at the start have had their turn and have shown that no setting can be
// told from another in one.
func (b *budget) hopeless(p *point) bool {
	return b.overdue() && p.block.Steps >= fewSteps && !b.tells(p.step())
}

// tells reports whether a turn has room for enough steps of that many ns each.
func (b *budget) tells(step int64) bool {
	e := b.e
	return turn*float64(e.x.Budget) >= float64(max(earlyActive, roomySteps*step)) && (e.x.Steps == 0 || turn*float64(e.x.Steps) >= roomySteps)
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
	step := p.step()
	active, steps = max(leastMeasured, leastSteps*step), max(leastSteps, leastMeasured/max(1, step))
	if !b.tells(step) {
		return active, steps
	}
	active = min(active, int64(turn*float64(b.e.x.Budget)))
	return active, min(steps, max(roomySteps, active/max(1, step)))
}

// room reports whether so much more active time, in ns, and so many more steps are left.
func (b *budget) room(active, steps int64) bool {
	e := b.e
	return e.spent+active <= e.x.Budget && (e.x.Steps == 0 || e.steps+steps <= e.x.Steps)
}
