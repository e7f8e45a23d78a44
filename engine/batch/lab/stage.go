package lab

import "dev.gpustall/engine/batch/sweep"

// Kind is what a stage is for.
type Kind string

// The kinds of stages.
const (
	Probe         Kind = "probe" // what the baseline does without a slow read
	Baseline      Kind = "baseline"
	Fix           Kind = "fix"
	Workers       Kind = "num_workers"
	Validation    Kind = "validation"
	Precision     Kind = "precision"
	Accumulation  Kind = "gradient_accumulation"
	Checkpointing Kind = "checkpointing"
	Capture       Kind = "capture"
	Ladder        Kind = "ladder"
)

// Stage is one sweep of the lab.
type Stage struct {
	Kind    Kind
	Title   string
	Folder  string         // below the lab's
	Results *sweep.Results // nil where nothing could be run
	Skipped string         // why nothing was run
	Configs []sweep.Config // the configurations of its plan
}

// row returns a configuration's result; nil where it has none. A nil Stage has none.
func (s *Stage) row(i int) *sweep.Result {
	if s == nil || s.Results == nil || i >= len(s.Results.Rows) || !s.Results.Rows[i].Measured() {
		return nil
	}
	return &s.Results.Rows[i]
}

// fastest returns the configuration that is the fastest of those that are faster than the
// first for sure; 0 where none is.
func (s *Stage) fastest() int {
	best := 0
	for i := 1; s.Results != nil && i < len(s.Results.Rows); i++ {
		if r := s.row(i); r != nil && better(&r.Against.Throughput) && r.Rate.Value > s.Results.Rows[best].Rate.Value {
			best = i
		}
	}
	return best
}
