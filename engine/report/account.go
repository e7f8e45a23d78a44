package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// account is the analysis of a session that the sections share. It is worked out once
// and only read afterwards. A row is the statistics of one segment.
type account struct {
	s      *trace.Snapshot
	rows   []attribution.SegmentStats
	epochs []attribution.EpochStats
	whole  attribution.Breakdown
	first  int  // the baseline's row; -1 without segments
	last   int  // the row to compare with the baseline: the settings to keep, or else the last row that counts as a result
	kept   int  // the row of the settings to keep
	own    bool // first, last and kept are the last of the script's own settings
	advice advice.Advice
}

func newAccount(s *trace.Snapshot) *account {
	a := &account{s: s, first: -1, last: -1}
	a.rows = attribution.Segments(s)
	a.epochs = attribution.Epochs(s)
	a.whole = attribution.Whole(s)
	var at advice.Rows
	if a.advice, at = advice.Overall(s, a.rows); len(a.rows) > 0 {
		a.first, a.last, a.kept = at.Baseline, at.Last, at.Kept
		switch {
		case a.kept != a.first:
			a.last = a.kept
		case a.advice.Keep.Text != "":
			a.last = a.tried()
		}
		if a.advice.Keep.Text == "" && a.last != a.first { // only the script changed anything, so nothing is compared
			a.first, a.own = a.last, true
		}
	}
	return a
}

// tried returns the last row that counts as a result and has other settings than the baseline; the baseline's where there is none.
func (a *account) tried() int {
	for i := range slices.Backward(a.rows) {
		if a.rows[i].Steps >= advice.MinSteps && !a.flagged(i, trace.FlagCeiling) && len(advice.Changed(a.rows[a.first].Segment.Knobs, a.rows[i].Segment.Knobs)) > 0 {
			return i
		}
	}
	return a.first
}

// measured reports whether any training step was finished.
func (a *account) measured() bool { return a.first >= 0 && a.s.Total.Steps > 0 }

// best reports whether the row that is compared with the baseline is the best measured
// one, rather than the last one tried.
func (a *account) best() bool { return a.last != a.first && a.kept == a.last }

// tally returns the sums over a row's steps.
func (a *account) tally(row int) *trace.Tally { return a.s.Tally(a.rows[row].Segment.Index) }

// flagged reports whether any step of a row has the flag.
func (a *account) flagged(row int, flag uint16) bool { return a.tally(row).Flags&flag != 0 }

// difference names the knobs in which two rows differ.
func (a *account) difference(from, to int) string {
	d := advice.Changed(a.rows[from].Segment.Knobs, a.rows[to].Segment.Knobs)
	if len(d) == 0 {
		return "the same knobs"
	}
	return knob.Join(d, ", ")
}

// segmentName returns a segment's letter, or its number where it has no row.
func (a *account) segmentName(index int32) string {
	for i := range a.rows {
		if a.rows[i].Segment.Index == index {
			return a.rows[i].Name()
		}
	}
	return "#" + itoa(int64(index))
}

// segmentNames returns "segment A", "segments A, #2", or "all 20 segments".
func (a *account) segmentNames(segments []int32) string {
	if n := len(segments); n > 3 && n == len(a.s.Segments) {
		return fmt.Sprintf("all %d segments", n)
	}
	names := make([]string, len(segments))
	for i, index := range segments {
		names[i] = a.segmentName(index)
	}
	if len(names) == 1 {
		return "segment " + names[0]
	}
	return "segments " + strings.Join(names, ", ")
}

// epochTime is how long an epoch takes with a row's settings.
type epochTime struct {
	measured  int64 // ns, the mean over the complete epochs that ran wholly under these knobs; 0 when none
	runs      int   // how many epochs measured is the mean of
	projected int64 // ns, samples in an epoch over the steady rate; 0 when unknown
}

func (a *account) epochOf(row int) epochTime {
	var e epochTime
	r := &a.rows[row]
	if t := a.tally(row); t.Epochs > 0 {
		e.runs, e.measured = int(t.Epochs), t.EpochTime/t.Epochs
	}
	if r.SamplesPerSecond > 0 {
		e.projected = int64(float64(a.s.Epoch(&r.Segment)) / r.SamplesPerSecond * 1e9)
	}
	return e
}

// short returns the time to compare with; ~ marks an estimate.
func (e epochTime) short() string {
	if e.measured > 0 {
		return units.Prose.Time(e.measured)
	}
	return e.estimate()
}

// full returns the measured time and the number of epochs that it is the mean of.
func (e epochTime) full() string {
	if e.runs == 0 {
		return "none run in full"
	}
	return units.Prose.Time(e.measured) + " (" + units.Counted(int64(e.runs), "epoch", "epochs") + ")"
}

// estimate returns the projected time.
func (e epochTime) estimate() string {
	if e.projected == 0 {
		return "-"
	}
	return "~" + units.Prose.Time(e.projected)
}

// best returns the time to compare with: the measured one where there is one, else the
// projected one.
func (e epochTime) best() int64 {
	if e.measured > 0 {
		return e.measured
	}
	return e.projected
}

// waits shows the share of a row's time in which the device waits for data. Nothing tells it of a loop without a DataLoader.
func (a *account) waits(r *attribution.SegmentStats) string {
	if a.s.Alone(&r.Segment) {
		return "not known"
	}
	return share(r, r.DataShare)
}

// perSample returns how long the device computes for a sample, in ns.
func perSample(r *attribution.SegmentStats) float64 {
	if r.Breakdown.Samples == 0 {
		return 0
	}
	return float64(r.Breakdown.Busy) / float64(r.Breakdown.Samples)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// has reports whether a list of changes names the knob; the name [knob.GroupInject]
// stands for any injected bottleneck.
func has(knobs []knob.Setting, name string) bool {
	for _, k := range knobs {
		if k.Name == name || name == knob.GroupInject && k.IsInject() {
			return true
		}
	}
	return false
}
