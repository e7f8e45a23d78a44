package trace

import (
	"slices"
	"sync"
	"sync/atomic"

	"dev.gpustall/engine/base/knob"
)

// DefaultCapacity is the number of spans a track holds between two drains:
// 512 KiB a track, a million spans a second at the collector's 16 ms.
const DefaultCapacity = 1 << 14

// stepCapacity is the number of steps held between two drains.
const stepCapacity = 1 << 12

// Recorder is where a run writes what happens. Spans go to the Track of their writer. Everything
// else is rare and takes a lock.
//
// The order of writing is a promise to the analysis: when Step is called, the spans of that step
// are recorded, and all phases of its batch. A worker records the last phase before it hands the
// batch over.
type Recorder struct {
	clock    Clock
	capacity int
	tracks   [NumTracks]atomic.Pointer[Track]
	discard  *Track
	steps    ring[Step]
	unheld   atomic.Pointer[Step] // the newest step that there was no room for, of a run whose samples are counted

	mu       sync.Mutex
	segments []Segment
	notes    []Note
	gauges   []GaugePoint
	ops      []OpTime
	baseline *Baseline

	experiments []Experiment
	specs       []knob.Spec
	lines       []Line
	peers       []Peer
	ranks       map[int]*counting
	device      *Device // nil where it has not changed
	taken       *Taken  // likewise
}

// NewRecorder returns a recorder whose tracks each hold capacity spans between two drains, or
// DefaultCapacity where that is not positive. A track allocates memory when it is first asked for.
func NewRecorder(clock Clock, capacity int) *Recorder {
	if capacity <= 0 {
		capacity = DefaultCapacity
	}
	r := &Recorder{clock: clock, capacity: capacity, discard: &Track{}}
	r.steps.buf = makeRing[Step](stepCapacity)
	r.steps.mask = uint64(len(r.steps.buf) - 1)
	return r
}

// Now returns nanoseconds since the session's start.
func (r *Recorder) Now() int64 { return r.clock.Now() }

// Track returns the track of a lane. Ask once and keep it: the first call allocates. An id beyond
// NumTracks gets a track that drops everything.
func (r *Recorder) Track(id TrackID) *Track {
	if int(id) >= NumTracks {
		return r.discard
	}
	if t := r.tracks[id].Load(); t != nil {
		return t
	}
	t := newTrack(id, r.capacity)
	if r.tracks[id].CompareAndSwap(nil, t) {
		return t
	}
	return r.tracks[id].Load()
}

// Step announces a finished step after its spans were recorded. Only the engine's step loop calls
// it. The analysis fills in Start, End, Busy, Wait, Load, Copy and Stall.
func (r *Recorder) Step(s Step) {
	if !r.steps.push(s) && s.Through > 0 {
		newest := s
		r.unheld.Store(&newest)
	}
}

// Segment records the start of a segment. With the Index of an earlier one, it records what became
// known of that since.
func (r *Recorder) Segment(s Segment) {
	s.Knobs = slices.Clone(s.Knobs)
	r.mu.Lock()
	r.segments = append(r.segments, s)
	r.mu.Unlock()
}

// Baseline records which segment the others are compared with.
func (r *Recorder) Baseline(segment int32) {
	b := Baseline{segment, r.Now()}
	r.mu.Lock()
	r.baseline = &b
	r.mu.Unlock()
}

// Experiment records the start of an experiment. With the Index of an earlier one, it records what
// became known of that since.
func (r *Recorder) Experiment(x Experiment) {
	x.A, x.B, x.Pairs = slices.Clone(x.A), slices.Clone(x.B), slices.Clone(x.Pairs)
	r.mu.Lock()
	r.experiments = append(r.experiments, x)
	r.mu.Unlock()
}

// Specs records all knobs as they are now, because they differ from the session's description. The
// recorder owns the slice from then on.
func (r *Recorder) Specs(specs []knob.Spec) {
	r.mu.Lock()
	r.specs = specs
	r.mu.Unlock()
}

// Device records that the session has another device from now on.
func (r *Recorder) Device(d Device) {
	r.mu.Lock()
	r.device = &d
	r.mu.Unlock()
}

// Taken records what the loop takes its batches from, where that has turned out to be something else.
func (r *Recorder) Taken(of Taken) {
	r.mu.Lock()
	r.taken = &of
	r.mu.Unlock()
}

// Note adds a line to the session's log. Type Note lists the levels.
func (r *Recorder) Note(level, text string) {
	n := Note{r.Now(), level, text}
	r.mu.Lock()
	r.notes = append(r.notes, n)
	r.mu.Unlock()
}

// Gauge records one sample of a slow quantity. There should be at most about ten a second.
func (r *Recorder) Gauge(name string, v float64) {
	g := GaugePoint{name, Point{r.Now(), v}}
	r.mu.Lock()
	r.gauges = append(r.gauges, g)
	r.mu.Unlock()
}

// Ops records new and changed rows of the table of device time by launch.
func (r *Recorder) Ops(rows []OpTime) {
	r.mu.Lock()
	r.ops = mergeOps(r.ops, rows)
	r.mu.Unlock()
}

// Drops returns the spans dropped so far, by track. A dropped step counts on
// TrackStep; its time falls into the next step's window.
func (r *Recorder) Drops() [NumTracks]int64 {
	var d [NumTracks]int64
	for i := range r.tracks {
		if t := r.tracks[i].Load(); t != nil {
			d[i] = t.Dropped()
		}
	}
	d[TrackStep] += r.steps.dropped.Load()
	return d
}

// drain moves everything recorded so far into b. Steps leave first: what was recorded before a step
// was announced is then certain to be among the spans, segments and notes that follow.
func (r *Recorder) drain(b *Drained) {
	b.Now = r.Now()
	b.Steps = r.steps.drain(b.Steps)
	for i := range r.tracks {
		if t := r.tracks[i].Load(); t != nil {
			b.Spans = t.ring.drain(b.Spans)
		}
	}
	b.Drops = r.Drops()
	r.mu.Lock()
	defer r.mu.Unlock()
	b.Segments, r.segments = append(b.Segments, r.segments...), r.segments[:0]
	b.Notes, r.notes = append(b.Notes, r.notes...), r.notes[:0]
	b.Gauges, r.gauges = append(b.Gauges, r.gauges...), r.gauges[:0]
	b.Ops, r.ops = mergeOps(b.Ops, r.ops), r.ops[:0]
	b.Experiments, r.experiments = mergeExperiments(b.Experiments, r.experiments), r.experiments[:0]
	if r.specs != nil {
		b.Specs, r.specs = r.specs, nil
	}
	if r.lines != nil {
		b.Lines, r.lines = r.lines, nil
	}
	if r.peers != nil {
		b.Peers, r.peers = r.peers, nil
	}
	if r.device != nil {
		b.Device, r.device = r.device, nil
	}
	if r.taken != nil {
		b.Taken, r.taken = r.taken, nil
	}
	if r.baseline != nil {
		b.Baseline, r.baseline = r.baseline, nil
	}
}
