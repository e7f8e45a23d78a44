package loader

import (
	"fmt"
	"runtime/debug"

	"dev.gpustall/engine/trace"
)

// inline builds batches with num_workers=0, while Next waits for them. It has a goroutine of
// its own. So Next can end, by its context or by the timeout, while a read hangs. Loader.mu
// guards its fields.
type inline struct {
	*worker
	jobs    chan *slot
	running bool // the goroutine
	busy    bool // with a batch
}

func newInline(l *Loader) inline {
	return inline{worker: newWorker(l, 0, trace.TrackInline), jobs: make(chan *slot, 1)}
}

// loadInline starts building s. Called with mu held, when inline is not busy.
func (l *Loader) loadInline(s *slot) {
	in := &l.pool.inline
	if !in.running {
		in.running = true
		l.pool.wg.Add(1)
		go in.serve(in.jobs)
	}
	in.busy = true
	l.pool.build(in.worker, s)
	in.jobs <- s
}

// serve builds the slots of jobs until the loader is closed.
func (w *worker) serve(jobs <-chan *slot) {
	l := w.l
	defer l.pool.wg.Done()
	var s *slot
	defer func() {
		p := recover()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.pool.inline.running = false
		switch {
		case p != nil:
			l.stop(fmt.Errorf("loader: loading inline panicked: %v\n%s", p, debug.Stack()))
		case s != nil: // the data set called runtime.Goexit
			l.served(s, w.failure(s, errAborted, nil))
		}
	}()
	for {
		select {
		case s = <-jobs:
		case <-l.ctx.Done():
			return
		}
		l.sweep()
		err := w.load(l.ctx, s)
		w.index.Store(-1)
		l.mu.Lock()
		l.served(s, err)
		l.mu.Unlock()
		s = nil
	}
}

// served hands over a batch that was built inline. Called with mu held.
func (l *Loader) served(s *slot, err error) {
	l.pool.inline.busy = false
	l.complete(s, err)
	l.consumer.wake() // even if it is not this batch's turn, because Next then asks for another one
}
