package advice

import (
	"strconv"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// situation is what the advice rests on: the judged steps, the knobs in force, and
// what the workers and the queue did meanwhile.
type situation struct {
	b        attribution.Breakdown
	flags    uint16
	imported bool
	profile  *trace.Profile // of an imported trace; nil for our own runs

	interlude bool // the steps are of an experiment under way that serves cached batches

	snap     *trace.Snapshot
	settling *settling           // the first epochs were unlike those since; nil where they were not
	tally    *trace.Tally        // the steps judged
	from, to int64               // ns, of those
	plain    *trace.Distribution // of their active times, but for the timed ones

	hostDevice bool // the device is the host's own cores: what it takes over, they still do
	segment    int32
	specs      []knob.Spec
	knobs      []knob.Setting
	cores      predict.Cores
	loading    predict.Loading
	model      *predict.Model // what a knob would do follows from it; nil where too little was measured
	starved    float64        // of the time in which the device's threads could run: without a core
	spun       bool           // and those that had one spun on it meanwhile: what they lost is that at the least
	workers    int            // num_workers
	samples    int64          // of the data set; 0 when unknown
	trials     []Trial
	rows       []attribution.SegmentStats
	op         float64  // ns that an operation of the device takes, on average; 0 when none was timed
	notApplied []string // notes on changes that could not be made
	opening    float64  // the share of the active time lost to data in the first steps of epochs; 0 without workers
	between    float64  // the share of it that went by before their first batches, for no recorded cause

	ready  float64
	queued bool             // ready, the mean share of the queue that was ready, is known
	head   attribution.Head // whom in_order made the step loop wait for
	headed bool             // head is known
}

func newSituation(s *trace.Snapshot, t *trace.Tally, rows []attribution.SegmentStats, trials []Trial) *situation {
	c := &situation{snap: s, tally: t, from: t.From, to: t.To, plain: &t.Plain, segment: t.Segment, rows: rows, trials: trials, notApplied: notApplied(s), b: attribution.Breakdown{Totals: t.Steady}, flags: t.SteadyFlags, specs: s.Meta.Specs, imported: s.Meta.Imported != "", profile: s.Meta.Profile, hostDevice: s.Meta.DeviceKind == "cpu"}
	if x := trace.ExperimentOf(s.Experiments, t.Segment); x != nil {
		c.interlude = x.Running() && x.Kind == trace.Ceiling
	}
	for _, g := range s.Segments {
		if g.Index == t.Segment {
			c.knobs = g.Knobs
		}
	}
	c.samples = s.Meta.Samples
	c.cores = predict.CoresOf(s, t.From, t.To)
	c.loading = predict.LoadingOf(&c.b, s.Spans, t.From, t.To, &c.cores)
	c.starved = WithoutCore(s, t)
	c.spun = s.Meta.Spins() && c.starved >= moderate
	c.op = meanOp(s, t.Segment)
	c.workers, _ = c.number("num_workers")
	c.watchOpenings(s.Recent, t)
	if c.b.Stall[trace.CauseOrder] > 0 {
		c.head, c.headed = attribution.HeadOf(s.Spans, t.From, t.To)
	}
	c.watchQueue(s, t.From, t.To)
	return c
}

// meanOp is how long an operation of the device takes in a segment, on average, in ns.
func meanOp(s *trace.Snapshot, segment int32) float64 {
	var ns, calls int64
	for i := range s.Ops {
		if o := &s.Ops[i]; o.Segment == segment {
			ns, calls = ns+o.Total, calls+o.Calls
		}
	}
	return float64(ns) / float64(max(1, calls))
}

// watchOpenings finds what the first steps of epochs cost, from the steps of t that
// are in memory.
func (c *situation) watchOpenings(recent []trace.Step, t *trace.Tally) {
	var first, all trace.Totals
	for i := range recent {
		s := &recent[i]
		if s.Index < t.First || s.Index > t.Last || s.Segment != t.Segment || s.Flags&trace.FlagTransition != 0 || s.Index == t.First && s.Flags&trace.FlagFirstOfEpoch != 0 {
			continue
		}
		all.Add(s)
		if s.Flags&trace.FlagFirstOfEpoch != 0 {
			first.Add(s)
		}
	}
	b := attribution.Breakdown{Totals: all}
	if c.workers > 0 {
		c.opening = b.Of(attribution.Breakdown{Totals: first}.Data())
	}
	c.between = b.Of(first.Stall[trace.CauseUnknown])
}

// opensMost reports whether most of the wait for data is in the first steps of
// epochs.
func (c *situation) opensMost() bool { return 2*c.opening >= c.b.DataShare() }

// share is the share of the active time lost to a group of causes.
func (c *situation) share(g trace.Group) float64 {
	var ns int64
	for cause := range trace.Cause(trace.NumCauses) {
		if cause.Group() == g {
			ns += c.b.Stall[cause]
		}
	}
	return c.b.Of(ns)
}

// watchQueue finds how full the ready queue was, from its samples or, where the
// window's spans are gone, from the gauges.
func (c *situation) watchQueue(s *trace.Snapshot, from, to int64) {
	var sum float64
	n := 0
	for i := range s.Spans {
		if q := &s.Spans[i]; q.Kind == trace.KindQueue && q.Flags > 0 && q.Start >= from && q.Start <= to {
			sum += min(1, float64(q.Arg)/float64(q.Flags))
			n++
		}
	}
	if n == 0 {
		ready, capacity := s.Gauges["queue_ready"], s.Gauges["queue_cap"]
		for i := range min(len(ready), len(capacity)) {
			if t := ready[i].T; t >= from && t <= to && capacity[i].V > 0 {
				sum += min(1, ready[i].V/capacity[i].V)
				n++
			}
		}
	}
	if n > 0 {
		c.ready, c.queued = sum/float64(n), true
	}
}

// queue names the state of the ready queue: full from 80 %, empty under 20 %.
// Without workers there is no queue, and the waiting itself tells. A queue of batches
// whose turn has not come is neither.
func (c *situation) queue() string {
	inline := c.knob("num_workers") == "0"
	switch {
	case c.flags&trace.FlagCeiling != 0, c.imported: // a trace tells of no queue, and not what workers did
		return ""
	case c.queued && !inline && c.ready >= 0.2 && c.b.Share(trace.CauseOrder) >= moderate:
		return ""
	case c.queued && !inline && c.ready >= 0.8:
		return QueueDevice
	case c.queued && !inline && c.ready >= 0.2, c.b.DataShare() < moderate:
		return ""
	}
	if words := queues[c.bound()]; words != "" {
		return words
	}
	if c.loading.Reading() {
		return QueueIO
	}
	if c.b.Load == 0 { // nothing is known of the loader
		return ""
	}
	return QueueCPU
}

// capacity is what host and device could do at their best; false where there is nothing
// to estimate it from.
func (s *situation) capacity() (predict.Capacity, bool) {
	return predict.CapacityOf(&s.b, &s.loading, s.cores, s.workers, s.starved, &s.snap.Meta, attribution.Among(s.snap, s.rows, s.segment))
}

// knob returns the value in force; empty when it is unknown.
func (c *situation) knob(name string) string { return knob.ValueOf(c.knobs, name) }

// number returns an integer knob's value in force.
func (c *situation) number(name string) (int, bool) {
	n, err := strconv.Atoi(c.knob(name))
	return n, err == nil
}

// can reports whether turning the switch on is possible and would change something.
func (c *situation) can(name string) bool {
	if value := c.knob(name); value == "" || !knob.Off(value) {
		return false
	}
	if s := knob.SpecOf(c.specs, name); s != nil {
		return s.NoEffect == ""
	}
	return len(c.specs) == 0
}

// limit is the largest value of an integer knob.
func (c *situation) limit(name string, otherwise int) int {
	if s := knob.SpecOf(c.specs, name); s != nil && s.Max > 0 {
		return s.Max
	}
	return otherwise
}
