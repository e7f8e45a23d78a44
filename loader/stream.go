package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Stream is a data set that can only be read forwards, group by group: a compressed archive, a
// pipe, a store that hands out whole objects. The number of samples in each group is known. Its
// methods are safe for concurrent use.
type Stream interface {
	Info() Info
	Grouping() Grouping
	// Open begins to read a group from its first sample.
	Open(ctx context.Context, group int) (Cursor, error)
	// Decode does what Dataset.Decode does.
	Decode(s *Sample) error
	Close() error
}

// Cursor reads the samples of a group one after the other. One goroutine uses it at a time.
type Cursor interface {
	// Next fetches the next sample's stored bytes into s.Raw and sets s.Label. After an error
	// that wraps ErrDamaged, the cursor goes on with the next sample. After any other error
	// the cursor is not used again.
	Next(ctx context.Context, s *Sample) error
	io.Closer
}

// Seeker is a Stream that can begin after some samples of a group without reading them.
type Seeker interface {
	OpenAt(ctx context.Context, group, skip int) (Cursor, error)
}

// ErrDamaged is what a cursor's error wraps if it concerns only one sample.
var ErrDamaged = errors.New("the sample is damaged")

// Streamed makes a Dataset of a Stream, so that the loader's promises hold for it.
//
// The sampler's order keeps near to the order in which the samples lie. The cursor of a group
// belongs to no worker. A worker that needs a later sample moves the cursor to it, and the
// samples that it passes are kept for whoever asks. So a cursor is handed over and never
// restarted, whatever happens to the workers. Each epoch has its own cursors, because the
// next epoch may begin before it ends.
//
// A worker may ask for a sample again, because a load failed or a chunk was too large. The
// sample is then found among the samples taken last. If it is not there, a new cursor looks
// for it from the group's beginning.
type Streamed struct {
	Stream
	grouping Grouping
	info     Info

	mu    sync.Mutex
	flows map[place]*flow
	kept  store // passed by a cursor and not yet asked for
	taken store // asked for; kept in case they are asked for again
	free  [][]byte
	mixed [2]int // samples that the last two epochs mix at a time
	over  delivered
}

// place is a group of an epoch, or a sample of one.
type place struct {
	epoch int32
	index int32
}

// flow is the reading of a group in an epoch.
type flow struct {
	turn   chan struct{} // holds one token while nobody moves the cursor
	cursor Cursor        // nil before the first sample, and after an error
	at     int           // the cursor's place in the group
	waited atomic.Int64  // ns that those who moved the cursor waited for a store to begin to send
}

// FromStream makes a Dataset of a Stream, which it closes.
func FromStream(s Stream) *Streamed {
	d := &Streamed{
		Stream: s, grouping: s.Grouping(), info: s.Info(), flows: map[place]*flow{},
		kept: store{samples: map[place]stored{}}, taken: store{samples: map[place]stored{}},
	}
	d.info.Stream = true
	return d
}

// mixing sets how many samples the epoch that begins mixes at a time. The stream keeps so
// many, or as many as the previous epoch mixes, because that epoch may still go on.
func (d *Streamed) mixing(buffer int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mixed = [2]int{d.mixed[1], buffer}
}

// delivered holds the samples of an epoch that were delivered before the loader was
// started. Nobody will ask for them.
type delivered struct {
	epoch int32
	of    []bool // by index; nil when there are none
}

func (o *delivered) has(at place) bool { return o.of != nil && at.epoch == o.epoch && o.of[at.index] }

// passed sets which samples of an epoch were delivered.
func (d *Streamed) passed(epoch int32, samples []int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = delivered{epoch, make([]bool, d.info.Samples)}
	for _, i := range samples {
		d.over.of[i] = true
	}
}

// Info returns the stream's info.
func (d *Streamed) Info() Info { return d.info }

// Bounds on what is kept, besides the shuffle buffer.
const (
	passedSpare = 1024     // samples that may be kept beyond the shuffle buffer
	takenBytes  = 32 << 20 // of samples taken last
)

