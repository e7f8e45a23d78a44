package report

import (
	"math"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// account is everything that the sections draw on, worked out once.
type account struct {
	s      *trace.Snapshot
	rows   []attribution.SegmentStats
	epochs []attribution.EpochStats
	whole  attribution.Breakdown
	first  int           // the baseline's row, -1 without segments
	last   int           // the row to compare with it: the settings to keep, or else the last that count as a result
	kept   int           // the row of the settings to keep
	advice advice.Advice // on them
}

func newAccount(s *trace.Snapshot) *account {
	a := &account{s: s, first: -1, last: -1}
	a.rows = attribution.Segments(s)
	a.epochs = attribution.Epochs(s)
	a.whole = attribution.Whole(s)
	var at advice.Rows
	if a.advice, at = advice.Overall(s, a.rows); len(a.rows) > 0 {
		a.first, a.last, a.kept = at.Baseline, at.Last, at.Kept
		if a.kept != a.first {
			a.last = a.kept
		}
	}
	return a
}

// best reports whether the row that the baseline is compared with is the best one
// measured, rather than the last one tried.
func (a *account) best() bool { return a.last != a.first && a.kept == a.last }

// tally is the account of a row's steps.
func (a *account) tally(row int) *trace.Tally { return a.s.Tally(a.rows[row].Segment.Index) }

// flagged reports whether any step of a row has the flag.
func (a *account) flagged(row int, flag uint16) bool { return a.tally(row).Flags&flag != 0 }

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

// short is the time to compare with, an estimate with its mark.
func (e epochOf) short() string {
	if e.measured > 0 {
		return units.Prose.Time(e.measured)
	}
	return e.estimate()
}

// full is the measured time and of how many epochs it is the mean.
func (e epochOf) full() string {
	if e.runs == 0 {
		return "none run in full"
	}
	return units.Prose.Time(e.measured) + " (" + units.Counted(int64(e.runs), "epoch", "epochs") + ")"
}

// estimate is the projected time.
func (e epochOf) estimate() string {
	if e.projected == 0 {
		return "-"
	}
	return "~" + units.Prose.Time(e.projected)
}

// best is the time to compare with: measured before projected.
func (e epochOf) best() int64 {
	if e.measured > 0 {
		return e.measured
	}
	return e.projected
}

// reduction is the share of A's time that B spares; below 0, where B takes longer.
func reduction(c *stats.Change) units.Estimate {
	spared := func(ratio float64) float64 { return 1 - 1/ratio }
	return units.Estimate{Value: spared(c.Ratio), Lo: spared(c.Lo), Hi: spared(c.Hi)}
}

// increase is a reduction with the sign turned.
func increase(e units.Estimate) units.Estimate {
	return units.Estimate{Value: -e.Value, Lo: -e.Hi, Hi: -e.Lo}
}

// notRecorded stands for what a trace that was imported does not tell.
const notRecorded = "not recorded"

// rate is a row's samples a second.
func rate(r *attribution.SegmentStats) string {
	if math.IsNaN(r.SamplesPerSecond) {
		return notRecorded
	}
	return units.Rate(r.SamplesPerSecond) + "/s"
}

// deviceTime is how long the device computes for a sample.
func deviceTime(r *attribution.SegmentStats) string {
	if r.Breakdown.Samples == 0 {
		return notRecorded
	}
	return units.Prose.Time(int64(math.Round(perSample(r))))
}

// loadTime is worker time, of which there is none on record where there is no worker.
func loadTime(m *trace.Meta, ns int64) string {
	if ns == 0 && m.Imported != "" {
		return notRecorded
	}
	return units.Prose.Time(ns)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// has reports whether a list of changes names the knob, or one of the group inject.
func has(knobs []knob.Setting, name string) bool {
	for _, k := range knobs {
		if k.Name == name || name == knob.GroupInject && k.IsInject() {
			return true
		}
	}
	return false
}
