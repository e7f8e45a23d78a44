package cpu

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Pool runs the parallel parts of kernels on a fixed number of threads: the
// caller and threads-1 goroutines that it owns. Parallel parts take turns, so
// several goroutines may run plans of one pool.
type Pool struct {
	threads int
	variant variant
	dots    dots

	mu      sync.Mutex // held during a parallel part; guards what follows
	next    atomic.Int64
	items   int64
	work    func(worker, item int)
	fault   atomic.Pointer[fault]
	watch   Watcher // nil while nobody watches
	helpers []*helper
	closed  bool
	ended   sync.WaitGroup
}

// Watcher is told what the pool's workers do. Worker 0 is the goroutine that runs a plan. For worker
// 0 only Posted is called.
type Watcher interface {
	Posted()           // worker 0 asks the others to help
	Begin(worker int)  // a worker begins; called on its thread
	End(worker int)    // it has nothing left to do
	Missed(worker int) // it had not woken when all was done
}

// Watch sets the watcher, nil for none. No plan may be running.
func (p *Pool) Watch(w Watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = w
}

// helper is one goroutine. It joins a parallel part if it wakes before the part's last item is
// taken. So nobody waits for a helper that the scheduler holds back.
type helper struct{ state state }

// What a helper does.
const (
	idle    = iota // it looks for a part, or is about to sleep
	asleep         // it sleeps and has to be woken
	posted         // there is a part to join
	running        // it works on a part
	awaited        // it works on a part, and the caller sleeps until it is done
	closed         // it must end
)

// patience is how often a thread looks for work before it sleeps: about 40 us. The parts of a
// training step follow one another faster than a thread wakes.
const patience = 50_000

type fault struct {
	value any
	stack []byte
}

// NewPool starts a pool. threads of 0 or less means one for each cpu.
func NewPool(threads int) *Pool {
	if threads <= 0 {
		threads = runtime.NumCPU()
	}
	p := &Pool{threads: threads, variant: best(), dots: bestDots()}
	for w := 1; w < threads; w++ {
		h := new(helper)
		p.helpers = append(p.helpers, h)
		p.ended.Add(1)
		go p.help(h, w)
	}
	return p
}

// Threads returns how many threads share the work.
func (p *Pool) Threads() int { return p.threads }

// Variant names the instructions that the pool's kernels use: "avx512", "avx2", "generic"
// (C for any processor) or "go" (built without cgo), with those for bf16 behind a plus.
func (p *Pool) Variant() string {
	if p.dots == noDots {
		return p.variant.String()
	}
	return p.variant.String() + "+" + p.dots.String()
}

// Dots names the instructions that multiply bfloat16s, "amx" or "avx512_bf16", or is empty
// where there are none.
func (p *Pool) Dots() string { return p.dots.String() }

// Close stops the pool's goroutines, after the parallel part in progress.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	for _, h := range p.helpers {
		h.state.Store(closed)
		h.state.wake()
	}
	p.ended.Wait()
}

func (p *Pool) help(h *helper, worker int) {
	defer p.ended.Done()
	for h.sleep() {
		if !h.state.CompareAndSwap(posted, running) {
			continue
		}
		if w := p.watch; w != nil {
			w.Begin(worker)
			p.drain(worker)
			w.End(worker)
		} else {
			p.drain(worker)
		}
		if h.state.Swap(idle) == awaited {
			h.state.wake()
		}
	}
}

// sleep returns when there may be a part to join, or false when the pool is closed.
func (h *helper) sleep() bool {
	for range patience {
		if h.state.Load() != idle {
			break
		}
	}
	for h.state.CompareAndSwap(idle, asleep) || h.state.Load() == asleep {
		h.state.sleepWhile(asleep)
	}
	return h.state.Load() != closed
}

// post offers the part to a helper.
func (h *helper) post() {
	if h.state.Swap(posted) == asleep {
		h.state.wake()
	}
}

// await returns when the helper is done with the part, or true at once if it had not begun.
func (h *helper) await() (missed bool) {
	if h.state.CompareAndSwap(posted, idle) {
		return true
	}
	for range patience {
		if h.state.Load() != running {
			return false
		}
	}
	for h.state.CompareAndSwap(running, awaited) || h.state.Load() == awaited {
		h.state.sleepWhile(awaited)
	}
	return false
}

// drain takes items until none is left. It keeps a panic for the caller.
func (p *Pool) drain(worker int) {
	defer func() {
		if r := recover(); r != nil {
			p.fault.CompareAndSwap(nil, &fault{r, debug.Stack()})
			p.next.Store(p.items)
		}
	}()
	for i := p.next.Add(1) - 1; i < p.items; i = p.next.Add(1) - 1 {
		p.work(worker, int(i))
	}
}

// each calls work once for each item 0..n-1, on all threads, and returns when all are done.
// worker is in 0..Threads()-1; each worker has scratch memory of its own. A panic of work is
// raised again by each.
func (p *Pool) each(n int, work func(worker, item int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n <= 1 || len(p.helpers) == 0 || p.closed {
		for i := range n {
			work(0, i)
		}
		return
	}
	p.items, p.work = int64(n), work
	p.next.Store(0)
	if p.watch != nil {
		p.watch.Posted()
	}
	wanted := min(n-1, len(p.helpers))
	for _, h := range p.helpers[:wanted] {
		h.post()
	}
	p.drain(0)
	for i, h := range p.helpers[:wanted] {
		if h.await() && p.watch != nil {
			p.watch.Missed(i + 1)
		}
	}
	p.work = nil
	if f := p.fault.Swap(nil); f != nil {
		panic(fmt.Sprintf("kernel panicked: %v\n%s", f.value, f.stack))
	}
}

// split cuts n things into parts of nearly equal size, and returns the bounds of part i.
func split(n, parts, i int) (lo, hi int) { return n * i / parts, n * (i + 1) / parts }
