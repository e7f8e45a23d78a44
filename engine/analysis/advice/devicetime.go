package advice

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// deviceTime is where the device's time went in the steps judged.
type deviceTime struct {
	attribution.Breakdown
	session *session

	segment   int32
	flags     uint16              // those that any of the steps has
	plain     *trace.Distribution // of the steps' active times, without the timed ones
	settling  *settling           // how the first epochs differed from those since; nil where they did not
	interlude bool                // an experiment under way serves cached batches in these steps

	opening float64 // the share of the active time lost to data in the first steps of epochs
	between float64 // the share of the active time before their first batches, without a recorded cause
	op      float64 // how long an operation takes on average, in ns; 0 when none was timed
}

func newDeviceTime(s *session, t *trace.Tally) deviceTime {
	d := deviceTime{
		Breakdown: attribution.Breakdown{Totals: t.Steady}, session: s,
		segment: t.Segment, flags: t.SteadyFlags, plain: &t.Plain, op: meanOp(s.Snapshot, t.Segment),
	}
	if x := trace.ExperimentOf(s.Experiments, t.Segment); x != nil {
		d.interlude = x.Running() && x.Kind == trace.Ceiling
	}
	d.watchOpenings(t)
	return d
}

// meanOp returns how long an operation of the device takes in a segment, on average, in ns.
func meanOp(s *trace.Snapshot, segment int32) float64 {
	var ns, calls int64
	for i := range s.Ops {
		if o := &s.Ops[i]; o.Segment == segment {
			ns, calls = ns+o.Total, calls+o.Calls
		}
	}
	return float64(ns) / float64(max(1, calls))
}

// ceiling reports whether cached batches were served. Then nothing was measured of the loader.
func (t *deviceTime) ceiling() bool { return t.flags&trace.FlagCeiling != 0 }

// cost returns what idleness costs in the steps judged; empty where no rate was given.
func (t *deviceTime) cost() string {
	c, ok := CostOf(t.session.Snapshot, &t.Breakdown)
	if !ok {
		return ""
	}
	return c.String()
}

// cause says what went on while the device waited for the largest cause of a group.
func (t *deviceTime) cause(g trace.Group) string {
	if g == trace.GroupNone || t.share(g) < moderate {
		return ""
	}
	c := dominant(&t.Breakdown, g)
	return fmt.Sprintf("%s, %s of the time: %s", c, units.Prose.Percent(t.Share(c)), c.Info().Means)
}

// smallCopies reports whether the latency of copies counts more than their bytes. 256 KiB take PCIe
// 3.0 about 20 us, which is twice the latency of a copy.
func (t *deviceTime) smallCopies() bool {
	return t.Bytes > 0 && t.Bytes < t.Steps*(256<<10)
}

// copies says how long copying a batch takes, and how long computing on it takes.
func (t *deviceTime) copies() string {
	if t.Copy <= 0 || t.Steps <= 0 {
		return "the loader is not what is late"
	}
	return fmt.Sprintf("a batch is copied for %s at %s, and computed for %s", units.Prose.Time(t.Copy/t.Steps),
		units.Prose.Transfer(float64(t.Bytes)/float64(t.Copy)*1e9), units.Prose.Time(t.Busy/t.Steps))
}

// judgedSteps yields the steady steps judged, as far as they are in memory.
func (t *deviceTime) judgedSteps(yield func(*trace.Step) bool) {
	for i := range t.session.Recent {
		st := &t.session.Recent[i]
		if st.Segment == t.segment && st.Start >= t.session.from && st.End <= t.session.to && st.Flags&(trace.FlagTransition|trace.FlagTimed) == 0 && !yield(st) {
			return
		}
	}
}

// driftOfOps names the operation that slowed down most since an earlier segment with the same
// settings. It is empty where there is no such segment, or operations were not timed.
func (t *deviceTime) driftOfOps() string {
	now := t.session.Segment(t.segment)
	if now == nil {
		return ""
	}
	for i := range t.session.Segments {
		g := &t.session.Segments[i]
		if g.Index >= now.Index || len(Changed(g.Knobs, now.Knobs)) > 0 {
			continue
		}
		a, b := attribution.Ops(t.session.Snapshot, *g), attribution.Ops(t.session.Snapshot, *now)
		var name string
		var most float64
		for _, c := range attribution.CompareOps(&a, &b, attribution.ByOp) {
			if r := c.Ratio(&a, &b); r > 1+driftShare && r > most {
				name, most = strings.TrimSpace(c.Name+" "+c.Layer), r
			}
		}
		if name != "" {
			return fmt.Sprintf("; the operation that changed most is %s, %s since segment #%d", units.Line(name), units.Prose.Gain(units.Rough(most)), g.Index)
		}
	}
	return ""
}

// longSteps says how much of the device's time a few long steps take. It is empty where that is
// little.
func (t *deviceTime) longSteps() string {
	usual := trace.Quantile(0.5, t.plain)
	var n, every, all, sum int64
	last := int32(-1)
	for st := range t.judgedSteps {
		all += st.Busy
		if st.Busy <= 2*usual {
			continue
		}
		if last >= 0 {
			every += int64(st.Index - last)
		}
		last = st.Index
		n, sum = n+1, sum+st.Busy
	}
	if n < 3 || sum < all/5 || every < 4*(n-1) { // where many are long, none is unusual
		return ""
	}
	return fmt.Sprintf("%s, every %s steps on average, take %s of the time with a batch in hand, %s each where %s are usual",
		units.Counted(n, "step", "steps"), units.Count((every+(n-1)/2)/(n-1)), units.Prose.Percent(float64(sum)/float64(all)), units.Prose.Time(sum/n), units.Prose.Time(usual))
}

// watchOpenings measures what the first steps of epochs cost, from the steps of the tally
// that are in memory.
func (t *deviceTime) watchOpenings(tally *trace.Tally) {
	var first, all trace.Totals
	for i := range t.session.Recent {
		st := &t.session.Recent[i]
		opens := st.Flags&trace.FlagFirstOfEpoch != 0
		if st.Index < tally.First || st.Index > tally.Last || st.Segment != tally.Segment || st.Flags&trace.FlagTransition != 0 || st.Index == tally.First && opens {
			continue
		}
		all.Add(st)
		if opens {
			first.Add(st)
		}
	}
	b := attribution.Breakdown{Totals: all}
	t.opening = b.Of(attribution.Breakdown{Totals: first}.Data())
	t.between = b.Of(first.Stall[trace.CauseUnknown])
}

// opensMost reports whether most of the wait for data is in the first steps of
// epochs.
func (t *deviceTime) opensMost() bool { return 2*t.opening >= t.DataShare() }

// share returns the share of the active time lost to a group of causes.
func (t *deviceTime) share(g trace.Group) float64 {
	var ns int64
	for cause := range trace.Cause(trace.NumCauses) {
		if cause.Group() == g {
			ns += t.Stall[cause]
		}
	}
	return t.Of(ns)
}
