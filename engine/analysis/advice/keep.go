package advice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Keep are the settings to keep.
type Keep struct {
	Segment int32            // which has these settings
	Knobs   []knob.Setting   // the knobs that differ from the baseline's; none if the baseline's settings are to be kept
	Change  stats.Comparison // with the baseline
	Text    string           // in one sentence; empty when there was nothing to choose from
	Open    bool             // these are the baseline's settings, and others look faster but are not known to be
}

// looks is the ratio of throughputs from which settings look faster, although it may be
// chance.
const looks = 1.1

// workersOf returns a row's num_workers.
func workersOf(r *attribution.SegmentStats) int {
	n, _ := strconv.Atoi(knob.ValueOf(r.Segment.Knobs, "num_workers"))
	return n
}

// keep recommends the fastest settings that were measured on equal terms with the baseline. They
// must be faster than each segment with the baseline's settings, for another reason than a faster
// device.
func keep(s *trace.Snapshot, rows []attribution.SegmentStats) Keep {
	i := baseline(rows)
	if i < 0 {
		return Keep{}
	}
	a := &rows[i]
	if len(rows) == 1 {
		return inTest(a, tested(s, rows, nil))
	}
	best, k := a, Keep{Segment: a.Segment.Index}
	var open *attribution.SegmentStats
	var doubts []string
	compared := false
	fewer, repeated := repeats(s)
	// Where the two took turns, whatever the script changed in between does not matter.
	fair := func(r *attribution.SegmentStats) bool { return r.VsA.Pairs > 0 || equalTerms(s, a, r) }
	for i := range rows {
		r := &rows[i]
		c := &r.VsA.Throughput
		compared = compared || c.Answer != stats.Unknown && fair(r)
		if c.Answer == stats.Unknown && c.Ratio >= looks && (open == nil || c.Ratio > open.VsA.Throughput.Ratio) && r.Steps >= MinSteps && len(Chosen(a.Segment.Knobs, r.Segment.Knobs)) > 0 &&
			fair(r) && (repeated == "" || workersOf(r) <= fewer) && Unearned(s, a, r, &r.VsA) == "" && beatsAll(rows, a, r) {
			open = r
		}
		if r == a || c.Answer != stats.Different || !fair(r) {
			continue
		}
		switch busy := &r.VsA.Busy; {
		case len(Changed(a.Segment.Knobs, r.Segment.Knobs)) == 0:
			doubts = append(doubts, fmt.Sprintf("segment %s has the settings of A and was %s: %s", r.Name(), c, c.Why()))
		case c.Ratio <= 1:
		case repeated != "" && workersOf(r) > fewer:
			doubts = append(doubts, fmt.Sprintf("segment %s was %s, but %s", r.Name(), c, repeated))
		case deviceChanged(s, a, r, &r.VsA) && busy.Ratio < 1:
			doubts = append(doubts, fmt.Sprintf("segment %s was %s, but %s", r.Name(), c, Unearned(s, a, r, &r.VsA)))
		case !beatsAll(rows, a, r):
		case r.SamplesPerSecond > best.SamplesPerSecond:
			best = r
		}
	}
	if !compared && slices.ContainsFunc(s.Segments, func(g trace.Segment) bool { return g.ByScript }) {
		return Keep{} // nothing but the script changed anything, or nothing was on equal terms
	}
	k.Text = "keep the baseline's settings: nothing that was tried was measurably faster on equal terms"
	tuned, gain := tunedTo(s, rows)
	switch {
	case best == a && tuned != nil:
		k.Segment, k.Change, k.Knobs = tuned.Segment.Index, tuned.VsA, Changed(a.Segment.Knobs, tuned.Segment.Knobs)
		k.Text = fmt.Sprintf("keep segment %s, whose settings tune found and measured anew beside the baseline's: %s throughput, by so much that no interval was waited for",
			tuned.Name(), units.Prose.Gain(gain))
	case best == a && open != nil:
		k.Open, k.Text = true, undecided(s, a, open, tested(s, rows, open.Segment.Knobs))
		if doubt := cached(s, a, open); doubt != "" {
			doubts = append(doubts, doubt)
		}
	case !compared:
		k.Text = forNow + "nothing that was tried can be compared with them yet, on equal terms"
		if x := tested(s, rows, nil); x != nil {
			k.Text = forNow + ended(a, x)
		}
	case best != a:
		k.Segment, k.Change, k.Knobs = best.Segment.Index, best.VsA, Changed(a.Segment.Knobs, best.Segment.Knobs)
		k.Text = fmt.Sprintf("keep segment %s, the fastest that was measured: %s throughput against the baseline", best.Name(), &k.Change.Throughput)
		if by := k.Change.ByTurns(); by != "" {
			k.Text += ", by " + by
		}
		if doubt := cached(s, a, best); doubt != "" {
			doubts = append(doubts, doubt)
		}
	}
	k.Text = strings.Join(append([]string{k.Text}, doubts...), "; ")
	return k
}

