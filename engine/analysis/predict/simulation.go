package predict

import (
	"cmp"
	"math"
	"slices"
)

// simulation runs a plant, event by event.
//
// Threads that compute share the cores equally: each advances at the rate min(1, cores / threads).
// So the work that a thread has got since it began is a difference of one virtual time (Parekh and
// Gallager, "A generalized processor sharing approach to flow control", 1993). Computing ends at a
// point of virtual time, and waiting at a point of plain time. The earlier of the two is the next
// event.
type simulation struct {
	*plant
	now                float64 // ns
	sums               flow    // of all batches: lack and busy
	waiting            events  // by time
	computers, readers shared

	crew   []worker
	idle   []int32 // workers without a batch, the one idle longest first
	next   int     // the batch to be dispatched next
	own    []int   // by worker, where batches are given out in turns: its next batch
	loaded []bool  // by batch
	maker  []int32 // by batch: its worker
	ready  []int32 // without in_order: batches that wait, in the order in which they were loaded

	// The step loop.
	loop      loopState
	asked     float64 // when it began to wait for a batch
	delivered int
	epochNow  int     // the epoch whose batches it is given
	turned    float64 // when it first asked for a batch of the second epoch

	// The device.
	enqueued, copies, copied, starts, computed int // steps so far
	copying, computing                         bool
	began                                      float64 // when the step under way began
	onCores                                    bool    // the step under way computes on the host's cores

	done   []float64    // ns, when a step was computed
	waited []float64    // ns that the device was idle before a step while the loop waited for its batch
	asks   [][2]float64 // from when to when the loop waited
}

// shared is a resource that its users share equally: the cores, or a disk.
type shared struct {
	virtual float64 // ns of service that a user who is always there would have got
	workers int     // who use it now
	done    events  // by virtual time
}

// serve begins a service of so many ns.
func (r *shared) serve(ns float64, what happening, who int32) {
	r.done.push(event{r.virtual + ns, what, who})
}

// next returns when the next service ends, if it goes on at this rate.
func (r *shared) next(now, rate float64) float64 { return now + (r.done.first()-r.virtual)/rate }

func (r *shared) pop() event {
	e := r.done.pop()
	r.virtual = max(r.virtual, e.at)
	return e
}

type loopState uint8

const (
	asks loopState = iota
	enqueues
	syncs
)

// worker is a worker that loads, or the step loop where it loads by itself.
type worker struct {
	batch   int32 // -1: none
	turn    int   // how many of its turns to wait and compute are over
	begun   bool  // it has started
	demand  demand
	running bool
	reading bool
}

func newSimulation(p *plant, steps int, spread bool) *simulation {
	n := steps + p.workers*p.prefetch + depth + 1
	s := &simulation{
		plant: p, crew: make([]worker, max(1, p.workers)),
		loaded: make([]bool, n), maker: make([]int32, n), done: make([]float64, 0, steps), waited: make([]float64, 0, steps),
		asks: make([][2]float64, steps+depth+1),
	}
	for i := range s.crew {
		s.crew[i].batch = -1
		s.idle = append(s.idle, int32(i))
		if p.epoch > 0 && i >= p.epoch { // this worker never has a turn
			i = len(s.loaded)
		}
		s.own = append(s.own, i)
	}
	s.dispatch()
	if spread && p.workers > 1 {
		// Workers that have run for a while do not all begin at once.
		for i := range s.crew {
			w := &s.crew[i]
			part := float64(i+1) / float64(p.workers)
			w.demand.core *= part
			w.demand.blocked *= part
		}
	}
	return s
}

// until runs the simulation until so many steps are computed.
func (s *simulation) until(steps int) {
	for s.computed < steps {
		rate, reading := s.rate(), s.readRate()
		timed, work, read := s.waiting.first(), s.computers.next(s.now, rate), s.readers.next(s.now, reading)
		first := min(timed, work, read)
		if math.IsInf(first, 1) {
			return
		}
		s.pass(first-s.now, rate, reading)
		switch first {
		case timed:
			s.handle(s.waiting.pop())
		case work:
			s.handle(s.computers.pop())
		default:
			s.handle(s.readers.pop())
		}
	}
}

