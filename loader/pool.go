package loader

import (
	"sync"
	"time"
)

// pool holds the workers' goroutines, including the inline one: which ones run, which are
// parked, and how many batches they are building. Loader.mu guards it.
type pool struct {
	workers  [maxWorkers]*worker
	running  int
	building int       // batches that workers are loading
	parked   []*worker // longest first
	inline   inline

	wg    sync.WaitGroup
	sched scheduler // Go's scheduler, as the workers see it
}

// start starts w as the worker of its id.
func (p *pool) start(w *worker) {
	p.workers[w.id] = w
	p.running++
	p.wg.Add(1)
	go w.run()
}

// remove takes out a worker whose goroutine ends.
func (p *pool) remove(w *worker) {
	p.workers[w.id] = nil
	p.running--
}

// build counts a batch that w begins to build.
func (p *pool) build(w *worker, s *slot) {
	s.by = w
	p.building++
}

// park adds w to the workers that wait to be woken.
func (p *pool) park(w *worker) { p.parked = append(p.parked, w) }

// wakeOne wakes the worker that was parked longest. There must be one.
func (p *pool) wakeOne() {
	w := p.parked[0]
	p.parked = append(p.parked[:0], p.parked[1:]...)
	w.wake <- struct{}{}
}

// wakeAll wakes every parked worker, to look again at the knobs and the epoch.
func (p *pool) wakeAll() {
	for _, w := range p.parked {
		w.wake <- struct{}{}
	}
	p.parked = p.parked[:0]
}

// ended waits for the workers' goroutines and reports whether they ended in time. It is
// called without Loader.mu.
func (p *pool) ended(limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		p.wg.Wait() // waits for as long as the hung worker takes
		close(done)
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}
