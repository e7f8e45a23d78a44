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

// These limit what is kept of a trace. They bound the importer's memory to about 800 MiB. A trace with
// that many kernels has some 10 GB.
const (
	maxDevice  = 4 << 20 // events on devices
	maxRuntime = 4 << 20 // calls of the runtime
	maxApart   = 4 << 20 // spans of one kind that are apart
	maxSteps   = 1 << 18
	maxLoaders = 64 // classes of DataLoaders' iterators
)

// deviceEvent is a kernel, a copy or a memset.
type deviceEvent struct {
	span
	correlation, external int64 // absent where there is none
	stream                int64 // likewise
	bytes                 int64 // of a copy from the host
	blocks, occupancy     float64
	device                int32
	name                  int32 // its number; -1 where the name is not kept
	kind                  kind
	way                   way  // of a copy
	pageable              bool // a copy from memory that is not page-locked
	communicates          bool
	matched               bool // a step launched it
}

// call is a call of the CUDA runtime.
type call struct {
	span
	correlation int64
	thread      int64
	name        int32 // its number
	does        doing
}

// doing is the purpose of a call of the runtime.
type doing uint8

const (
	launches  doing = iota // or any other call
	waits                  // for the device, or for results
	sends                  // a copy to the device, and waits
	allocates              // or frees
	prepares
)

// purposes tells what a call is for by a part of its name, in lower case. The names are those of CUDA,
// HIP or Level Zero. The first that applies counts.
var purposes = []struct {
	part string
	does doing
}{
	{"synchronize", waits},
	{"alloc", allocates}, {"free", allocates}, {"memcreate", allocates}, {"memrelease", allocates}, {"memmap", allocates}, {"memunmap", allocates},
	{"memsetaccess", allocates}, {"memaddressreserve", allocates}, {"hostregister", allocates}, {"hostunregister", allocates},
	{"moduleload", prepares}, {"modulecreate", prepares}, {"modulegetfunction", prepares}, {"libraryload", prepares}, {"libraryget", prepares},
	{"linkcreate", prepares}, {"linkadd", prepares}, {"linkcomplete", prepares}, {"registerfatbinary", prepares}, {"ctxcreate", prepares},
	{"primaryctx", prepares}, {"cuinit", prepares}, {"hipinit", prepares}, {"enablepeeraccess", prepares}, {"ipcopen", prepares}, {"streamcreate", prepares},
	{"unload", prepares}, {"attribute", prepares}, {"properties", prepares}, {"occupancy", prepares}, // which may load a module
	{"deviceget", prepares}, {"getdevice", prepares}, {"setdevice", prepares}, {"streamget", prepares}, {"driverget", prepares}, {"getsymbol", prepares}, // the first of all makes the context
}

// doingOf returns the purpose of a call by its name. For a call that copies, the purpose follows from
// the copy (see purpose).
func doingOf(name []byte) doing {
	lower := bytes.ToLower(name)
	for i := range purposes {
		if bytes.Contains(lower, []byte(purposes[i].part)) {
			return purposes[i].does
		}
	}
	return launches
}

// firstCall is the length, in ns, from which the first launch of a kernel counts as loading what the
// kernel needs. A launch takes some microseconds.
const firstCall = 1_000_000

// purpose returns the purpose of a call that began d. first says that it is the first launch of its
// kernel. A copy of a result to the host, as by tensor.item(), lasts until all work for the result has
// run. A copy to the device that takes longer than a launch waits too, because the device records the
// copy's own time.
func (c *call) purpose(d *deviceEvent, first bool) doing {
	switch {
	case d.kind == kindMemcpy && d.way == toHost:
		return waits
	case d.kind == kindMemcpy && d.way == toDevice && c.length() > launchDelay:
		return sends
	case d.kind == kindMemcpy:
		return launches
	case d.kind == kindKernel && first && c.does == launches && c.length() >= firstCall:
		return prepares
	}
	return c.does
}

// hostStep is a step as the host saw it.
type hostStep struct {
	span
	name string
}

// beside holds what the host did that is not in the table of operators.
type beside struct {
	ranges    []operator // of the DataLoader and of communication
	frames    []operator // calls of Python functions that belong to no library
	functions names      // of frames
}

// add stores a range, while there is room.
func (b *beside) add(e *event, all *names) {
	if len(b.ranges) < maxOperators {
		b.ranges = append(b.ranges, operator{span: e.at, thread: e.tid, name: all.number(e.name), named: true})
	}
}

// call stores a call of a Python function, while there is room.
func (b *beside) call(e *event) {
	if ownFrame(e.name) && len(b.frames) < maxOperators {
		b.frames = append(b.frames, operator{span: e.at, thread: e.tid, name: b.functions.number(e.name)})
	}
}

// gpu is what a trace says about a GPU.
type gpu struct {
	name         string
	memory, peak int64 // bytes; 0 where not known
}