// rate returns how fast a thread computes. It is 1 where the thread has a core to
// itself.
func (s *simulation) rate() float64 {
	threads := float64(s.computers.workers) + s.rivals
	if s.onCores {
		threads += s.threads
	}
	if s.cores <= 0 || threads <= 0 {
		return 1
	}
	used := min(threads, s.cores)
	if near := 1 - 2*math.Abs(threads/s.cores-1); near > 0 && s.cores >= 2 {
		used *= 1 - s.uneven*near
	}
	return min(1, used/threads)
}

// readRate returns how fast a read goes on. It is 1 where no other read slows it down.
func (s *simulation) readRate() float64 {
	if n := float64(s.readers.workers); s.disk > 0 && n > s.disk {
		return s.disk / n
	}
	return 1
}

func (s *simulation) pass(ns, rate, reading float64) {
	ns = max(0, ns)
	s.now += ns
	s.computers.virtual += ns * rate
	s.readers.virtual += ns * reading
	s.sums.lack += ns * (1 - rate) * float64(s.computers.workers)
}

func (s *simulation) after(ns float64, what happening, who int32) {
	s.waiting.push(event{s.now + ns, what, who})
}

func (s *simulation) handle(e event) {
	switch e.what {
	case begun:
		s.begin(e.who)
	case unblocked:
		s.goOn(e.who)
	case enqueued:
		s.enqueued++
		s.loop = syncs
		s.device()
		s.iterate()
	case copied:
		s.copying = false
		s.copied++
		s.device()
	case woken:
		s.onCores = true
		s.computers.serve(cmp.Or(s.prompt, 1)*(1-s.blocked)*s.stepTime(s.starts-1), computed, 0)
	case computed:
		s.sums.busy += s.now - s.began
		s.computing, s.onCores = false, false
		s.computed++
		s.done = append(s.done, s.now)
		s.device()
		s.iterate()
	}
}

// goOn takes a worker from one part of a turn to the next.
func (s *simulation) goOn(who int32) {
	w := &s.crew[who]
	if w.reading {
		w.reading = false
		s.readers.workers--
	}
	if !w.running && w.demand.core > 0 { // it was blocked
		w.running = true
		s.computers.workers++
		s.computers.serve(w.demand.core/turns, unblocked, who)
		return
	}
	if w.running {
		w.running = false
		s.computers.workers--
	}
	if w.turn++; w.turn < turns {
		s.begin(who)
		return
	}
	b := w.batch
	w.batch = -1
	if s.loaded[b] = true; !s.inOrder {
		s.ready = append(s.ready, b)
	}
	// This worker is on a core, so it gets the batch that may be dispatched now, before another one
	// is awake.
	s.idle = slices.Insert(s.idle, 0, who)
	s.iterate()
	s.dispatch()
	if len(s.idle) > 1 && s.idle[0] == who && w.batch < 0 {
		s.idle = append(slices.Delete(s.idle, 0, 1), who)
	}
}

// delay returns the time that passes before a worker begins with its batch.
func (s *simulation) delay(who int32) float64 {
	w, ns := &s.crew[who], s.wake
	if int(who) < len(s.late) && s.workers > 0 {
		ns += s.late[who]
	}
	if !w.begun {
		ns += s.start
		w.begun = true
	}
	return ns
}

// begin begins a turn of a worker's batch.
func (s *simulation) begin(who int32) {
	w := &s.crew[who]
	switch wait := w.demand.blocked / turns; {
	case wait <= 0:
		s.goOn(who)
	case s.disk > 0:
		w.reading = true
		s.readers.workers++
		s.readers.serve(wait, unblocked, who)
	default:
		s.after(wait, unblocked, who)
	}
}

// epochOf returns the epoch of a batch.
func (s *simulation) epochOf(b int) int {
	if s.epoch <= 0 {
		return 0
	}
	return b / s.epoch
}

// dispatch gives batches to idle workers, as far as the prefetch limit allows.
func (s *simulation) dispatch() {
	if s.inTurns && s.inOrder && s.workers > 1 {
		s.dispatchInTurns()
		return
	}
	for len(s.idle) > 0 && s.next < len(s.loaded) && s.allowed(s.next) {
		who := s.idle[0]
		s.idle = s.idle[:copy(s.idle, s.idle[1:])]
		s.next++
		s.give(s.next-1, who)
	}
}

