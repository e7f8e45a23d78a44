package loader

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"dev.gpustall/engine/trace"
)

// reads holds a worker's reads in flight for one chunk, each in a goroutine of its own.
// The worker's thread waits for them, so their CPU time is not that thread's.
type reads struct {
	wg    sync.WaitGroup
	next  atomic.Int32 // sample of the chunk
	bytes atomic.Int64 // read so far
	each  []oneRead    // of each sample
	late  []sleeper    // of each goroutine
}

// oneRead is the result of a sample's read.
type oneRead struct {
	took int64 // ns
	err  error
}

// readMany does what read does, with up to s.reads reads at a time. The chunk is done when its
// slowest read is.
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
	if took > 0 { // scales the waits to the time that the reads took together
		w.phases.sample = int64(float64(w.clock.Now()-w.phases.last) * float64(min(waited, took)) / float64(took))
	}
	w.phases.lapOf(trace.KindRead, taken[slowest].took)
	return len(taken), nil
}

// reader reads samples of the chunk until none is left, or until they exceed chunkBytes.
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

// readOne reads the sample at row of the batch. A panic becomes the read's error. So does
// runtime.Goexit in the data set; the other goroutines then read the rest.
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
