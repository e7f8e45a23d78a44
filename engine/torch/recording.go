package torch

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// What is kept of a trace at the most. It bounds the importer's memory, to about
// 800 MiB; a trace of so many kernels has some 10 GB.
const (
	maxDevice  = 4 << 20 // events on devices
	maxRuntime = 4 << 20 // calls of the runtime
	maxApart   = 4 << 20 // stretches of one sort that are apart
	maxSteps   = 1 << 18
	maxLoaders = 64 // classes of DataLoaders' iterators
)

// deviceEvent is a kernel, a copy or a memset.
type deviceEvent struct {
	span
	correlation, external int64 // absent where it has none
	bytes                 int64 // of a copy from the host
	blocks, occupancy     float64
	device                int32
	name                  int32 // -1 where it is not kept
	kind                  kind
	way                   way  // of a copy
	pageable              bool // it is from memory that is not page-locked
	communicates          bool
	matched               bool // some step launched it
}

// call is one of the CUDA runtime.
type call struct {
	span
	correlation int64
	does        doing
}

// doing is what a call of the runtime is for.
type doing uint8

const (
	launches doing = iota // or any other call
	copies                // to the device
	waits
)

// doingOf tells by the name. What a copy is for tells the copy (see finish).
func doingOf(name []byte) doing {
	if bytes.Contains(name, []byte("Synchronize")) {
		return waits
	}
	return launches
}

// wayDone is what a call does that copies that way. Where a result is copied to the host, as
// tensor.item() does, the call lasts until all that makes the result has run.
func wayDone(w way) doing {
	switch w {
	case toDevice:
		return copies
	case toHost:
		return waits
	}
	return launches
}

// hostStep is a step as the host saw it.
type hostStep struct {
	span
	name string
}

// gpu is what a trace says of one.
type gpu struct {
	name         string
	memory, peak int64 // bytes; 0 where not known
}

// recording is what was gathered from a trace.
type recording struct {
	device    []deviceEvent
	order     []int32 // the device's events by correlation
	calls     []call
	steps     []hostStep
	next      pile                 // the training loop in the DataLoader
	ops       pile                 // operators on the host
	comms     pile                 // of them, those by which processes talk
	cpu       span                 // in which operators ran
	ranges    span                 // in which other things of the host did
	loaders   map[string]int64     // ns in each class of the DataLoaders' iterators
	wrapping  pile                 // operators that only hand data to those, on the host
	own       map[string]*ownRange // the user's ranges that are loading by their names
	loop      int64                // the thread of the steps
	loops     map[[2]int64]bool    // the processes and threads that have some
	talking   map[int64]bool       // external ids of such operators
	gpus      map[int64]*gpu
	emulated  bool       // the session that gpustall made the trace of
	synthetic bool       // its data
	flags     uint16     // of its steps: it does not say of which
	broken    int64      // events without a time that can be read
	halves    int64      // events that only begin
	foreign   int64      // events that are none of the profiler's
	operators []operator // for a table of them
	names     names
	tooMany   bool  // for one
	rank      int64 // which the trace is of, of ...
	world     int64 // ... so many
	base      int64 // ns since 1970 of the trace's time 0
}

func newRecording() *recording {
	return &recording{talking: map[int64]bool{}, gpus: map[int64]*gpu{}, loaders: map[string]int64{}, loops: map[[2]int64]bool{}, cpu: nothing, ranges: nothing}
}

// tooMuch is the refusal of a trace that is too large.
func tooMuch(what string, n int) error {
	return errs.Reason(fmt.Sprintf("it holds more than %d %s", n, what), "profile fewer steps: schedule(wait=5, warmup=2, active=20) is enough for a verdict")
}

// take files an event.
func (r *recording) take(e *event) error {
	if e.phase == 'i' {
		r.memory(e)
		return nil
	}
	if e.phase == 'B' {
		r.halves++
	}
	if e.phase != 'X' || e.kind == kindNone {
		if e.phase == 'X' && !e.own {
			r.foreign++
		}
		return nil
	}
	if !e.place() {
		r.broken++
		return nil
	}
	switch e.kind {
	case kindKernel, kindMemcpy, kindMemset:
		return r.ran(e)
	case kindRuntime:
		if len(r.calls) == maxRuntime {
			return tooMuch("calls of the CUDA runtime", maxRuntime)
		}
		r.calls = append(r.calls, call{e.at, e.correlation, doingOf(e.name)})
		return nil
	}
	return r.onHost(e)
}