// dispatchInTurns gives each idle worker the next batch of its own. A batch whose worker is busy waits
// for it, though others are idle.
func (s *simulation) dispatchInTurns() {
	for i := 0; i < len(s.idle); {
		who := s.idle[i]
		b := s.own[who]
		if b >= len(s.loaded) || !s.allowed(b) {
			i++
			continue
		}
		s.idle = slices.Delete(s.idle, i, i+1)
		for s.own[who]++; s.turnOf(s.own[who]) != int(who); {
			s.own[who]++
		}
		s.next = max(s.next, b+1)
		s.give(b, who)
	}
}

// turnOf returns the worker whose turn a batch is. Each epoch begins with the first worker.
func (s *simulation) turnOf(b int) int {
	if s.epoch > 0 {
		b %= s.epoch
	}
	return b % s.workers
}

// give makes a worker begin with a batch.
func (s *simulation) give(b int, who int32) {
	w := &s.crew[who]
	s.maker[b] = who
	d := s.load[b%len(s.load)]
	*w = worker{batch: int32(b), demand: d, begun: w.begun}
	if d.core+d.blocked <= 0 {
		w.demand.core = 1
	}
	if ns := s.delay(who); ns > 0 {
		s.after(ns, begun, who)
		return
	}
	s.begin(who)
}

// allowed reports whether a batch may be loaded already.
func (s *simulation) allowed(b int) bool {
	ahead := b - s.delivered
	if s.workers == 0 {
		return s.loop == asks && ahead == 0
	}
	e := s.epochOf(b)
	if s.persistent {
		e--
	}
	return ahead < s.workers*s.prefetch && e <= s.epochNow
}

// ahead returns how many steps may be enqueued and not computed for the step loop to go on.
func (s *simulation) ahead() int {
	if s.serial {
		return 1
	}
	return depth
}

// iterate runs the step loop until it has to wait.
func (s *simulation) iterate() {
	if s.loop == syncs && s.enqueued-s.computed < s.ahead() {
		s.loop = asks
		s.asked = s.now
		if s.epoch > 0 && s.delivered == (s.epochNow+1)*s.epoch { // the epoch's batches are delivered
			s.epochNow++
			if s.turned == 0 {
				s.turned = s.now
			}
			if !s.persistent {
				for i := range s.crew {
					s.crew[i].begun = false
				}
			}
		}
		s.dispatch()
	}
	if s.loop != asks {
		return
	}
	b := s.pick()
	if b < 0 {
		return
	}
	s.delivered++
	hold := 0.0
	if s.workers > 0 && s.crew[s.maker[b]].running {
		hold = s.held
	}
	if s.enqueued < len(s.asks) {
		s.asks[s.enqueued] = [2]float64{s.asked, s.now + hold}
	}
	s.loop = enqueues
	s.after(s.host+hold, enqueued, 0)
	s.dispatch()
}

// pick returns the batch to deliver; -1 if there is none.
func (s *simulation) pick() int32 {
	if s.inOrder {
		if b := s.delivered; b < s.next && s.loaded[b] && s.epochOf(b) == s.epochNow {
			return int32(b)
		}
		return -1
	}
	for i, b := range s.ready {
		if s.epochOf(int(b)) != s.epochNow {
			continue
		}
		s.ready = append(s.ready[:i], s.ready[i+1:]...)
		return b
	}
	return -1
}

// device begins the copies and steps that can begin.
func (s *simulation) device() {
	if !s.copying && s.copies < s.enqueued && s.computed > s.copies-inputs {
		s.copying = true
		s.copies++
		s.after(s.copy, copied, 0)
	}
	if s.computing || s.starts >= s.copied {
		return
	}
	s.computing, s.began = true, s.now
	step := s.starts
	s.starts++
	idleFrom := 0.0
	if step > 0 {
		idleFrom = s.done[step-1]
	}
	if step < len(s.asks) {
		a := s.asks[step]
		s.waited = append(s.waited, max(0, min(a[1], s.now)-max(a[0], idleFrom)))
	}
	ns := s.stepTime(step)
	switch {
	case s.threads == 0:
		s.after(ns, computed, 0)
	case s.blocked > 0:
		s.after(s.blocked*ns, woken, 0)
	default:
		s.onCores = true
		s.computers.serve(ns, computed, 0)
	}
}

// stepTime returns how long the device takes for a step and the gap after it.
func (s *simulation) stepTime(step int) float64 { return s.compute[step%len(s.compute)] + s.gap }
