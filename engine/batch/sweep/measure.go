package sweep

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"os"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// Measured is what one run measured in the steps that count.
type Measured struct {
	attribution.SegmentStats
	File    string // the session
	Started time.Time
	Meta    trace.Meta
	Tally   *trace.Tally
	Verdict advice.Verdict
	Memory  int64   // bytes that the device held
	Host    int64   // resident bytes of the process, at most
	Loss    float64 // of the last epoch; NaN where nothing was computed
	Top1    float64 // of the last epoch; NaN where nothing was computed
	Learnt  []Learnt
	Others  float64 // share of all cores that other processes used meanwhile; NaN where unknown
	Hint    string  // what the advisor would try next

	Findings []advice.Finding // of the advisor, in its order
	Asides   []advice.Finding // what is good to know and cannot be changed
}

// Learnt is what was learnt after an epoch. The values of the test split are NaN where it
// was not evaluated.
type Learnt struct {
	Epoch              int32
	Loss, Top1         float64
	TestLoss, TestTop1 float64
	Took               int64 // ns to train
}

// errUnfinished says that a session did not come to its last step.
var errUnfinished = errors.New("it did not come to its end")

// Read measures a run by its session, without the steps of warm-up. They begin with the run's last change of
// settings: a command of the user's gets its settings with its first batches.
func Read(path string, warmup, steps int) (*Measured, error) {
	if _, err := os.Lstat(path); err != nil {
		return nil, err
	}
	s, err := store.Open(path)
	if err != nil {
		return nil, err
	}
	snap := s.Snapshot(0, 0)
	if n := len(snap.Segments); n > 0 {
		warmup += int(snap.Segments[n-1].FirstStep)
	}
	m, err := measure(snap, warmup)
	if err != nil {
		return nil, errs.Wrap(err, "read the run", path, "run the sweep again, which repeats it")
	}
	if snap.Outcome.Status != "finished" || int(snap.Total.Steps) < warmup+steps {
		return nil, errUnfinished
	}
	m.File = path
	return m, nil
}

// measure sums up the steps of a run from one on.
func measure(s *trace.Snapshot, from int) (*Measured, error) {
	var d trace.Digest
	for step, err := range s.Each(int32(from), math.MaxInt32) {
		if err != nil {
			return nil, err
		}
		d.Add(step)
	}
	if d.Total.Steps == 0 || len(s.Segments) == 0 {
		return nil, errUnfinished
	}
	trimmed := *s
	trimmed.Digest = d
	rows := attribution.Segments(&trimmed)
	row := &rows[len(rows)-1]
	t := trimmed.Tally(row.Segment.Index)
	out := &Measured{
		SegmentStats: *row, Started: s.Meta.Started, Meta: s.Meta, Tally: t,
		Verdict: advice.Judge(&trimmed, t), Others: advice.Others(s, t),
		Memory: cmp.Or(s.HeldBytes(&row.Segment), s.PeakBytes()), Host: s.Outcome.HostPeak,
		Loss: math.NaN(), Top1: math.NaN(),
	}
	a := advice.Of(&trimmed, t, rows)
	out.Hint, out.Findings, out.Asides = a.Text(), a.Findings, a.Asides
	// All runs are on one clock, so that a drift over the sweep shows.
	out.Stretch.Centre += s.Meta.Started.UnixNano()
	for _, e := range attribution.Epochs(s) {
		if !math.IsNaN(e.Loss) {
			out.Loss, out.Top1 = e.Loss, e.Top1
			l := Learnt{e.Epoch, e.Loss, e.Top1, math.NaN(), math.NaN(), e.Total}
			if test, ok := s.EvaluationOf(e.Epoch); ok {
				l.TestLoss, l.TestTop1 = test.Loss, test.Top1
			}
			out.Learnt = append(out.Learnt, l)
		}
	}
	return out, nil
}

// missing reports whether an error means that there is no run yet.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
