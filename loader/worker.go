package loader

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/trace"
)

// worker builds batches in a goroutine of its own, ahead of Next or while Next waits. It is the only
// writer of its track.
type worker struct {
	l       *Loader
	id      int
	track   *trace.Track // nil without a recorder
	wake    chan struct{}
	timer   *time.Timer
	scratch []Sample // one chunk
	seen    int      // bytes of the largest recent sample, stored and decoded
	labels  []int32
	rng     RNG // of the sample at hand; here so that it does not escape
	sink    uint64
	lane    lane

	// What is being done, for errors.
	op    string
	index atomic.Int64 // of the sample; -1: none
}

func newWorker(l *Loader, id int, track trace.TrackID) *worker {
	w := &worker{l: l, id: id, wake: make(chan struct{}, 1), timer: stoppedTimer()}
	w.index.Store(-1)
	if l.rec != nil {
		w.track = l.rec.Track(track)
	}
	return w
}

// run is the worker's goroutine. It ends when exchange says so.
func (w *worker) run() {
	l := w.l
	defer l.wg.Done()
	var s *slot
	ended := false
	defer func() {
		if p := recover(); p != nil {
			l.fail(w, fmt.Errorf("loader: worker %d panicked: %v\n%s", w.id, p, debug.Stack()))
			return
		}
		// A data set that calls runtime.Goexit takes the goroutine with it; its batch
		// goes back, and a new worker takes over.
		if !ended {
			l.bury(w, s)
		}
	}()
	w.startUp()
	var err error
	for {
		handed := s != nil
		if s = l.exchange(w, s, err); s == nil {
			ended = true
			return
		}
		if handed {
			// The step loop may wait for that batch. Where every processor has a busy
			// goroutine it would get its turn only when one is preempted, 10 ms later.
			runtime.Gosched()
		}
		l.sweep()
		err = w.load(l.ctx, s)
		w.index.Store(-1)
	}
}

// bury replaces a worker whose goroutine ended under it.
func (l *Loader) bury(w *worker, s *slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers[w.id] = nil
	l.running--
	if s != nil {
		l.building--
		l.complete(s, w.failure(s, errAborted, nil))
	}
	l.reconcile()
}

// fail ends the loader's work after a panic that no batch is to blame for (load
// recovers those): Next returns err from now on.
func (l *Loader) fail(w *worker, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers[w.id] = nil
	l.running--
	l.broke(err)
}

// broke ends the loader's work for good. Called with mu held.
func (l *Loader) broke(err error) {
	if l.broken == nil {
		l.broken = err
	}
	l.wakeAll()
	l.wakeNext()
}

// startUp allocates the worker's scratch memory.
func (w *worker) startUp() {
	start := w.l.clock.Now()
	k := w.l.Knobs()
	w.grow(min(k.BatchSize, w.l.info.Samples))
	w.record(trace.KindStart, -1, start, w.l.clock.Now(), 0)
}

// grow makes the scratch large enough for batches of n samples.
func (w *worker) grow(n int) {
	if cap(w.labels) < n {
		w.labels = make([]int32, n)
	}
	w.labels = w.labels[:n]
	info := &w.l.info
	for len(w.scratch) < w.chunk(n) {
		w.scratch = append(w.scratch, Sample{
			Raw:    make([]byte, 0, info.Bytes/int64(info.Samples)),
			Pixels: make([]byte, 0, info.H*info.W*info.C),
		})
	}
}

// Bounds on a worker's scratch, in bytes.
const (
	chunkBytes = 4 << 20  // of samples that go through a phase together, but for one
	keepBytes  = 64 << 20 // of a sample's memory that is kept for the next: 17 Mpixel
)

// chunk is how many samples go through a phase together: a sixteenth of the
// batch, so that a lane shows the phases as they were and a batch costs some 50
// spans whatever its size, but not more than chunkBytes of samples at once, as far
// as can be told before they are read.
func (w *worker) chunk(n int) int {
	return max(1, min((n+15)/16, chunkBytes/max(w.l.info.sample(), w.seen, 1)))
}

// sample is what the data set says of a sample's bytes, stored and decoded: at
// least 1. Of images of various sizes it knows neither.
func (i *Info) sample() int { return int(i.Bytes/int64(i.Samples)) + i.H*i.W*i.C }

// settle learns from the samples of a chunk how large samples are, and gives back
// the memory of the very large ones.
func (w *worker) settle(c []Sample) {
	w.seen -= w.seen / 16 // a large one is remembered for some chunks
	one := max(keepBytes, 2*w.l.info.sample())
	for j := range c {
		s := &c[j]
		w.seen = max(w.seen, len(s.Raw)+len(s.Pixels))
		keep := chunkBytes
		if j == 0 { // the only one of a chunk of large samples
			keep = one
		}
		if cap(s.Raw)+cap(s.Pixels) > keep {
			s.Raw, s.Pixels = nil, nil
		}
	}
}

// park waits until woken; why is what the worker waits for.
func (w *worker) park(why trace.BlockReason) {
	start := w.l.clock.Now()
	<-w.wake
	w.record(trace.KindBlocked, -1, start, w.l.clock.Now(), uint32(why))
}

