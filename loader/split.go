package loader

import (
	"runtime"
	"sync"
	"sync/atomic"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// Measuring may take these shares of a worker's time, 1 % in all.
const (
	batchShare = 0.004 // for the ends of batches
	phaseShare = 0.006 // for the ends of phases, in some batches
)

// batchReadings is the number of readings of a batch that is measured only at its ends.
const batchReadings = 2

// level is how finely a batch is split.
type level uint8

const (
	unsplit level = iota
	byBatch       // at its ends
	byPhase       // and at the end of each phase
)

// splitter measures what a worker does with its time. It reads the thread's CPU time, and how
// long the thread waited for a core, at the ends of batches. In some batches it also reads them
// at the ends of phases. It measures the cost of its readings, and makes as many as stay under
// 1 %. From the first reading of a batch to the last, the worker is locked to its thread.
type splitter struct {
	meter *host.Meter // nil if this cannot be measured
	clock trace.Clock
	sched *scheduler

	level    level
	measured bool    // no reading of the batch failed
	began    reading // of the batch
	last     reading // of the phase
	work     trace.Work
	piece    trace.Split // what was measured since the piece was last cleared

	took            int64     // worker time since a batch was last split, ns
	readings        int       // in this batch
	cost            host.Cost // of a reading
	phaseReadings   float64   // in a batch that is split by phase
	batches, phases host.Budget
}

func newSplitter(m *host.Meter, c trace.Clock, s *scheduler) splitter {
	return splitter{meter: m, clock: c, sched: s, batches: host.Budget{Share: batchShare}, phases: host.Budget{Share: phaseShare}}
}

// reading is the state of a thread's counters, in ns.
type reading struct{ at, cpu, waited int64 }

func (p *splitter) read() (r reading) {
	before := p.clock.Now()
	r.cpu = p.meter.CPU()
	waited, ok := p.meter.Waited()
	r.at, r.waited = p.clock.Now(), waited
	p.measured = p.measured && ok
	p.readings++
	p.cost.See(r.at - before)
	return r
}

// begin decides how a batch is split. The caller calls it before the batch.
func (p *splitter) begin() {
	p.level, p.piece = unsplit, trace.Split{}
	if p.meter == nil {
		return
	}
	switch {
	case p.phases.Covers(p.cost.Of(p.phaseReadings)): // true for the first batch, when no cost is known
		p.level = byPhase
	case p.batches.Covers(p.cost.Of(batchReadings)):
		p.level = byBatch
	default:
		return
	}
	runtime.LockOSThread()
	p.measured, p.readings, p.work = true, 0, trace.Work{}
	p.began = p.read()
	p.last = p.began
}

// phase ends a phase. For waited ns of the phase the thread waited, blocked, for a store to
// begin to send.
func (p *splitter) phase(k trace.Kind, waited int64) {
	if p.level != byPhase {
		return
	}
	now := p.read()
	did := between(p.last, now)
	p.piece.Add(did)
	if k.IsPhase() {
		first := trace.Split{Blocked: min(waited, did.Blocked)}
		did.Blocked -= first.Blocked
		p.work.Phases.Of(trace.KindFirstByte).Add(first)
		p.work.Phases.Of(k).Add(did)
	}
	p.last = now
}

// end ends a batch, which took so many ns. It adds what was measured to work, and corrects
// slowest, the measurement of the batch's slowest piece.
func (p *splitter) end(took int64, work *trace.Work, slowest *trace.Split) {
	if p.meter == nil {
		return
	}
	p.took += took
	if p.level != unsplit {
		p.measure(work, slowest)
	}
	p.phases.Earn(took, p.cost.Of(max(p.phaseReadings, batchReadings)))
	p.batches.Earn(took, p.cost.Of(batchReadings))
}

// measure ends a batch that is measured.
func (p *splitter) measure(work *trace.Work, slowest *trace.Split) {
	p.work.Batch = between(p.began, p.read())
	runtime.UnlockOSThread()
	spent := p.cost.Of(float64(p.readings))
	switch {
	case p.level == byBatch:
		p.batches.Spend(spent)
	case p.phaseReadings > 0: // the first batch, whose cost was not known, is free
		p.phases.Spend(spent)
	}
	if p.level == byPhase {
		p.phaseReadings = float64(p.readings)
	}
	if !p.measured {
		*slowest = trace.Split{}
	} else {
		p.sched.correct(p.took, &p.work, slowest)
		p.took = 0
		work.Add(&p.work)
	}
}

// between returns what the thread did from one reading to the next. The time neither on a core
// nor waiting for a core counts as blocked.
func between(from, to reading) trace.Split {
	time := max(0, to.at-from.at)
	core := min(max(0, to.cpu-from.cpu), time)
	waiting := min(max(0, to.waited-from.waited), time-core)
	return trace.Split{Core: core, Waiting: waiting, Blocked: time - core - waiting}
}

// scheduler tells blocked workers from those that wait in Go's scheduler, which the kernel also
// counts as blocked. If GOMAXPROCS exceeds the threads there are (host.Processors), no worker
// waits there. If somebody has set it lower, the scheduler compares two times. One is how long
// all goroutines waited in Go's scheduler, as Go measures it. The other is how long workers
// were neither on a core nor in the kernel's queue for one.
type scheduler struct {
	workers atomic.Int32 // num_workers

	mu      sync.Mutex
	clock   trace.Clock
	waits   interface{ Waited() int64 } // of all goroutines in Go's scheduler, in ns
	next    int64                       // when to look again
	share   float64
	primed  bool  // waited is known
	waited  int64 // of Go's scheduler, at the last look
	taken   int64 // worker time since
	split   int64 // the measured part of it, and ...
	blocked int64 // ... the part of that which seemed blocked
}

const schedulerEvery = int64(100e6) // ns between two looks

// correct counts a measured batch, and the worker time since the previous one. It moves the
// part of the batch's blocked time that passed in Go's scheduler to the time waiting for a
// core.
func (s *scheduler) correct(took int64, w *trace.Work, slowest *trace.Split) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken += took
	s.split += w.Batch.Total()
	s.blocked += w.Batch.Blocked
	if now := s.clock.Now(); now >= s.next {
		s.next = now + schedulerEvery
		s.look()
	}
	if s.share == 0 {
		return
	}
	move := func(p *trace.Split) {
		ns := int64(s.share * float64(p.Blocked))
		p.Waiting, p.Blocked = p.Waiting+ns, p.Blocked-ns
	}
	move(slowest)
	move(&w.Batch)
	for i := range w.Phases {
		move(&w.Phases[i])
	}
}

// look computes the share of blocked time that passed in Go's scheduler. It is 0 where no worker
// waits there. Elsewhere the first look assumes 1, because processors are known to be short.
// Later looks compute it from what was measured since, and keep it if that is too little.
func (s *scheduler) look() {
	if runtime.GOMAXPROCS(0) >= host.Processors(int(s.workers.Load())) {
		s.share, s.primed = 0, false
		return
	}
	waited := s.waits.Waited()
	if !s.primed {
		s.share, s.primed = 1, true
	} else if s.split > 0 && s.blocked > 0 {
		all := float64(s.blocked) * float64(s.taken) / float64(s.split)
		// The share is doubled, because one wait in eight is measured, and a possible wait for
		// a core must not be shown as blocked.
		now := min(1, 2*float64(waited-s.waited)/all)
		s.share += (now - s.share) / 2
	}
	s.waited, s.taken, s.split, s.blocked = waited, 0, 0, 0
}
