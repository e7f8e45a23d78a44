package trace

import (
	"maps"
	"slices"
	"sync"
	"time"
	"unsafe"

	"dev.gpustall/engine/base/knob"
)

// Session is one run: live, or read back from its file. One writer (the collector) and any number
// of readers may use it at once.
//
// Its memory is bounded, however long the run is. It keeps the newest spans and those around the
// start of each segment, the newest steps and a digest of all. Of gauges with many points it drops
// every other old one.
type Session struct {
	mu       sync.RWMutex
	now      int64
	meta     Meta
	outcome  Outcome
	baseline Baseline
	segments []Segment          // replaced as a whole when a segment is updated
	recent   []Step             // the newest; appended to, or replaced as a whole
	older    StepReader         // of the steps before them; nil where they are not kept
	digest   Digest             // of all steps
	notes    []Note             // appended to, or replaced as a whole
	noted    int                // all notes so far, with those that were forgotten
	gauges   map[string][]Point // replaced when a point arrives; its slices are only appended to
	ops      []OpTime           // replaced
	asked    []Experiment       // replaced
	damage   []string           // of the file it was read from
	files    map[int32]string   // where samples lie, by index; replaced when one is added
	lines    []Line
	peers    []Peer
	locate   func(sample int32) string
	spans    spanLog
}

// MaxSpans is how many of the newest spans a session keeps in memory, 64 MiB. Those around the
// start of each segment come on top.
const MaxSpans = 2 << 20

// SessionBytes returns the memory of the session of a long run with so many workers. It counts the
// spans, the rings that they are recorded to, and 32 MiB for the rest: steps, digest, gauges, and
// what waits for the file.
func SessionBytes(workers int) int64 {
	const spans = MaxSpans + maxPinned*chunkLen
	rings := (int(TrackOps) + 1 + workers) * DefaultCapacity
	return int64(spans+rings)*int64(unsafe.Sizeof(Span{})) + 32<<20
}

// Snapshot is what a reader sees of a session at one moment. Its slices and maps are shared and
// must not be written to, except Spans, which is the reader's own.
type Snapshot struct {
	Now      int64 // ns; how far the session is known
	Meta     Meta
	Outcome  Outcome
	Segments []Segment
	Baseline Baseline
	Digest          // of all steps
	Recent   []Step // the newest, at least MaxRecent of them when there are so many; for others see Each
	Spans    []Span // those that overlap the window asked for, sorted by Start
	Notes    []Note
	Noted    int // all notes so far, with those that were forgotten
	Gauges   map[string][]Point
	Ops      []OpTime

	Experiments []Experiment // in order of Index

	Damage []string         // what is wrong with the file it was read from, a sentence each; the notes have them too
	Files  map[int32]string // where the worst samples lie, by index; without those that are not known
	Lines  []Line           // of the user's code, of a PyTorch training
	Peers  []Peer           // other ranks of it

	Older StepReader // of the steps before Recent; nil where they are not kept
}

// Segment returns the segment of an Index; nil where there is none.
func (s *Snapshot) Segment(index int32) *Segment {
	for i := range s.Segments {
		if s.Segments[i].Index == index {
			return &s.Segments[i]
		}
	}
	return nil
}

// Left reports whether a PyTorch loop took batches from a DataLoader before, and takes none from it in g.
func (s *Snapshot) Left(g *Segment) bool {
	const workers = "num_workers"
	return s.Meta.Watched() && s.Meta.Imported == "" && len(s.Segments) > 0 &&
		knob.ValueOf(g.Knobs, workers) == "" && knob.ValueOf(s.Segments[0].Knobs, workers) != ""
}

// Alone reports whether nothing tells what the loop waits for in g: it takes its batches from no DataLoader.
func (s *Snapshot) Alone(g *Segment) bool { return s.Meta.Alone() || s.Left(g) }

// Epoch returns the samples of an epoch in g; 0 where that is not known.
func (s *Snapshot) Epoch(g *Segment) int64 {
	if s.Left(g) {
		return 0
	}
	return s.EpochSamples()
}

