package loader

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// worker builds batches in a goroutine of its own, ahead of Next or while Next waits.
// It is the only writer of its track.
type worker struct {
	l      *Loader // for the batches to build
	in     *input
	memory *slotMemory
	clock  trace.Clock
	id     int
	track  *trace.Track // nil without a recorder
	lane   trace.TrackID
	wake   chan struct{}
	sleeper
	spinner
	scratch []Sample // one chunk
	reads   reads
	seen    int // bytes of the largest recent sample, stored and decoded
	labels  []int32
	rng     RNG // of the sample at hand; a field, so that it is not allocated
	phases  phaseTimer
	split   splitter

	// What is being done, for errors.
	op    string
	index atomic.Int64 // of the sample; -1: none
}

func newWorker(l *Loader, id int, track trace.TrackID) *worker {
	w := &worker{
		l: l, in: &l.input, memory: &l.memory, clock: l.clock, id: id, lane: track, wake: make(chan struct{}, 1),
		sleeper: sleeper{timer: stoppedTimer()}, spinner: spinner{speed: 0.25},
	}
	w.index.Store(-1)
	w.split = newSplitter(nil, l.clock, &l.pool.sched)
	if l.rec != nil {
		w.track = l.rec.Track(track)
		w.split.meter, _ = host.NewMeter()
	}
	return w
}

// run is the worker's goroutine. It ends when exchange says so.
func (w *worker) run() {
	l := w.l
	defer l.pool.wg.Done()
	var s *slot
	ended := false
	defer func() {
		if p := recover(); p != nil {
			l.fail(w, fmt.Errorf("loader: worker %d panicked: %v\n%s", w.id, p, debug.Stack()))
			return
		}
		// If the data set calls runtime.Goexit, the goroutine ends. Its batch is completed with
		// an error, and a new worker takes over.
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
			// The step loop may wait for that batch. If every processor has a busy goroutine,
			// the step loop would run only after one is preempted, 10 ms later.
			runtime.Gosched()
		}
		l.sweep()
		err = w.load(l.ctx, s)
		w.index.Store(-1)
	}
}

// startUp allocates the worker's scratch memory.
func (w *worker) startUp() {
	start := w.clock.Now()
	k := w.l.Knobs()
	w.grow(min(k.BatchSize, w.in.info.Samples), k.ReadsInFlight)
	w.record(trace.KindStart, -1, start, w.clock.Now(), 0)
}

// grow makes the scratch large enough for batches of n samples, of which reads are read at a
// time.
func (w *worker) grow(n, reads int) {
	if cap(w.labels) < n {
		w.labels = make([]int32, n)
	}
	w.labels = w.labels[:n]
	info := &w.in.info
	for len(w.scratch) < w.chunk(n, reads) {
		w.scratch = append(w.scratch, Sample{
			Raw:    make([]byte, 0, info.Bytes/int64(info.Samples)),
			Pixels: make([]byte, 0, info.Values()),
		})
	}
}

// Bounds on a worker's scratch, in bytes.
const (
	chunkBytes = 4 << 20  // of samples that go through a phase together, unless one alone is larger
	keepBytes  = 64 << 20 // of a sample's memory that is kept for the next: 17 Mpixel
)

// chunk returns how many samples go through a phase together. It is a sixteenth of the batch,
// which shows the phases in their true order at about 50 spans a batch. A chunk has at most
// chunkBytes, estimated from earlier samples. If several samples are read at a time, a chunk
// is at least two rounds of reads, because it ends with its slowest read.
func (w *worker) chunk(n, reads int) int { return chunk(n, reads, max(w.in.info.sample(), w.seen)) }

// chunk does what worker.chunk does, for samples of so many bytes.
func chunk(n, reads, sample int) int {
	share := (n + 15) / 16
	if reads > 1 {
		share = min(n, max(share, 2*reads))
	}
	return max(1, min(share, chunkBytes/max(sample, 1)))
}

// sample returns a sample's average size in bytes, stored plus decoded, if the data set knows
// it. An image folder knows neither before it reads an image.
func (i *Info) sample() int { return int(i.Bytes/int64(i.Samples)) + i.Values() }

// settle notes the size of a chunk's largest sample, which decides the size of the next chunks.
// It frees the buffers of very large samples.
func (w *worker) settle(c []Sample) {
	w.seen -= w.seen / 16 // a large one is remembered for some chunks
	one := max(keepBytes, 2*w.in.info.sample())
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

// park waits until the worker is woken. why is what the worker waits for.
func (w *worker) park(why trace.BlockReason) {
	start := w.clock.Now()
	<-w.wake
	w.record(trace.KindBlocked, -1, start, w.clock.Now(), uint32(why))
}