// recording is what was read from a trace.
type recording struct {
	device    []deviceEvent
	order     []int32 // the device's events by correlation
	calls     []call
	steps     []hostStep
	next      pile                 // the training loop was in the DataLoader
	ops       pile                 // operators on the host
	comms     pile                 // operators of communication, which are in ops too
	cpu       span                 // from the first operator to the last
	ranges    span                 // from the first to the last of the host's other events
	loaders   map[string]int64     // ns in each class of the DataLoaders' iterators
	wrapping  pile                 // operators on the host that only hand data to communication
	own       map[string]*ownRange // the user's ranges that load data, by name
	loop      int64                // the thread of the steps
	loops     map[[2]int64]bool    // the processes and threads that have steps
	talking   map[int64]bool       // the external ids of operators of communication
	gpus      map[int64]*gpu
	emulated  bool       // gpustall made the trace, of a session on an emulated device
	synthetic bool       // likewise, with synthetic data
	flags     uint16     // likewise: the flags of some steps of that session; the trace does not say which steps
	broken    int64      // events without a readable time
	halves    int64      // events that begin and do not end
	foreign   int64      // events that the profiler did not write
	operators []operator // for the table of operators
	names     names
	beside    beside
	tooMany   bool  // there are too many operators for a table
	rank      int64 // the rank that wrote the trace
	world     int64 // the number of ranks
	base      int64 // the trace's time 0, in ns since 1970
	cutAt     int64 // how many bytes of text there are, where the trace breaks off; else 0
}

func newRecording() *recording {
	return &recording{talking: map[int64]bool{}, gpus: map[int64]*gpu{}, loaders: map[string]int64{}, loops: map[[2]int64]bool{}, cpu: nothing, ranges: nothing}
}

// tooMuch returns the error of a trace that is too large.
func tooMuch(what string, n int) error {
	return errs.Reason(fmt.Sprintf("it holds more than %d %s", n, what), "profile fewer steps: schedule(wait=5, warmup=2, active=20) is enough for a verdict")
}

// take stores an event.
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
		does := doingOf(e.name)
		if does == prepares && e.at.length() <= launchDelay { // it loaded nothing: a question before a launch
			does = launches
		}
		r.calls = append(r.calls, call{e.at, e.correlation, e.tid, r.names.number(e.name), does})
		return nil
	case kindFrame:
		r.beside.call(e)
		return nil
	}
	return r.onHost(e)
}

// ran stores an event of a device.
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
	d := deviceEvent{span: e.at, correlation: e.correlation, external: e.external, stream: e.stream, blocks: e.blocks, occupancy: e.occupancy,
		device: int32(e.device), name: r.names.number(e.name), kind: e.kind, communicates: e.communicates()}
	if e.kind == kindMemcpy {
		if d.way, d.pageable = e.copied(); d.way == toDevice && e.bytes > 0 {
			d.bytes = e.bytes
		}
	}
	r.device = append(r.device, d)
	return nil
}

// onHost stores an event of the host.
func (r *recording) onHost(e *event) error {
	class, loads := e.loader()
	switch {
	case loads && e.kind == kindOperator:
		if _, known := r.loaders[class]; known || len(r.loaders) < maxLoaders {
			r.loaders[class] += e.at.length()
		}
		r.next.add(e.at)
		r.beside.add(e, &r.names)
	case e.isStep():
		if len(r.steps) == maxSteps {
			return tooMuch("steps", maxSteps)
		}
		r.steps, r.loop = append(r.steps, hostStep{e.at, string(e.name)}), e.tid
		r.loops[[2]int64{e.pid, e.tid}] = true
	case e.communicates():
		r.comms.add(e.at)
		r.talk(e)
		r.beside.add(e, &r.names)
	default:
		if e.wraps() {
			r.wrapping.add(e.at)
			r.talk(e)
		}
		r.ops.add(e.at)
		r.operate(e)
		r.named(e)
	}
	if e.annotated { // a step needs more than annotations, as in the plugin
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

// talk remembers an operator whose kernels communicate.
func (r *recording) talk(e *event) {
	if e.external != absent && len(r.talking) < maxDevice {
		r.talking[e.external] = true
	}
}

// class returns the class of the DataLoader's iterator in which the loop spent most time; empty where
// there is none.
func (r *recording) class() (class string) {
	longest := int64(-1)
	for name, ns := range r.loaders {
		if ns > longest || ns == longest && name < class {
			class, longest = name, ns
		}
	}
	return class
}

// memory stores how much of a GPU's memory was allocated. Device type 1 is CUDA.
func (r *recording) memory(e *event) {
	if string(e.name) == "[memory]" && e.deviceType == 1 && e.device >= 0 && e.allocated > 0 {
		if g := r.gpu(e.device); g != nil {
			g.peak = max(g.peak, e.allocated)
		}
	}
}

// gpu returns the GPU with a number. It returns nil if there are more GPUs than any
// machine has.
func (r *recording) gpu(id int64) *gpu {
	if g := r.gpus[id]; g != nil || len(r.gpus) == 1024 {
		return g
	}
	g := new(gpu)
	r.gpus[id] = g
	return g
}

// empty returns the error of a trace without events of PyTorch.
func (r *recording) empty() error {
	if r.foreign > 0 {
		return errs.Reason("it is no trace of PyTorch's: its "+units.Counted(r.foreign, "event is", "events are")+" no step, operator or kernel that torch.profiler writes",
			"record it with torch.profiler and export it by prof.export_chrome_trace(path)")
	}
	return errs.Reason("it holds no step, operator or kernel", "have torch.profiler record some steps; where it has a schedule, export in on_trace_ready, since what follows the last recorded step is empty")
}

// finish puts in order what was read. Without steps, the whole trace becomes one.
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
			for i := 0; len(r.device) > 0 && i < len(r.calls); i++ { // only these can be launches of what ran
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
	launched := map[int32]bool{} // kernels, by the number of their name
	for i := range r.calls {
		c := &r.calls[i]
		if of := r.launchedBy(c.correlation); len(of) > 0 && c.correlation != absent {
			d := &r.device[of[0]]
			c.does = c.purpose(d, d.name >= 0 && !launched[d.name])
			launched[d.name] = true
		}
	}
	return nil
}
