package cpu

import (
	"runtime"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/base/host"
)

// watch measures how long the threads that run kernels are on a core, and how long they wait for
// one. It measures as many of the programs' runs as cost less than half a percent of the time. It
// implements cpukernels.Watcher. Runs hold the device's turn, so one is measured at a time.
type watch struct {
	dev     *Device
	workers []watched // by worker; nil where the host does not count this
	posted  int64     // ns on the device's clock, when the workers were last asked to help

	core, waiting atomic.Int64 // ns

	readings atomic.Int64 // of this run
	budget   host.Budget
	last     int64     // ns on the device's clock, when the last run was begun
	cost     host.Cost // of a reading
	each     float64   // readings in a measured run
}

// watched is the time of one worker, from Begin to End.
type watched struct {
	meter       *host.Meter
	cpu, waited int64 // ns
	known       bool
	_           [64]byte // two workers' times share no cache line
}

func (w *watch) open(d *Device) {
	w.dev, w.budget.Share = d, 0.005
	workers := make([]watched, d.pool.Threads())
	for i := range workers {
		if workers[i].meter, _ = host.NewMeter(); workers[i].meter == nil {
			return
		}
	}
	w.workers = workers
}

// begin is called before a run. It reports whether the run is measured, for end.
func (w *watch) begin() bool {
	if w.workers == nil {
		return false
	}
	now := w.dev.now()
	w.budget.Earn(now-w.last, w.spends())
	w.last = now
	if !w.budget.Covers(w.spends()) { // the first run is always covered
		return false
	}
	w.readings.Store(0)
	w.dev.pool.Watch(w)
	w.Begin(0)
	w.cost.See(w.dev.now() - now)
	return true
}

// spends returns what measuring a run costs, in ns.
func (w *watch) spends() float64 { return w.cost.Of(w.each) }

func (w *watch) end(measured bool) {
	if !measured {
		return
	}
	w.End(0)
	w.dev.pool.Watch(nil)
	w.each = float64(w.readings.Load())
	w.budget.Spend(w.spends())
}

// Posted is called when the other workers are asked to help.
func (w *watch) Posted() { w.posted = w.dev.now() }

// Begin is called by a worker, on its own thread, when it begins; End when it has nothing
// left to do. Between the two it stays on its thread.
func (w *watch) Begin(worker int) {
	if worker > 0 {
		w.woke()
	}
	runtime.LockOSThread()
	w.readings.Add(1)
	t := &w.workers[worker]
	t.cpu = t.meter.CPU()
	t.waited, t.known = t.meter.Waited()
}

// End is called by a worker when it has nothing left to do; see Begin.
func (w *watch) End(worker int) {
	w.readings.Add(1)
	t := &w.workers[worker]
	if waited, ok := t.meter.Waited(); ok && t.known {
		w.waiting.Add(waited - t.waited)
		w.core.Add(t.meter.CPU() - t.cpu)
	}
	runtime.UnlockOSThread()
}

// Missed is called for a worker that had not woken when all was done.
func (w *watch) Missed(int) { w.woke() }

// woke counts how late a worker woke that was asked to help.
func (w *watch) woke() {
	if late := w.dev.now() - w.posted; late > int64(host.WakeLatency) {
		w.waiting.Add(late)
	}
}

// Starved returns the threads' times in the runs that were measured.
func (d *Device) Starved() (core, waiting time.Duration, ok bool) {
	return time.Duration(d.watch.core.Load()), time.Duration(d.watch.waiting.Load()), d.watch.workers != nil
}
