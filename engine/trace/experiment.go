package trace

import (
	"cmp"
	"slices"

	"dev.gpustall/engine/base/knob"
)

// ExperimentKind is what an experiment asks.
type ExperimentKind string

// The kinds.
const (
	Paired  ExperimentKind = "paired"  // is B faster than A? They take turns
	Ceiling ExperimentKind = "ceiling" // what if data were free? B serves cached batches, once
	Tune    ExperimentKind = "tune"    // which settings of the loader are the fastest? B is the best found
)

// Experiment is a question that a run answers by changing its own knobs for a while. The segments
// of that while belong to the experiment: nobody chose their settings.
type Experiment struct {
	Index       int32 // from 0
	Kind        ExperimentKind
	Start, End  int64 // ns; End is 0 while it is under way
	First, Last int32 // Index of its first and last segment. Last is below First where it had none, and math.MaxInt32 while it is under way

	// A are the settings in force when it began, those of the segment before First; B
	// those that it tries. Only the knobs that differ are named.
	A, B []knob.Setting

	Pairs  []Pair // of a paired one, in order; of a tune, those that confirm B
	Budget int64  // ns of active time
	Steps  int64  // that it may take at the most; 0: as many as the budget allows
	Kept   bool   // B stays in force
	Why    string // it ended without an answer, in a few words

	Decisions []Decision     // of a tune, in order
	Trying    []knob.Setting // of a tune under way: the knobs that are now asked for, where they differ from A
}

// Verdict is what became of settings that a tune considered.
type Verdict string

// The verdicts.
const (
	Found     Verdict = "found"     // in force when it began
	Best      Verdict = "kept"      // the best so far
	Dropped   Verdict = "dropped"   // no better than the best so far
	NotTried  Verdict = "not tried" // not worth it, or over a limit
	Refused   Verdict = "refused"   // could not be put in force
	Again     Verdict = "again"     // the best so far, measured again
	Confirmed Verdict = "confirmed" // measured anew beside the settings at the start, and better
	Doubted   Verdict = "doubted"   // measured anew, and not better
)

// Decision is what a tune decided about some settings, and why.
type Decision struct {
	T         int64          // ns
	Knobs     []knob.Setting // where they differ from what they are compared with: the best so far, or at the end the settings at the start
	Predicted Prediction     // of these settings, from those they are compared with; the zero value where there is none
	Segment   int32          // in which they were measured; -1: they were not
	Before    Block          // measured of what they are compared with
	After     Block          // measured of these settings
	Ratio     float64        // of the throughput, after to before; 0 where it is not known
	Lo, Hi    float64        // its interval
	Answer    string         // that of the comparison: "different", "the same", "not known yet"; empty where there is none
	Verdict   Verdict
	Text      string // all of it in a sentence
}

// DryRun is the reason of a tune that was only to say what it would do.
const DryRun = "a dry run"

// RunEnded is the reason of an experiment that was cut off by the end of the run.
const RunEnded = "the run ended"

// Pair is a measurement of A and B by turns, in four quarters: the outer two are of one side, the
// inner two of the other. The steps of the transitions are left out.
type Pair struct {
	Start, End int64 // ns
	A, B       Block
	LeftOut    int64 // steps
}

// Running reports whether the experiment is under way.
func (x *Experiment) Running() bool { return x.End == 0 }

// Has reports whether a segment belongs to the experiment.
func (x *Experiment) Has(segment int32) bool { return x.First <= segment && segment <= x.Last }

// ExperimentOf returns the experiment that a segment belongs to; nil where somebody chose the
// segment's settings.
func ExperimentOf(experiments []Experiment, segment int32) *Experiment {
	for i := range experiments {
		if experiments[i].Has(segment) {
			return &experiments[i]
		}
	}
	return nil
}

// mergeExperiments returns have with the updates applied; a new slice where there are any.
func mergeExperiments(have, updates []Experiment) []Experiment {
	if len(updates) == 0 {
		return have
	}
	out := slices.Clone(have)
	for _, u := range updates {
		i, found := slices.BinarySearchFunc(out, u.Index, func(x Experiment, index int32) int { return cmp.Compare(x.Index, index) })
		if found {
			out[i] = u
		} else {
			out = slices.Insert(out, i, u)
		}
	}
	return forget(out)
}