// forNow begins the advice to stay with the baseline's settings until more is known.
const forNow = "keep the baseline's settings for now: "

// inTest is for a run that ended within an A/B test, before other settings had a row. x may be nil.
func inTest(a *attribution.SegmentStats, x *attribution.Experiment) (k Keep) {
	if x == nil {
		return k
	}
	k.Segment, k.Text = a.Segment.Index, forNow+ended(a, x)
	if c := &x.Change.Throughput; c.Answer == stats.Different && c.Ratio > 1 {
		k.Text, k.Open = ended(a, x), true
	}
	return k
}

// tested returns the newest A/B test of settings, any where knobs is nil, against the baseline's that has ended and
// measured both; nil where there is none.
func tested(s *trace.Snapshot, rows []attribution.SegmentStats, knobs []knob.Setting) *attribution.Experiment {
	xs := attribution.Experiments(s, rows)
	for i := len(xs) - 1; i >= 0; i-- {
		x := &xs[i]
		if x.Kind == trace.Paired && !x.Running() && x.FromA && x.Change.Pairs > 0 && (knobs == nil || slices.Equal(x.Settings[1], knobs)) {
			return x
		}
	}
	return nil
}

// undecided says what would decide about settings that look faster than the baseline's. An A/B
// test of them outranks how they look: x is the newest one, or nil.
func undecided(s *trace.Snapshot, a, r *attribution.SegmentStats, x *attribution.Experiment) string {
	if x != nil {
		return ended(a, x)
	}
	knobs, how := Chosen(a.Segment.Knobs, r.Segment.Knobs), "press A on the screen"
	if s.Outcome.Ended > 0 {
		how = "in another run, " + how
	}
	if !s.Meta.Watched() {
		how += " or give --paired " + knob.Join(knobs, ",")
	}
	c := &r.VsA.Throughput
	looks := units.Prose.Gain(units.Rough(c.Estimate().Value)) + c.Mark()
	return fmt.Sprintf("%s looks faster than the baseline's settings (%s), not proven yet: %s to let the two take turns (%s)",
		knob.Join(knobs, ", "), looks, how, stats.Turns)
}

// ended says what an A/B test of other settings than a's found.
func ended(a *attribution.SegmentStats, x *attribution.Experiment) string {
	rates, found, next := x.Rates(), "ended undecided", ": a longer one decides"
	if x.Change.Throughput.Answer != stats.Unknown {
		found, next = "found: "+x.Change.Throughput.String(), ""
	}
	return fmt.Sprintf("the A/B test of %s %s (%s against %s samples/s, %s)%s",
		knob.Join(Chosen(a.Segment.Knobs, x.Settings[1]), ", "), found, units.Rate(rates[1]), units.Rate(rates[0]), units.Counted(x.Change.Pairs, "pair", "pairs"), next)
}