// ran files what ran on a device.
func (r *recording) ran(e *event) error {
	if len(r.device) == maxDevice {
		return tooMuch("kernels and copies", maxDevice)
	}
	if e.device == absent {
		e.device = e.pid
	}
	if e.device < 0 || e.device > math.MaxInt32 {
		e.device = 0
	}
	d := deviceEvent{span: e.at, correlation: e.correlation, external: e.external, blocks: e.blocks, occupancy: e.occupancy,
		device: int32(e.device), name: r.names.number(e.name), kind: e.kind, communicates: e.communicates()}
	if e.kind == kindMemcpy {
		if d.way, d.pageable = e.copied(); d.way == toDevice && e.bytes > 0 {
			d.bytes = e.bytes
		}
	}
	r.device = append(r.device, d)
	return nil
}

// onHost files what ran on the host.
func (r *recording) onHost(e *event) error {
	class, loads := e.loader()
	switch {
	case loads && e.kind == kindOperator:
		if _, known := r.loaders[class]; known || len(r.loaders) < maxLoaders {
			r.loaders[class] += e.at.length()
		}
		r.next.add(e.at)
	case e.isStep():
		if len(r.steps) == maxSteps {
			return tooMuch("steps", maxSteps)
		}
		r.steps, r.loop = append(r.steps, hostStep{e.at, string(e.name)}), e.tid
		r.loops[[2]int64{e.pid, e.tid}] = true
	case e.communicates():
		r.comms.add(e.at)
		if e.external != absent && len(r.talking) < maxDevice {
			r.talking[e.external] = true
		}
	default:
		if e.wraps() {
			r.wrapping.add(e.at)
		}
		r.ops.add(e.at)
		r.operate(e)
		r.named(e)
	}
	if e.annotated { // as the plugin has it, these alone make no step
		r.ranges = r.ranges.over(e.at)
	} else {
		r.cpu = r.cpu.over(e.at)
	}
	for _, p := range []*pile{&r.next, &r.ops, &r.comms, &r.wrapping} {
		if len(p.spans) > maxApart {
			return tooMuch("operators that lie apart", maxApart)
		}
	}
	return nil
}

// class is that of the DataLoader's iterator in which the loop spent most time; empty where it is in none.
func (r *recording) class() (class string) {
	longest := int64(-1)
	for name, ns := range r.loaders {
		if ns > longest || ns == longest && name < class {
			class, longest = name, ns
		}
	}
	return class
}

// memory notes how much of a GPU's memory was allocated. Device type 1 is CUDA.
func (r *recording) memory(e *event) {
	if string(e.name) == "[memory]" && e.deviceType == 1 && e.device >= 0 && e.allocated > 0 {
		if g := r.gpu(e.device); g != nil {
			g.peak = max(g.peak, e.allocated)
		}
	}
}

// gpu is the one of that number; nil where there are more than any machine has.
func (r *recording) gpu(id int64) *gpu {
	if g := r.gpus[id]; g != nil || len(r.gpus) == 1024 {
		return g
	}
	g := new(gpu)
	r.gpus[id] = g
	return g
}

// empty is the refusal of a trace that has nothing of PyTorch's.
func (r *recording) empty() error {
	if r.foreign > 0 {
		return errs.Reason("it is no trace of PyTorch's: its "+units.Counted(r.foreign, "event is", "events are")+" no step, operator or kernel that torch.profiler writes",
			"record it with torch.profiler and export it by prof.export_chrome_trace(path)")
	}
	return errs.Reason("it holds no step, operator or kernel", "have torch.profiler record some steps; where it has a schedule, export in on_trace_ready, since what follows the last recorded step is empty")
}

// finish puts what was gathered in order. Without steps, all of it is one.
func (r *recording) finish() error {
	if len(r.steps) == 0 {
		all := r.cpu
		if all == nothing {
			all = r.ranges
		}
		if all == nothing {
			for i := range r.device {
				all = all.over(r.device[i].span)
			}
			for i := 0; len(r.device) > 0 && i < len(r.calls); i++ { // in which alone a step can launch what ran
				all = all.over(r.calls[i].span)
			}
		}
		if all.end <= all.start && r.halves > 0 {
			return errs.Reason("its ranges begin and end in events apart (ph B and E), where PyTorch's profiler writes each as one (X)", hint)
		}
		if all.end <= all.start {
			return r.empty()
		}
		r.steps = []hostStep{{all, trace.WholeTrace}}
	}
	slices.SortStableFunc(r.steps, func(a, b hostStep) int { return cmp.Compare(a.start, b.start) })
	slices.SortFunc(r.calls, func(a, b call) int { return cmp.Compare(a.start, b.start) })
	for i := range r.device {
		d := &r.device[i]
		d.communicates = d.communicates || d.external != absent && r.talking[d.external]
	}
	r.order = r.byCorrelation()
	for i := range r.calls {
		c := &r.calls[i]
		if of := r.launchedBy(c.correlation); len(of) > 0 && c.correlation != absent {
			if d := &r.device[of[0]]; d.kind == kindMemcpy {
				c.does = wayDone(d.way)
			}
		}
	}
	return nil
}
