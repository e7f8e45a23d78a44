package experiment

import (
	"cmp"
	"time"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// Question is what an experiment is to answer.
type Question struct {
	Kind   trace.ExperimentKind
	Knobs  []knob.Setting // of B, if the question is Paired
	Tuning *Tuning        // what a tune may do
	Budget time.Duration  // of training, without pauses; 0 is the usual one
	Steps  int64          // the most that a Tune may take; 0: as many as the budget allows
}

// The usual budgets.
const (
	PairedBudget  = 5 * time.Minute
	CeilingBudget = time.Minute
	TuneBudget    = 2 * time.Minute
)

// String names the question.
func (q *Question) String() string {
	switch q.Kind {
	case trace.Ceiling:
		return "what fixing data would buy"
	case trace.Tune:
		return "which settings are the fastest"
	}
	return "whether " + knob.Join(q.Knobs, ", ") + " is faster"
}

func (q *Question) budget() time.Duration {
	switch q.Kind {
	case trace.Ceiling:
		return cmp.Or(q.Budget, CeilingBudget)
	case trace.Tune:
		return cmp.Or(q.Budget, TuneBudget)
	}
	return cmp.Or(q.Budget, PairedBudget)
}
