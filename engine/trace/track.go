package trace

import (
	"math/bits"
	"sync/atomic"
)

// line is the distance in bytes that keeps the words of two cores apart. It is two cache lines,
// because the adjacent-line prefetcher loads them in pairs.
const line = 128

// ring is a single-producer single-consumer queue. When it is full, it refuses the newest item and
// counts it, because overwriting the oldest would race with the consumer.
type ring[T any] struct {
	buf  []T
	mask uint64
	_    [line]byte

	// The producer's line. seen is its last look at tail, so that it reads the consumer's line only
	// when the ring seems full.
	head    atomic.Uint64
	seen    uint64
	dropped atomic.Int64
	_       [line]byte

	tail atomic.Uint64 // the consumer's line
	_    [line]byte
}

// makeRing allocates room for at least n items, rounded up to a power of two.
func makeRing[T any](n int) []T {
	return make([]T, 1<<bits.Len(uint(max(n, 2)-1)))
}

// push reports whether there was room.
func (r *ring[T]) push(v T) bool {
	h := r.head.Load()
	if h-r.seen >= uint64(len(r.buf)) && !r.room(h) {
		return false
	}
	r.buf[h&r.mask] = v
	r.head.Store(h + 1)
	return true
}

// room looks again whether there is room for item h. If there is none, it counts a drop.
func (r *ring[T]) room(h uint64) bool {
	r.seen = r.tail.Load()
	if h-r.seen < uint64(len(r.buf)) {
		return true
	}
	r.dropped.Store(r.dropped.Load() + 1) // one writer: no need for a locked add
	return false
}

// drain appends to dst what was pushed before the call.
func (r *ring[T]) drain(dst []T) []T {
	t, h := r.tail.Load(), r.head.Load()
	if t == h {
		return dst
	}
	i, n := t&r.mask, h-t
	if first := uint64(len(r.buf)) - i; n <= first {
		dst = append(dst, r.buf[i:i+n]...)
	} else {
		dst = append(dst, r.buf[i:]...)
		dst = append(dst, r.buf[:n-first]...)
	}
	r.tail.Store(h)
	return dst
}

// Track is the ring of one lane. Only one goroutine may record on it at a time. Handing it to
// another goroutine needs a happens-before edge.
type Track struct {
	id   TrackID
	ring ring[Span]
}

func newTrack(id TrackID, capacity int) *Track {
	t := &Track{id: id}
	t.ring.buf = makeRing[Span](capacity)
	t.ring.mask = uint64(len(t.ring.buf) - 1)
	return t
}

// Record writes one span and sets its Track. It never blocks and never allocates: when the
// collector has fallen behind, the span is dropped and counted.
func (t *Track) Record(s Span) {
	// This is ring.push in line, so that the span is written once, to its place.
	r := &t.ring
	h := r.head.Load()
	if h-r.seen >= uint64(len(r.buf)) && !r.room(h) {
		return
	}
	b := &r.buf[h&r.mask]
	*b = s
	b.Track = t.id
	r.head.Store(h + 1)
}

// Lost counts spans that were lost before they reached the track, like those that do not fit. Only
// the track's writer calls it.
func (t *Track) Lost(n int64) { t.ring.dropped.Store(t.ring.dropped.Load() + n) }

// Dropped returns how many spans did not fit.
func (t *Track) Dropped() int64 { return t.ring.dropped.Load() }