// tunedTo returns the row with the settings that the newest tune kept, and their gain as that tune
// measured it. The tune kept them without an interval, because the gain was so large. The row is
// nil where no tune did so, or where the row's own comparison with A has an answer.
func tunedTo(s *trace.Snapshot, rows []attribution.SegmentStats) (*attribution.SegmentStats, units.Estimate) {
	xs := attribution.Experiments(s, rows)
	for i := len(xs) - 1; i >= 0; i-- {
		x := &xs[i]
		if x.Kind != trace.Tune || x.Running() {
			continue
		}
		if !x.Kept || !x.FromA || x.Change.Throughput.Answer != stats.Unknown {
			break
		}
		for j := range rows {
			r := &rows[j]
			if r.Segment.Index > x.Last && slices.Equal(r.Segment.Knobs, x.Settings[1]) && r.Steps >= MinSteps && r.VsA.Throughput.Answer == stats.Unknown {
				return r, units.Rough(x.Sides[1].SamplesPerSecond() / x.Sides[0].SamplesPerSecond())
			}
		}
		break
	}
	return nil, units.Estimate{}
}

// beatsAll reports whether a row is faster than each row with the settings of a.
func beatsAll(rows []attribution.SegmentStats, a, r *attribution.SegmentStats) bool {
	for i := range rows {
		if e := &rows[i]; e != a && len(Changed(a.Segment.Knobs, e.Segment.Knobs)) == 0 {
			if c := attribution.Compare(rows, e, r).Throughput; c.Answer != stats.Unknown && (c.Answer != stats.Different || c.Ratio < 1) {
				return false
			}
		}
	}
	return true
}

// baseline returns the index of the row that the others are compared with; -1 where there is none.
func baseline(rows []attribution.SegmentStats) int {
	return slices.IndexFunc(rows, func(r attribution.SegmentStats) bool { return r.Baseline })
}

// Changed returns the knobs of b that differ from a's.
func Changed(a, b []knob.Setting) []knob.Setting {
	was := map[string]string{}
	for _, k := range a {
		was[k.Name] = k.Value
	}
	var out []knob.Setting
	for _, k := range b {
		if v, ok := was[k.Name]; !ok || v != k.Value {
			out = append(out, k)
		}
	}
	return out
}

// Costly says where the device's own time goes.
type Costly struct {
	Ops  []attribution.OpRow // the ops of one segment that take most
	Text string              // in one sentence; empty when no op was timed
}

// At most so many operations are named, and each takes at least so much of the time. Naming one of
// many that take 2 % each says nothing.
const (
	mostCostly = 3
	leastShare = 0.10
)

// costly names the operations of a segment that take most of the device's time. If they were not
// timed, it takes the last earlier segment whose operations were.
func costly(s *trace.Snapshot, segment int32) Costly {
	for i := len(s.Segments) - 1; i >= 0; i-- {
		g := s.Segments[i]
		if g.Index > segment {
			continue
		}
		table := attribution.Ops(s, g)
		if len(table.Rows) == 0 {
			continue
		}
		c := Costly{Ops: costliest(&table, attribution.ByOp)}
		if len(c.Ops) == 0 {
			c.Ops = costliest(&table, attribution.ByKind)
		}
		if len(c.Ops) == 0 {
			return c
		}
		words := make([]string, len(c.Ops))
		for i := range c.Ops {
			o := &c.Ops[i]
			words[i] = o.Name
			if o.Layer != "" {
				words[i] += " of " + o.Layer
			}
			words[i] += fmt.Sprintf(" (%s)", units.Prose.Percent(o.Share))
		}
		c.Text = "the device's own time goes first to " + strings.Join(words, ", ")
		return c
	}
	return Costly{}
}

// costliest returns the launches, or groups of them, that are worth naming.
func costliest(table *attribution.OpTable, by attribution.OpGroup) []attribution.OpRow {
	ops := table.Group(by)
	attribution.SortOps(ops)
	n := 0
	for n < min(mostCostly, len(ops)) && ops[n].Share >= leastShare {
		n++
	}
	return ops[:n]
}