// EpochSamples returns the samples of an epoch; 0 where that is not known. Of a PyTorch loop, the last epoch that was run to its
// end tells it, because a data set may have another length than it says. The first one may have begun before it was watched. A loop
// that has left two epochs or more, and run none to its end, has no known length.
func (s *Snapshot) EpochSamples() int64 {
	if !s.Meta.Watched() || s.Meta.Imported != "" {
		return s.Meta.Samples
	}
	for i, e := range slices.Backward(s.Epochs) {
		if n := e.Totals.Samples; e.Complete && n > 0 && (i > 0 || s.Meta.Samples > 0 && n >= s.Meta.Samples) {
			return n
		}
	}
	if len(s.Epochs) > 2 {
		return 0
	}
	return s.Meta.Samples
}

// NewSession returns an empty session that keeps MaxSpans spans.
func NewSession(m Meta) *Session {
	return &Session{meta: m, outcome: Outcome{Status: "running"}, spans: spanLog{limit: MaxSpans}}
}

// Meta returns the description of the run.
func (s *Session) Meta() Meta {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.meta
}

// Now returns how far the session is known, in ns since its start.
func (s *Session) Now() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.now
}

// Snapshot returns the session with the spans that overlap [from, to]. When to
// <= 0 both times are relative to Now: Snapshot(-1e9, 0) is the last second and
// Snapshot(0, math.MaxInt64) is everything still in memory. It copies the spans
// of the window and nothing else.
func (s *Session) Snapshot(from, to int64) *Snapshot {
	s.mu.Lock()
	if to <= 0 {
		from, to = s.now+from, s.now+to
	}
	snap := &Snapshot{
		Now: s.now, Meta: s.meta, Outcome: s.outcome,
		Segments: clip(s.segments), Baseline: s.baseline, Notes: clip(s.notes), Noted: s.noted,
		Gauges: s.gauges, Ops: clip(s.ops), Damage: clip(s.damage),
		Experiments: clip(s.asked), Digest: s.digest.view(), Recent: clip(s.recent), Older: s.older,
	}
	snap.Files, snap.Lines, snap.Peers = s.worstFiles(), s.lines, s.peers
	chunks, open := s.spans.window(from, to)
	s.mu.Unlock()
	snap.Spans = gather(chunks, open, from, to)
	return snap
}

// Locate gives a live session a function that finds where a sample lies. The session asks once
// about each sample that a reader may see. The function must not use the session.
func (s *Session) Locate(where func(sample int32) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locate = where
}

// worstFiles returns where the worst samples lie. The caller holds mu.
func (s *Session) worstFiles() map[int32]string {
	if s.locate == nil || s.digest.Worst == nil {
		return s.files
	}
	added := false
	for sample := range s.digest.Worst.EachSample {
		if _, known := s.files[sample]; known {
			continue
		}
		if !added { // a new map, because readers hold the old one; samples that are no longer among the worst are left out
			old := s.files
			s.files, added = map[int32]string{}, true
			for kept := range s.digest.Worst.EachSample {
				if file, known := old[kept]; known {
					s.files[kept] = file
				}
			}
		}
		s.files[sample] = s.locate(sample)
	}
	return s.files
}

// clip returns v without spare capacity, so that an append to it copies.
func clip[T any](v []T) []T { return v[:len(v):len(v)] }

