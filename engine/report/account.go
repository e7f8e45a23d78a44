package report

import (
	"math"

	"dev.gpustall/engine/advice"
	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// account is everything that the sections draw on, worked out once.
type account struct {
	s      *trace.Snapshot
	rows   []stall.SegmentStats
	epochs []stall.EpochStats
	whole  stall.Breakdown
	first  int // the baseline's row, -1 without segments
	last   int // the final row that counts as a result
	drops  int64
	advice advice.Advice // on the final settings
}

func newAccount(s *trace.Snapshot) *account {
	a := &account{s: s, first: -1, last: -1}
	a.rows = stall.Segments(s)
	a.epochs = stall.Epochs(s)
	a.whole = stall.Whole(s)
	for _, n := range s.Outcome.Drops {
		a.drops += n
	}
	if len(a.rows) == 0 {
		a.advice = advice.Of(s, new(trace.Tally), nil)
		return a
	}
	a.first, a.last = 0, 0
	for i, r := range a.rows {
		if r.Baseline {
			a.first = i
		}
	}
	a.last = a.final()
	a.advice = advice.Of(s, a.tally(a.last), a.rows)
	return a
}

// chosen reports whether A is another segment than the first.
func (a *account) chosen() bool { return a.first > 0 }

// enough is how many steady steps make a segment a result.
const enough = 10

// final is the last segment that is a result: enough steps, and real batches (a
// ceiling is no setting to train with). Failing that, the last with steps.
func (a *account) final() int {
	for i := len(a.rows) - 1; i >= 0; i-- {
		if a.rows[i].Steps >= enough && !a.ceiling(i) {
			return i
		}
	}
	for i := len(a.rows) - 1; i >= 0; i-- {
		if a.tally(i).All.Steps > 0 {
			return i
		}
	}
	return a.first
}

// tally is the account of a row's steps.
func (a *account) tally(row int) *trace.Tally { return a.s.Tally(a.rows[row].Segment.Index) }

// flagsOf are the flags of any step of a row.
func (a *account) flagsOf(row int) uint16 { return a.tally(row).Flags }

func (a *account) flagged(row int, flag uint16) bool { return a.flagsOf(row)&flag != 0 }

func (a *account) ceiling(row int) bool { return a.flagged(row, trace.FlagCeiling) }

// letter names a row: A is the baseline, the others go by their number.
func (a *account) letter(row int) string {
	if row == a.first {
		return "A"
	}
	return "#" + itoa(int64(a.rows[row].Segment.Index))
}

// epochOf is a row's epoch time.
type epochOf struct {
	measured  int64 // ns, the mean of the complete epochs wholly under these knobs; 0 when none
	runs      int   // how many those were
	projected int64 // ns, samples in an epoch over the steady rate; 0 when unknown
}

func (a *account) epochOf(row int) epochOf {
	var e epochOf
	r := &a.rows[row]
	if t := a.tally(row); t.Epochs > 0 {
		e.runs, e.measured = int(t.Epochs), t.EpochTime/t.Epochs
	}
	if r.SamplesPerSecond > 0 && a.s.Meta.Samples > 0 {
		e.projected = int64(float64(a.s.Meta.Samples) / r.SamplesPerSecond * 1e9)
	}
	return e
}

// String is the epoch time with how it was come by.
func (e epochOf) String() string {
	switch {
	case e.runs > 1:
		return figures.Prose.Time(e.measured) + " (measured, mean of " + itoa(int64(e.runs)) + " full epochs)"
	case e.runs == 1:
		return figures.Prose.Time(e.measured) + " (measured, one full epoch)"
	case e.projected > 0:
		return figures.Prose.Time(e.projected) + " (projected: no epoch was run in full under these knobs)"
	}
	return "unknown"
}

// best is the time to compare with: measured before projected.
func (e epochOf) best() int64 {
	if e.measured > 0 {
		return e.measured
	}
	return e.projected
}

// reduction is the share of A's time that B spares; below 0, where B takes longer.
func reduction(c *evidence.Change) figures.Estimate {
	spared := func(ratio float64) float64 { return 1 - 1/ratio }
	return figures.Estimate{Value: spared(c.Ratio), Lo: spared(c.Lo), Hi: spared(c.Hi)}
}

// increase is a reduction with the sign turned.
func increase(e figures.Estimate) figures.Estimate {
	return figures.Estimate{Value: -e.Value, Lo: -e.Hi, Hi: -e.Lo}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// has reports whether a list of changes names the knob, or one of the group inject.
func has(knobs []trace.Knob, name string) bool {
	for _, k := range knobs {
		if k.Name == name || name == trace.GroupInject && k.IsInject() {
			return true
		}
	}
	return false
}
