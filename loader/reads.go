package loader

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"dev.gpustall/engine/trace"
)

// reads are the reads of a chunk that a worker has in flight, each in a goroutine of its
// own. What they compute is not the worker's thread's, to which all of it is waiting.
type reads struct {
	wg    sync.WaitGroup
	next  atomic.Int32 // sample of the chunk
	bytes atomic.Int64 // read so far
	each  []oneRead    // of each sample
	late  []sleeper    // of each goroutine
}

// oneRead is what became of a sample's read.
type oneRead struct {
	took int64 // ns
	err  error
}

// readMany is read with up to s.reads reads at a time. The chunk is done when all of them
// are, so that the slowest is what it waits for.
func (w *worker) readMany(ctx context.Context, s *slot, c []Sample, row int) (n int, err error) {
	r := &w.reads
	r.next.Store(0)
	r.bytes.Store(0)
	r.each = append(r.each[:0], make([]oneRead, len(c))...)
	readers := min(s.reads, len(c))
	for len(r.late) < readers {
		r.late = append(r.late, sleeper{timer: stoppedTimer()})
	}
	for i := range readers {
		r.wg.Go(func() { w.reader(ctx, s, c, row, &r.late[i]) })
	}
	r.wg.Wait()
	taken := r.each[:min(int(r.next.Load()), len(c))]
	slowest := 0
	var took, waited int64
	for j := range taken {
		took, waited = took+taken[j].took, waited+c[j].FirstByte
		if taken[j].err != nil {
			w.index.Store(int64(c[j].Index))
			return 0, taken[j].err
		}
		if taken[j].took > taken[slowest].took {
			slowest = j
		}
	}
	w.index.Store(int64(c[slowest].Index))
	if took > 0 { // of the time in which they went on at once, the part that they waited
		w.phases.sample = int64(float64(w.clock.Now()-w.phases.last) * float64(min(waited, took)) / float64(took))
	}
	w.phases.lapOf(trace.KindRead, taken[slowest].took)
	return len(taken), nil
}

// reader reads samples of the chunk until none is left or they are enough.
func (w *worker) reader(ctx context.Context, s *slot, c []Sample, row int, late *sleeper) {
	r := &w.reads
	for r.bytes.Load() < chunkBytes {
		j := int(r.next.Add(1)) - 1
		if j >= len(c) {
			return
		}
		w.readOne(ctx, s, &c[j], row+j, &r.each[j], late)
		r.bytes.Add(int64(len(c[j].Raw)))
	}
}

// readOne reads the sample at row of the batch. A panic is its error, and so is a data set that calls
// runtime.Goexit, after which the other goroutines read the rest.
func (w *worker) readOne(ctx context.Context, s *slot, sample *Sample, row int, did *oneRead, late *sleeper) {
	began := w.clock.Now()
	did.err = errAborted
	defer func() {
		if p := recover(); p != nil {
			did.err = &SampleError{
				Op: "read", Dataset: w.in.info.Name, Index: sample.Index, Epoch: s.Epoch, Batch: s.Seq,
				Stack: debug.Stack(), Err: fmt.Errorf("panic: %v", p),
			}
		}
	}()
	w.announce(s, row)
	err := w.in.dataset.Read(ctx, sample)
	if d := s.inject.Read; err == nil && d > 0 {
		err = late.sleep(ctx, w.clock, d)
	}
	did.took, did.err = w.clock.Now()-began, err
}