// load fills the slot with its batch. Whatever goes wrong is an error that names
// the sample.
func (w *worker) load(ctx context.Context, s *slot) (err error) {
	w.lane.begin(w, s.Seq)
	start := w.lane.last
	w.op = "prepare"
	w.index.Store(-1)
	defer func() {
		if p := recover(); p != nil {
			w.scratch = w.scratch[:0] // in an unknown state
			err = w.failure(s, fmt.Errorf("panic: %v", p), debug.Stack())
		}
		s.Load += w.l.clock.Now() - start
	}()
	if err := w.prepare(s); err != nil {
		return err
	}
	if err := w.fill(ctx, s); err != nil {
		return w.failure(s, err, nil)
	}
	return nil
}

// prepare gives the slot memory that fits and the indices of its samples.
func (w *worker) prepare(s *slot) error {
	l := w.l
	if !l.fits(s) {
		kind := trace.KindStart
		if s.pin && l.pins {
			kind = trace.KindPin
		}
		err := l.fit(s)
		w.lane.lap(kind)
		w.lane.end(kind)
		if err != nil {
			return err
		}
	}
	at := NewLayout(l.info, s.N, s.Device)
	s.Host, s.LabelsOff, s.AugOff, s.Pinned = s.mem[:at.Size], at.Labels, at.Aug, s.locked
	s.Flags = 0
	s.Samples = append(s.Samples[:0], s.order...)
	w.grow(s.N)
	return nil
}

// fill takes the samples through the phases, a chunk at a time, and writes them
// straight into the slot.
func (w *worker) fill(ctx context.Context, s *slot) error {
	if d := s.inject.delay(w.id); d > 0 {
		w.op = "delay"
		w.lane.flags = trace.FlagInjected
		err := w.sleep(ctx, d)
		w.lane.lap(trace.KindRead)
		w.lane.end(trace.KindRead)
		s.Flags |= trace.FlagInjected
		if err != nil {
			return err
		}
	}
	for i := 0; i < s.N; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c := w.scratch[:min(w.chunk(s.N), len(w.scratch), s.N-i)]
		for j := range c {
			c[j].Index = int(s.Samples[i+j])
		}
		n, err := w.read(ctx, s, c)
		if err != nil {
			return err
		}
		if n, err = w.decode(c[:n]); err != nil {
			return err
		}
		if err := w.transform(ctx, s, c[:n], i); err != nil {
			return err
		}
		w.settle(c[:n])
		i += n
	}
	w.collate(s)
	return nil
}

// read fetches the samples of a chunk, or as many as make it chunkBytes.
func (w *worker) read(ctx context.Context, s *slot, c []Sample) (n int, err error) {
	w.op = "read"
	w.lane.inject(s, s.inject.Read)
	defer w.lane.end(trace.KindRead)
	for j := range c {
		w.index.Store(int64(c[j].Index))
		if err = w.l.dataset.Read(ctx, &c[j]); err != nil {
			return 0, err
		}
		if d := s.inject.Read; d > 0 {
			if err = w.sleep(ctx, d); err != nil {
				return 0, err
			}
		}
		w.lane.lap(trace.KindRead)
		if n += len(c[j].Raw); n >= chunkBytes {
			return j + 1, nil
		}
	}
	return len(c), nil
}

// decode decodes the samples of a chunk, or as many as make it chunkBytes. The rest
// is read again with the next chunk, which is then smaller.
func (w *worker) decode(c []Sample) (n int, err error) {
	w.op = "decode"
	w.lane.flags = 0
	defer w.lane.end(trace.KindDecode)
	for j := range c {
		w.index.Store(int64(c[j].Index))
		if err := w.l.dataset.Decode(&c[j]); err != nil {
			return 0, err
		}
		w.lane.lap(trace.KindDecode)
		if n += len(c[j].Pixels); n >= chunkBytes {
			return j + 1, nil
		}
	}
	return len(c), nil
}

// transform writes the samples c, which start at row of the batch, into the slot.
func (w *worker) transform(ctx context.Context, s *slot, c []Sample, row int) error {
	w.op = "transform"
	w.lane.inject(s, s.inject.CPU)
	defer w.lane.end(trace.KindTransform)
	size := w.l.info.H * w.l.info.W * w.l.info.C
	if !s.Device {
		size *= 4
	}
	for j := range c {
		sample := &c[j]
		w.index.Store(int64(sample.Index))
		w.labels[row+j] = sample.Label
		w.rng = NewRNG(w.l.seed, int(s.Epoch), sample.Index)
		dst := s.Host[(row+j)*size : (row+j+1)*size]
		if s.Device {
			w.l.transform.Device(sample, &w.rng, dst, &augs(s.Host[s.AugOff:])[row+j])
		} else {
			w.l.transform.Host(sample, &w.rng, floats(dst))
		}
		if d := s.inject.CPU; d > 0 {
			if err := w.spin(ctx, d); err != nil {
				return err
			}
		}
		w.lane.lap(trace.KindTransform)
	}
	return nil
}

// collate writes the labels and clears the gaps between the parts, so that equal
// batches are equal bytes.
func (w *worker) collate(s *slot) {
	w.op = "collate"
	w.index.Store(-1)
	w.lane.flags = 0
	at := NewLayout(w.l.info, s.N, s.Device)
	clear(s.Host[at.N*at.Sample : at.Labels])
	end := at.Labels + 4*at.N
	copy(ints(s.Host[at.Labels:end]), w.labels)
	if s.Device {
		clear(s.Host[end:at.Aug])
		end = at.Aug + 16*at.N
	}
	clear(s.Host[end:])
	w.lane.lap(trace.KindCollate)
	w.lane.end(trace.KindCollate)
}