// Read fetches sample s.Index of epoch s.Epoch.
func (d *Streamed) Read(ctx context.Context, s *Sample) error {
	if s.Index < 0 || s.Index >= d.info.Samples {
		return fmt.Errorf("stream: read sample %d: %s has samples 0 to %d", s.Index, d.info.Path, d.info.Samples-1)
	}
	group := d.grouping.Group(s.Index)
	start, end := d.grouping.Bounds(group, d.info.Samples)
	want := s.Index - start
	f := d.flow(place{s.Epoch, int32(group)})
	if ok, err := d.take(s); ok {
		return err
	}
	began, waited := time.Now(), f.waited.Load()
	select { // whoever moves the cursor may pass the sample meanwhile
	case <-f.turn:
		// If another goroutine waited for a store meanwhile, so did this one.
		s.FirstByte += min(f.waited.Load()-waited, int64(time.Since(began)))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { f.turn <- struct{}{} }()
	if ok, err := d.take(s); ok {
		return err
	}
	if want < f.at {
		return d.again(ctx, s, group, want)
	}
	return d.advance(ctx, f, s, group, want, end-start)
}

// flow finds the reading of a group in an epoch, or begins one. It forgets those of epochs that
// are over.
func (d *Streamed) flow(at place) *flow {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.flows[at]
	if f == nil {
		f = &flow{turn: make(chan struct{}, 1)}
		f.turn <- struct{}{}
		d.flows[at] = f
		d.forget(at.epoch - 1)
	}
	return f
}

// forget drops everything of epochs before this one. At most two epochs are loaded at a time,
// so nobody reads the others.
func (d *Streamed) forget(epoch int32) {
	for at, f := range d.flows {
		if at.epoch < epoch {
			f.close()
			delete(d.flows, at)
		}
	}
	if d.over.epoch < epoch {
		d.over.of = nil
	}
	d.kept.forget(epoch)
	d.taken.forget(epoch)
}

func (f *flow) close() {
	if f.cursor != nil {
		_ = f.cursor.Close() // it was only read
		f.cursor = nil
	}
}

// take gives s the sample, or its error, if a cursor has passed it or a worker took it a while
// ago.
func (d *Streamed) take(s *Sample) (ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := place{s.Epoch, int32(s.Index)}
	if got, ok := d.kept.remove(at); ok {
		d.spare(s.Raw)
		s.Raw, s.Label = got.raw, got.label
		d.remember(s, got.err)
		return true, got.err
	}
	got, ok := d.taken.samples[at]
	if ok {
		s.Raw, s.Label = append(s.Raw[:0], got.raw...), got.label
	}
	return ok, got.err
}

// remember keeps a copy of a sample that is taken, for a while. Called with mu held.
func (d *Streamed) remember(s *Sample, err error) {
	d.taken.add(place{s.Epoch, int32(s.Index)}, stored{append(d.buffer(), s.Raw...), s.Label, err})
	for d.taken.bytes > takenBytes && len(d.taken.samples) > 1 {
		d.spare(d.taken.drop())
	}
}

// advance moves the cursor to the sample, keeps those that it passes, and takes the sample. The
// caller has the flow's turn.
func (d *Streamed) advance(ctx context.Context, f *flow, s *Sample, group, want, samples int) error {
	whole := false
	defer func() {
		if !whole { // after an error or a panic the cursor's place is unknown
			f.close()
		}
	}()
	if f.cursor == nil {
		c, err := d.open(ctx, group, f.at)
		if err != nil {
			return err
		}
		f.cursor = c
	}
	start, _ := d.grouping.Bounds(group, d.info.Samples)
	for f.at < want {
		d.mu.Lock()
		passed := Sample{Raw: d.buffer(), Index: start + f.at, Epoch: s.Epoch, Ahead: s.Ahead}
		d.mu.Unlock()
		err := f.cursor.Next(ctx, &passed)
		s.FirstByte += passed.FirstByte
		f.waited.Add(passed.FirstByte)
		if err != nil && !errors.Is(err, ErrDamaged) {
			return fmt.Errorf("on the way to it: %w", err)
		}
		d.mu.Lock()
		f.at++
		if d.over.has(place{passed.Epoch, int32(passed.Index)}) {
			d.spare(passed.Raw)
			d.mu.Unlock()
			continue
		}
		d.kept.add(place{passed.Epoch, int32(passed.Index)}, stored{passed.Raw, passed.Label, err})
		for len(d.kept.samples) > max(d.mixed[0], d.mixed[1])+passedSpare {
			d.spare(d.kept.drop())
		}
		d.mu.Unlock()
	}
	before := s.FirstByte
	err := f.cursor.Next(ctx, s)
	f.waited.Add(s.FirstByte - before)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	d.mu.Lock()
	f.at++
	d.remember(s, err)
	d.mu.Unlock()
	whole = f.at < samples
	return err
}

// again fetches, with a cursor of its own, a sample that the group's cursor has passed.
func (d *Streamed) again(ctx context.Context, s *Sample, group, want int) error {
	c, err := d.open(ctx, group, want)
	if err != nil {
		return err
	}
	return errors.Join(c.Next(ctx, s), c.Close())
}

// open begins to read a group after its first skip samples.
func (d *Streamed) open(ctx context.Context, group, skip int) (Cursor, error) {
	if s, ok := d.Stream.(Seeker); ok {
		return s.OpenAt(ctx, group, skip)
	}
	c, err := d.Stream.Open(ctx, group)
	if err != nil {
		return nil, err
	}
	var passed Sample
	for range skip {
		if err := c.Next(ctx, &passed); err != nil && !errors.Is(err, ErrDamaged) {
			return nil, errors.Join(fmt.Errorf("on the way to it: %w", err), c.Close())
		}
	}
	return c, nil
}

// Locate returns the stream's answer if it has one.
func (d *Streamed) Locate(index int) string {
	if l, ok := d.Stream.(Locator); ok {
		return l.Locate(index)
	}
	return ""
}

// Close closes the cursors and the stream.
func (d *Streamed) Close() error {
	d.mu.Lock()
	for at, f := range d.flows {
		f.close()
		delete(d.flows, at)
	}
	d.mu.Unlock()
	return d.Stream.Close()
}

// buffer returns memory for a sample's bytes; spare takes it back. Both are called with mu
// held.
func (d *Streamed) buffer() []byte {
	n := len(d.free)
	if n == 0 {
		return nil
	}
	b := d.free[n-1]
	d.free = d.free[:n-1]
	return b[:0]
}

const maxFree = 64 // buffers at rest

func (d *Streamed) spare(b []byte) {
	if cap(b) > 0 && cap(b) <= chunkBytes && len(d.free) < maxFree {
		d.free = append(d.free, b)
	}
}

// stored is a sample's bytes and class, or the error of reading it.
type stored struct {
	raw   []byte
	label int32
	err   error
}

// store keeps samples and knows which came first.
type store struct {
	samples map[place]stored
	order   []place // as they came; removed samples stay in it until they are at the front
	bytes   int
}

func (s *store) add(at place, v stored) {
	if old, ok := s.samples[at]; ok {
		s.bytes -= len(old.raw)
	} else {
		s.order = append(s.order, at)
	}
	s.samples[at] = v
	s.bytes += len(v.raw)
}

func (s *store) remove(at place) (stored, bool) {
	v, ok := s.samples[at]
	if ok {
		delete(s.samples, at)
		s.bytes -= len(v.raw)
		if len(s.order) > 2*len(s.samples)+passedSpare {
			s.compact()
		}
	}
	return v, ok
}

// compact removes from the order the samples that are no longer stored.
func (s *store) compact() {
	rest := s.order[:0]
	for _, at := range s.order {
		if _, ok := s.samples[at]; ok {
			rest = append(rest, at)
		}
	}
	s.order = rest
}

// drop removes the sample that came first and returns its bytes.
func (s *store) drop() []byte {
	for len(s.order) > 0 {
		at := s.order[0]
		s.order = s.order[1:]
		if v, ok := s.remove(at); ok {
			return v.raw
		}
	}
	return nil
}

// forget removes the samples of epochs before this one.
func (s *store) forget(epoch int32) {
	for at := range s.samples {
		if at.epoch < epoch {
			s.remove(at)
		}
	}
}
