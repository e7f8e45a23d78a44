package tui

import (
	"math"
	"slices"
	"sort"

	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// windowSteps is how many steps the gauges and the breakdown look back over, at
// most, and never into an earlier configuration.
const windowSteps = 500

// histLen is the longest history a gauge draws, in buckets.
const histLen = 200

// picture is what one frame shows: a snapshot as of one moment, with the numbers
// that the panels print. It is made once a tick and drawn as it is.
type picture struct {
	snap trace.Snapshot // nothing later than at
	at   int64
	edge int64 // the moment up to which device spans can be known
	seg  trace.Segment
	next bool // there is a segment

	steps    []trace.Step // the window
	sum      stall.Breakdown
	util     float64
	data     float64 // share of data stalls
	p50, p95 int64   // ns a step
	floor    int64   // ns of compute in the median step, which is never over p50
	rate     float64 // samples a second

	broke    int  // index of the first step that diverged, -1
	searched int  // steps looked at for it
	diverged bool // by the moment shown

	loss, top1 float64 // of the last step, and over the window; NaN when the device does no arithmetic

	nvml              gauge
	driver            [len(driverGauges)]gauge
	ready, capacity   gauge
	pinned            gauge
	h2d               float64 // bytes a second of copy time
	bucket            int64   // ns of one history bucket
	hist              [histLen]point
	histEnd           int64 // the bucket after the last
	histFinal         int64 // buckets before it do not change any more
	injected, ceiling bool
	drops             int64

	sorted []int64 // scratch
}

// driverGauges are what the driver tells beside its utilisation, where it does:
// the GPM metrics (Hopper and later) in percent, then power, temperature, memory,
// clocks and PCIe traffic, in the units of one screen.
var driverGauges = [...]struct {
	gauge, name, unit string
	scale             float64
}{
	{"gpm_sm", "SM ", "%", 1}, {"gpm_tensor", "tensor ", "%", 1}, {"gpm_dram", "DRAM ", "%", 1},
	{"nvml_power", "", " W", 1}, {"nvml_temperature", "", " C", 1},
	{"nvml_memory_used", "memory ", " MiB", 1.0 / (1 << 20)},
	{"nvml_sm_clock", "SM ", " MHz", 1e-6}, {"nvml_memory_clock", "DRAM ", " MHz", 1e-6},
	{"nvml_pcie_rx", "PCIe in ", " MB/s", 1e-6}, {"nvml_pcie_tx", "out ", " MB/s", 1e-6},
}

// gauge is the newest sample of a named gauge.
type gauge struct {
	v float64
	n int // samples so far
}

// point is one bucket of history; n is 0 where nothing ran.
type point struct {
	util, rate, step, queue float32
	n                       float32
}

// draw computes the picture of s at the moment at.
func (p *picture) compute(s *trace.Snapshot, at int64) {
	p.snap = *s
	p.at = at
	p.truncate()
	s = &p.snap

	p.edge = at
	if n := len(s.Steps); n > 0 {
		p.edge = max(s.Steps[n-1].End, at-500e6)
	}
	p.divergence()
	p.next = len(s.Segments) > 0
	p.seg = trace.Segment{}
	if p.next {
		p.seg = s.Segments[len(s.Segments)-1]
	}
	p.window()
	p.history()

	p.nvml = last(s.Gauges["nvml_util"], at)
	for i := range driverGauges {
		p.driver[i] = last(s.Gauges[driverGauges[i].gauge], at)
	}
	p.ready = last(s.Gauges["queue_ready"], at)
	p.capacity = last(s.Gauges["queue_cap"], at)
	p.pinned = last(s.Gauges["pinned_bytes"], at)
	p.drops = 0
	for _, d := range s.Outcome.Drops {
		p.drops += d
	}
	p.injected, p.ceiling = false, p.value("ceiling") == "on" || p.value("ceiling") == "true"
	for i := range s.Meta.Specs {
		if sp := &s.Meta.Specs[i]; sp.Group == "inject" && !isZero(p.value(sp.Name)) {
			p.injected = true
		}
	}
	for i := range p.steps {
		p.injected = p.injected || p.steps[i].Flags&trace.FlagInjected != 0
		p.ceiling = p.ceiling || p.steps[i].Flags&trace.FlagCeiling != 0
	}
}

// divergence looks at each step once: a session's steps are only ever added to,
// and those of an earlier moment are the first of them.
func (p *picture) divergence() {
	steps := p.snap.Steps
	if p.searched == 0 {
		p.broke = -1
	}
	for ; p.searched < len(steps); p.searched++ {
		if p.broke < 0 && steps[p.searched].Diverged() {
			p.broke = p.searched
		}
	}
	p.diverged = p.broke >= 0 && p.broke < len(steps)
}

// truncate drops what happened after the moment shown.
func (p *picture) truncate() {
	s, at := &p.snap, p.at
	if at >= s.Now {
		return
	}
	s.Now = at
	n := sort.Search(len(s.Steps), func(i int) bool { return s.Steps[i].End > at })
	s.Steps = s.Steps[:n:n]
	k := sort.Search(len(s.Segments), func(i int) bool { return s.Segments[i].Start > at })
	s.Segments = s.Segments[:k:k]
	k = sort.Search(len(s.Notes), func(i int) bool { return s.Notes[i].T > at })
	s.Notes = s.Notes[:k:k]
	if s.Outcome.Ended > at {
		s.Outcome.Ended = 0
	}
}

// window sums the last steps under the knobs in force.
func (p *picture) window() {
	steps := p.snap.Steps
	from := max(0, len(steps)-windowSteps)
	if n := len(steps); n > 0 { // the newest segment that has steps
		lo, _ := segmentRange(steps, steps[n-1].Segment)
		for i := range p.snap.Segments {
			if g := &p.snap.Segments[i]; g.Index == steps[n-1].Segment && lo+int(g.TransitionSteps) < n {
				lo += int(g.TransitionSteps)
			}
		}
		from = max(from, lo)
	}
	p.steps = steps[from:]
	p.sum = stall.Sum(p.steps)
	p.util, p.data, p.rate = p.sum.Utilisation(), p.sum.DataShare(), p.sum.SamplesPerSecond()
	p.p50, p.p95, p.floor, p.h2d = 0, 0, 0, 0
	p.loss, p.top1 = math.NaN(), math.NaN()
	if len(p.steps) == 0 {
		p.util, p.data, p.rate = math.NaN(), math.NaN(), math.NaN()
		return
	}
	p.sorted = p.sorted[:0]
	var correct, samples int64
	for i := range p.steps {
		st := &p.steps[i]
		p.sorted = append(p.sorted, st.End-st.Start-st.Stall[trace.CausePaused])
		if st.Correct >= 0 {
			correct += int64(st.Correct)
			samples += int64(st.Samples)
		}
	}
	slices.Sort(p.sorted)
	p.p50, p.p95 = quantile(p.sorted, 0.50), quantile(p.sorted, 0.95)
	p.sorted = p.sorted[:0]
	for i := range p.steps {
		p.sorted = append(p.sorted, p.steps[i].Busy)
	}
	slices.Sort(p.sorted)
	p.floor = quantile(p.sorted, 0.50)
	if p.sum.Copy > 0 {
		p.h2d = float64(p.sum.Bytes) / (float64(p.sum.Copy) / 1e9)
	}
	p.loss = float64(p.steps[len(p.steps)-1].Loss)
	if samples > 0 {
		p.top1 = float64(correct) / float64(samples)
	}
}

// history fills the buckets up to the edge, newest last. A step that spans
// several buckets is shared out among them. Buckets that the last step has
// passed are final and are kept from picture to picture.
func (p *picture) history() {
	steps := p.snap.Steps
	bucket := int64(500e6)
	if p.at < 15e9 {
		bucket = 100e6
	}
	end := p.edge / bucket // the first bucket that is not complete
	start := end - histLen
	from := start // the first bucket to compute
	if moved := end - p.histEnd; bucket == p.bucket && moved >= 0 && moved < histLen && p.histFinal > start {
		copy(p.hist[:], p.hist[moved:])
		from = min(p.histFinal, end)
	}
	clear(p.hist[from-start:])
	p.bucket, p.histEnd, p.histFinal = bucket, end, start
	if n := len(steps); n > 0 {
		p.histFinal = min(end, steps[n-1].End/bucket)
	}
	for i := len(steps) - 1; i >= 0; i-- {
		st := &steps[i]
		if st.End <= from*bucket {
			break
		}
		wall := st.End - st.Start
		if wall <= 0 {
			continue
		}
		for b := max(st.Start/bucket, from); b <= (st.End-1)/bucket && b < end; b++ {
			over := min(st.End, (b+1)*bucket) - max(st.Start, b*bucket)
			f := float32(over) / float32(wall)
			h := &p.hist[b-start]
			h.util += f * float32(st.Busy) / float32(bucket)
			h.rate += f * float32(st.Samples)
			h.step += f * float32(wall)
			h.n += f
		}
	}
	for i, pts := len(p.hist)-1, p.snap.Gauges["queue_ready"]; i >= 0 && len(pts) > 0; i-- {
		t := (start + int64(i) + 1) * bucket
		k := sort.Search(len(pts), func(j int) bool { return pts[j].T > t })
		if k == 0 {
			break
		}
		pts = pts[:k]
		p.hist[i].queue = float32(pts[k-1].V)
	}
}

// value is a knob's value in force.
func (p *picture) value(name string) string { return trace.KnobValue(p.seg.Knobs, name) }

// last is the newest sample at or before t.
func last(pts []trace.Point, t int64) gauge {
	n := sort.Search(len(pts), func(i int) bool { return pts[i].T > t })
	if n == 0 {
		return gauge{}
	}
	return gauge{pts[n-1].V, n}
}

// quantile of sorted values, the nearest rank.
func quantile(v []int64, q float64) int64 {
	if len(v) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(v)))) - 1
	return v[min(max(i, 0), len(v)-1)]
}

func isZero(v string) bool {
	switch v {
	case "", "0", "0s", "off", "false", "none", "no":
		return true
	}
	return false
}

func isOn(v string) bool { return v == "true" || v == "on" || v == "1" || v == "yes" }

// segmentRange is the range of indices of a segment's steps.
func segmentRange(steps []trace.Step, seg int32) (lo, hi int) {
	lo = sort.Search(len(steps), func(i int) bool { return steps[i].Segment >= seg })
	hi = sort.Search(len(steps), func(i int) bool { return steps[i].Segment > seg })
	return lo, hi
}
