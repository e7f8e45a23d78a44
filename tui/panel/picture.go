package panel

import (
	"math"
	"slices"
	"sort"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// histLen is the longest history a gauge draws, in buckets.
const histLen = 200

// Picture is what one frame shows: a snapshot as of one moment, with the numbers that the panels
// show. It is made once a tick.
type Picture struct {
	Snap       trace.Snapshot // without what comes after At
	At         int64
	Edge       int64 // the moment up to which device spans can be known
	Segment    trace.Segment
	HasSegment bool // Segment is the newest; else there is none

	past   []trace.Step // the steps before a moment that is no longer in memory
	pastAt int64

	Loss float64 // of the last step; NaN where the device does no arithmetic

	nvml            gauge
	driver          [len(driverGauges)]gauge
	host            [len(hostGauges)]gauge
	ready, capacity gauge
	pinned          gauge
	bucket          int64 // ns of one history bucket
	hist            [histLen]point
	Drops           int64
}

// driverGauges are the driver's gauges besides its utilisation: the GPM metrics (Hopper and later)
// in percent, then power, temperature, memory, clocks and PCIe traffic.
var driverGauges = [...]struct {
	gauge, name string
	write       func(b []byte, v float64) []byte
}{
	{"gpm_sm", "SM ", percentage}, {"gpm_tensor", "tensor ", percentage}, {"gpm_dram", "DRAM ", percentage},
	{"nvml_power", "", whole("W", 1)}, {"nvml_temperature", "", whole("C", 1)},
	{"nvml_memory_used", "memory ", func(b []byte, v float64) []byte { return units.Narrow.AppendBytes(b, int64(v)) }},
	{"nvml_sm_clock", "SM ", whole("MHz", 1e-6)}, {"nvml_memory_clock", "DRAM ", whole("MHz", 1e-6)},
	{"nvml_pcie_rx", "PCIe in ", units.Narrow.AppendTransfer}, {"nvml_pcie_tx", "out ", units.Narrow.AppendTransfer},
}

func percentage(b []byte, v float64) []byte { return units.Narrow.AppendPercent(b, v/100) }

// whole returns a function that writes a value, multiplied by scale, as whole units.
func whole(unit string, scale float64) func(b []byte, v float64) []byte {
	return func(b []byte, v float64) []byte {
		return append(units.AppendCount(b, int64(v*scale+0.5)), unit...)
	}
}

// hostGauges are the gauges of the host's cores and its disk. The first three are in percent: the
// cores that this process takes, the cores that others take, and the time in which threads of this
// process waited for a core. The last one is bytes read a second.
var hostGauges = [...]struct {
	gauge, name string
	write       func(b []byte, v float64) []byte
	line        int
}{
	{"host_cpu_ours", "ours ", percentage, 0}, {"host_cpu_others", "others ", percentage, 0},
	{"host_runq", "wait for core ", percentage, 1},
	{"host_disk_read", "disk ", units.Narrow.AppendTransfer, 2},
}

// hostNames are the names of the lines, for lines without a gauge.
var hostNames = [hostLines]string{"CPU ", "wait ", "disk "}

const hostLines = 3

// gauge is the newest sample of a named gauge.
type gauge struct {
	v float64
	n int // samples so far
}

// point is one bucket of history; n is 0 where nothing ran.
type point struct {
	util, rate, queue float32
	starved           float32 // as Window.Starved
	n                 float32
}

// Compute makes the picture of s at the moment at.
func (p *Picture) Compute(s *trace.Snapshot, at int64) {
	p.Snap = *s
	p.At = at
	p.truncate()
	s = &p.Snap

	p.Edge = at
	if n := len(s.Recent); n > 0 {
		p.Edge = max(s.Recent[n-1].End, at-500e6)
		if s.Outcome.Ended != 0 { // after its last step a program does not train
			p.Edge = s.Recent[n-1].End
		}
	}
	p.HasSegment = len(s.Segments) > 0
	p.Segment = trace.Segment{}
	if p.HasSegment {
		p.Segment = s.Segments[len(s.Segments)-1]
	}
	p.Loss = math.NaN()
	if n := len(s.Recent); n > 0 {
		p.Loss = float64(s.Recent[n-1].Loss)
	}
	p.history()

	p.nvml = last(s.Gauges[trace.GaugeKernels], at)
	for i := range driverGauges {
		p.driver[i] = last(s.Gauges[driverGauges[i].gauge], at)
	}
	for i := range hostGauges {
		p.host[i] = last(s.Gauges[hostGauges[i].gauge], at)
	}
	p.ready = last(s.Gauges["queue_ready"], at)
	p.capacity = last(s.Gauges["queue_cap"], at)
	p.pinned = last(s.Gauges["pinned_bytes"], at)
	p.Drops = s.Outcome.Dropped()
}

// truncate drops what happened after the moment shown.
func (p *Picture) truncate() {
	s, at := &p.Snap, p.At
	if at >= s.Now {
		return
	}
	s.Now = at
	s.Recent = p.before(at)
	k := sort.Search(len(s.Segments), func(i int) bool { return s.Segments[i].Start > at })
	s.Segments = s.Segments[:k:k]
	k = sort.Search(len(s.Notes), func(i int) bool { return s.Notes[i].T > at })
	s.Notes = s.Notes[:k:k]
	k = sort.Search(len(s.Tallies), func(i int) bool { return s.Tallies[i].Start >= at })
	s.Tallies = s.Tallies[:k:k]
	s.Experiments = experimentsBefore(s.Experiments, s.Segments, at)
	if s.Outcome.Ended > at {
		s.Outcome.Ended = 0
	}
}

// experimentsBefore returns experiments as they were known at a moment, with the segments that there
// were by then.
func experimentsBefore(xs []trace.Experiment, segments []trace.Segment, at int64) []trace.Experiment {
	n := sort.Search(len(xs), func(i int) bool { return xs[i].Start > at })
	if xs = xs[:n:n]; n == 0 || xs[n-1].End <= at && !xs[n-1].Running() {
		return xs
	}
	xs = slices.Clone(xs)
	x := &xs[n-1]
	x.Pairs = x.Pairs[:sort.Search(len(x.Pairs), func(i int) bool { return x.Pairs[i].End > at })]
	x.End, x.Why, x.Kept, x.Last = 0, "", false, math.MaxInt32
	if x.Kind != trace.Tune {
		return xs
	}
	x.Decisions = x.Decisions[:sort.Search(len(x.Decisions), func(i int) bool { return x.Decisions[i].T > at })]
	x.A, x.B, x.Trying = nil, nil, nil
	if i := slices.IndexFunc(segments, func(g trace.Segment) bool { return g.Index == x.First-1 }); i >= 0 {
		x.Trying = advice.Chosen(segments[i].Knobs, segments[len(segments)-1].Knobs)
	}
	return xs
}

// before returns the last steps before the moment at. Steps that are no longer in memory are read
// once for each moment.
func (p *Picture) before(at int64) []trace.Step {
	if r := p.Snap.Recent; len(r) > attribution.WindowMost && at >= r[attribution.WindowMost].End {
		n := sort.Search(len(r), func(i int) bool { return r[i].End > at })
		return r[:n:n]
	}
	if p.past == nil || p.pastAt != at {
		p.past, _ = p.Snap.Before(at, attribution.WindowMost) // steps that cannot be read are not shown
		p.pastAt = at
	}
	return p.past
}

// history fills the buckets up to the edge, the newest last.
func (p *Picture) history() {
	h := &p.Snap.History
	bucket := int64(500e6)
	if p.At < 15e9 {
		bucket = 100e6
	}
	fine := max(1, h.Bucket)
	bucket = max(bucket, fine) / fine * fine
	end := p.Edge / bucket // the first bucket that is not complete
	start := end - histLen
	p.bucket = bucket
	clear(p.hist[:])
	for i := range p.hist {
		b := start + int64(i)
		for k := max(0, b*bucket/fine); k < (b+1)*bucket/fine && k <= int64(len(h.Points)); k++ {
			pt := &h.Open
			if k < int64(len(h.Points)) {
				pt = &h.Points[k]
			}
			p.hist[i].util += pt.Busy / float32(bucket)
			p.hist[i].rate += pt.Samples
			p.hist[i].n += pt.Steps
		}
	}
	p.newest("queue_ready", start, func(i int, v float64) { p.hist[i].queue = float32(v) })
	p.newest(trace.GaugeStarved, start, func(i int, v float64) { p.hist[i].starved = float32(v / 100) })
}

// newest calls set for each bucket of the history with the newest sample of a gauge in or before
// the bucket. The history begins with the bucket start.
func (p *Picture) newest(name string, start int64, set func(i int, v float64)) {
	for i, pts := len(p.hist)-1, p.Snap.Gauges[name]; i >= 0 && len(pts) > 0; i-- {
		t := (start + int64(i) + 1) * p.bucket
		k := sort.Search(len(pts), func(j int) bool { return pts[j].T > t })
		if k == 0 {
			break
		}
		pts = pts[:k]
		set(i, pts[k-1].V)
	}
}

// value returns a knob's value in force.
func (p *Picture) value(name string) string { return knob.ValueOf(p.Segment.Knobs, name) }

// last returns the newest sample at or before t.
func last(pts []trace.Point, t int64) gauge {
	n := sort.Search(len(pts), func(i int) bool { return pts[i].T > t })
	if n == 0 {
		return gauge{}
	}
	return gauge{pts[n-1].V, n}
}

// quantile returns a quantile of sorted values, by the nearest rank.
func quantile(v []int64, q float64) int64 {
	if len(v) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(v)))) - 1
	return v[min(max(i, 0), len(v)-1)]
}