// Add takes over one drain and sorts its spans in place. Only one goroutine may call it. The caller
// may reuse the slices of b afterwards.
func (s *Session) Add(b *Drained) {
	SortSpans(b.Spans)
	// Readers hold prefixes of these slices, and only this goroutine extends them. Growing them
	// needs no lock; publishing the new lengths does.
	recent, begins := s.recent, Begins(b.Steps)
	if begins >= 0 {
		recent, b.Steps = nil, b.Steps[begins:]
	}
	if len(recent)+len(b.Steps) > 2*MaxRecent {
		kept := recent[max(0, len(recent)-MaxRecent):]
		recent = append(make([]Step, 0, 2*MaxRecent), kept...) // with room for as many more
	}
	recent = append(recent, b.Steps...)
	segments := mergeSegments(s.segments, b.Segments)
	more := b.Notes
	if lacksSegments(segments) && !lacksSegments(s.segments) {
		more = append(slices.Clone(more), forgotten(b.Now, "segments"))
	}
	notes := addNotes(s.notes, more)
	asked := mergeExperiments(s.asked, b.Experiments)
	ops := s.ops
	if len(b.Ops) > 0 || len(b.Segments) > 0 && lacksSegments(segments) {
		ops = forgetOps(mergeOps(slices.Clone(ops), b.Ops), segments)
	}
	gauges := s.gauges
	if len(b.Gauges) > 0 {
		gauges = make(map[string][]Point, len(s.gauges)+1)
		maps.Copy(gauges, s.gauges)
		for _, g := range b.Gauges {
			gauges[g.Name] = append(thin(gauges[g.Name]), g.Point)
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Lines != nil {
		s.lines = b.Lines
	}
	if b.Peers != nil {
		s.peers = b.Peers
	}
	s.now = max(s.now, b.Now)
	s.noted += len(more)
	s.recent, s.notes, s.segments, s.gauges, s.ops, s.asked = recent, notes, segments, gauges, ops, asked
	for i := range b.Steps {
		s.digest.Add(&b.Steps[i])
	}
	b.Redescribe(&s.meta)
	if b.Baseline != nil {
		s.baseline = *b.Baseline
	}
	s.outcome.Drops = b.Drops
	s.spans.add(b.Spans, segments)
}

// SetBaseline chooses segment A of a session that was read from a file. Readers in this process see
// the choice; the file does not keep it. The baseline of a live session is recorded instead.
func (s *Session) SetBaseline(segment int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.baseline = Baseline{segment, s.now}
}

// lost publishes what the session's file lacks so far.
func (s *Session) lost(u Unsaved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome.Unsaved = u
}

// finish publishes how the run ended, with the session's own counts of drops.
func (s *Session) finish(o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Drops = s.outcome.Drops
	s.outcome = o
	s.files, s.locate = s.worstFiles(), nil // the data set that knows may be closed now
	s.now = max(s.now, o.Ended)
}

// mergeSegments returns have with the updates applied; a new slice where there are any. The start
// of a segment closes one that was left open.
func mergeSegments(have, updates []Segment) []Segment {
	if len(updates) == 0 {
		return have
	}
	out := slices.Clone(have)
	for _, u := range updates {
		i, found := slices.BinarySearchFunc(out, u.Index, func(s Segment, index int32) int { return int(s.Index) - int(index) })
		if found {
			if u.End == 0 {
				u.End = out[i].End
			}
			out[i] = u
		} else {
			out = slices.Insert(out, i, u)
		}
		if i > 0 && out[i-1].End == 0 {
			out[i-1].End = out[i].Start
		}
	}
	return forget(out)
}

// maxPoints is how many points of a gauge a session keeps.
const maxPoints = 1 << 14

// thin returns points with room for one more. When there are many, it drops every other one, but
// none of the newest quarter.
func thin(points []Point) []Point {
	if len(points) < maxPoints {
		return points
	}
	out := make([]Point, 0, maxPoints)
	for i := 0; i < maxPoints*3/4; i += 2 {
		out = append(out, points[i])
	}
	return append(out, points[maxPoints*3/4:]...)
}

// Restore makes a session of a snapshot, for a run that was not recorded by this program. It needs
// no digest where Recent holds all steps. It owns the snapshot's slices from then on and sorts its
// spans.
func Restore(snap *Snapshot) *Session {
	s := NewSession(snap.Meta)
	s.now, s.outcome, s.damage = snap.Now, snap.Outcome, snap.Damage
	s.segments, s.gauges, s.ops, s.asked = snap.Segments, snap.Gauges, snap.Ops, snap.Experiments
	s.files, s.lines, s.peers = snap.Files, snap.Lines, snap.Peers
	more := snap.Notes
	if lacksSegments(snap.Segments) {
		at := snap.Now
		for i := range more {
			at = max(at, more[i].T)
		}
		more = append(slices.Clone(more), forgotten(at, "segments"))
	}
	s.notes, s.noted = addNotes(nil, more), len(more)
	s.baseline = snap.Baseline
	s.recent, s.older, s.digest = snap.Recent, snap.Older, snap.Digest
	if s.digest.Total.Steps == 0 {
		s.digest = *Digested(snap.Recent)
	}
	SortSpans(snap.Spans)
	s.spans.add(snap.Spans, snap.Segments)
	return s
}

// Silence returns how long no step has ended, where that is far more than usual; else 0.
func (s *Snapshot) Silence() time.Duration {
	const least, times = 3 * time.Second, 3
	usual := time.Duration(s.Total.Active() / max(1, s.Total.Steps))
	if ns := time.Duration(s.Now - s.Last.End); ns > max(least, times*usual) {
		return ns
	}
	return 0
}
