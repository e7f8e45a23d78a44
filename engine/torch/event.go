package torch

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kind is the kind of an event of a trace. PyTorch renamed its categories over the years: kernels were
// "Kernel" in 1.8 and are "kernel" today, copies were "Memcpy" and are "gpu_memcpy".
type kind uint8

const (
	kindNone     kind = iota
	kindKernel        // on the device, like the next two
	kindMemcpy        //
	kindMemset        //
	kindRuntime       // a call of the CUDA runtime or driver
	kindOperator      // an operator, or a range that the user named
	kindPython        // likewise, in old traces
	kindFrame         // a call of a Python function, where the profiler recorded stacks
)

// kinds maps each category, in lower case, to its kind. It leaves out "gpu_user_annotation",
// which repeats the user's named ranges on the GPU: a ProfilerStep# there is not a step.
var kinds = map[string]kind{
	"kernel": kindKernel,
	"memcpy": kindMemcpy, "gpu_memcpy": kindMemcpy,
	"memset": kindMemset, "gpu_memset": kindMemset,
	"runtime": kindRuntime, "cuda_runtime": kindRuntime, "cuda_driver": kindRuntime, "mtia_runtime": kindRuntime,
	"glow_runtime": kindRuntime, "xpu_runtime": kindRuntime, "xpu_driver": kindRuntime, "privateuse1_runtime": kindRuntime, "privateuse1_driver": kindRuntime,
	"operator": kindOperator, "cpu_op": kindOperator, "user_annotation": kindOperator,
	"python":          kindPython,
	"python_function": kindFrame,
}

func kindOf(category []byte) kind {
	var b [32]byte
	if len(category) > len(b) {
		return kindNone
	}
	lower := b[:len(category)]
	for i, c := range category {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	return kinds[string(lower)]
}

// stamp is a time as a trace writes it: microseconds with three decimals.
type stamp struct {
	whole, thousandths int64
	known              bool
}

// nanosecondEpoch is the number above which a time counts as nanoseconds. As microseconds since
// 1970 it is the year 5138, and as nanoseconds the year 1973.
const nanosecondEpoch = 1e17

// most is the largest time and the longest duration, in ns, that the importer believes.
const most = 4e18

// ns returns the stamp in ns; false where it is not a time.
func (s stamp) ns(nanoseconds bool) (int64, bool) {
	limit := int64(most)
	if !nanoseconds {
		limit /= 1000
	}
	if !s.known || s.whole > limit || s.whole < -limit {
		return 0, false
	}
	if nanoseconds {
		return s.whole, true
	}
	return s.whole*1000 + s.thousandths, true
}

func parseStamp(word []byte) stamp {
	digits, negative := bytes.CutPrefix(word, []byte("-"))
	whole, fraction, _ := bytes.Cut(digits, []byte("."))
	var s stamp
	for _, c := range whole {
		if c < '0' || c > '9' || s.whole > math.MaxInt64/10-1 {
			return parseExponent(word)
		}
		s.whole = 10*s.whole + int64(c-'0')
	}
	for i, c := range fraction {
		if c < '0' || c > '9' {
			return parseExponent(word)
		}
		switch {
		case i < 3:
			s.thousandths = 10*s.thousandths + int64(c-'0')
		case i == 3 && c >= '5':
			s.thousandths++
		}
	}
	for i := len(fraction); i < 3; i++ {
		s.thousandths *= 10
	}
	if s.known = len(whole) > 0; negative {
		s.whole, s.thousandths = -s.whole, -s.thousandths
	}
	return s
}

// parseExponent reads a number with an exponent, such as 1.6e15, which is rare.
func parseExponent(word []byte) stamp {
	v, err := strconv.ParseFloat(string(word), 64)
	if err != nil || !(math.Abs(v) < most) {
		return stamp{}
	}
	whole, fraction := math.Modf(v)
	return stamp{int64(whole), int64(math.Round(fraction * 1000)), true}
}

// absent is a number that an event does not have.
const absent = math.MinInt64

// event holds the fields of a trace's event that are used.
type event struct {
	phase    byte // 'X' is a range of time, 'i' an instant
	kind     kind
	name     []byte
	ts, dur  stamp
	pid, tid int64
	at       span // in ns, once it is known to have one
	external int64

	annotated bool // a range named by the user or by PyTorch's own Python
	own       bool // the profiler's record of itself

	correlation int64
	stream      int64
	device      int64
	blocks      float64 // per multiprocessor; NaN where absent
	occupancy   float64 // in percent, likewise
	bytes       int64
	allocated   int64
	deviceType  int64
}

func (e *event) reset() {
	*e = event{name: e.name[:0], pid: absent, tid: absent, external: absent, correlation: absent, stream: absent, device: absent,
		blocks: math.NaN(), occupancy: math.NaN(), bytes: absent, allocated: absent, deviceType: absent}
}

// read reads an event after its opening brace.
func (e *event) read(l *lexer, depth int) error {
	e.reset()
	return l.object(func(key []byte) error {
		if string(key) == "args" {
			return e.args(l, depth)
		}
		into := (func(word []byte))(nil)
		switch string(key) {
		case "ph":
			into = func(w []byte) {
				if len(w) == 1 {
					e.phase = w[0]
				}
			}
		case "cat":
			into = func(w []byte) {
				e.kind, e.annotated, e.own = kindOf(w), string(w) == "user_annotation", string(w) == "Trace"
			}
		case "name":
			into = func(w []byte) { e.name = append(e.name[:0], w...) }
		case "ts":
			into = func(w []byte) { e.ts = parseStamp(w) }
		case "dur":
			into = func(w []byte) { e.dur = parseStamp(w) }
		case "pid":
			into = func(w []byte) { e.pid = integer(w) }
		case "tid":
			into = func(w []byte) { e.tid = integer(w) }
		default:
			return l.skip(depth + 1)
		}
		word, err := l.scalar(depth + 1)
		if err == nil {
			into(word)
		}
		return err
	})
}

// args reads the arguments. Their names have changed too: "external id", "External id".
func (e *event) args(l *lexer, depth int) error {
	c, err := l.next()
	if err != nil {
		return err
	}
	if c != '{' {
		l.back()
		return l.skip(depth + 1)
	}
	return l.object(func(key []byte) error {
		var whole *int64
		var share *float64
		switch string(key) {
		case "correlation":
			whole = &e.correlation
		case "external id", "External id":
			whole = &e.external
		case "stream":
			whole = &e.stream
		case "device", "Device Id":
			whole = &e.device
		case "bytes", "Bytes":
			whole = &e.bytes
		case "Total Allocated":
			whole = &e.allocated
		case "Device Type":
			whole = &e.deviceType
		case "blocks per SM":
			share = &e.blocks
		case "est. achieved occupancy %":
			share = &e.occupancy
		default:
			return l.skip(depth + 2)
		}
		word, err := l.scalar(depth + 2)
		switch {
		case err != nil:
			return err
		case whole == &e.correlation && string(word) == "0": // 0 means none: CUPTI counts from 1
		case whole != nil:
			*whole = integer(word)
		default:
			if *share, err = strconv.ParseFloat(string(word), 64); err != nil {
				*share = math.NaN()
			}
		}
		return nil
	})
}

// place finds the time of the event; false where the event has none.
func (e *event) place() bool {
	nanoseconds := e.ts.whole >= nanosecondEpoch
	start, ok := e.ts.ns(nanoseconds)
	length, lasts := e.dur.ns(nanoseconds)
	e.at = span{start, start + length}
	return ok && lasts && length >= 0 && length <= most-max(start, 0)
}

func integer(word []byte) int64 {
	n, err := strconv.ParseInt(string(word), 10, 64)
	if err != nil {
		return absent
	}
	return n
}

const stepPrefix = "ProfilerStep#"

// isStep reports whether the event is a step of the training, as the host saw it.
func (e *event) isStep() bool {
	return e.kind == kindOperator && bytes.HasPrefix(e.name, []byte(stepPrefix))
}

// loader returns the class of the iterator that the training loop takes batches from; false where the
// event is not a wait for a batch.
func (e *event) loader() (class string, ok bool) {
	name := string(e.name)
	if rest, is := strings.CutPrefix(name, "enumerate(DataLoader)#"); is && strings.HasSuffix(rest, ".__next__") {
		return strings.TrimSuffix(rest, ".__next__"), true
	}
	return strings.CutPrefix(name, "enumerate(DataPipe)#")
}

// way is the direction of a copy.
type way uint8

const (
	toDevice way = iota // also where the direction is not known
	toHost
	within // inside the memory of one device, which counts as the device's work
	peer   // to another device
)

// copied returns the direction of a copy from its name: "Memcpy DtoH (Device -> Pinned)" on NVIDIA's
// and AMD's devices, "Memcpy D2M (...)" on Intel's. pageable reports whether the copy reads host
// memory that is not page-locked.
func (e *event) copied() (w way, pageable bool) {
	kind, ends, _ := strings.Cut(strings.TrimPrefix(string(e.name), "Memcpy "), " ")
	switch kind {
	case "DtoH", "AtoH", "D2M", "D2H", "D2S":
		return toHost, false
	case "DtoD", "AtoA", "AtoD", "DtoA", "D2D":
		return within, false
	case "PtoP":
		return peer, false
	}
	return toDevice, strings.HasPrefix(ends, "(Pageable -> ")
}

// libraries are the communication libraries, as they appear in "nccl:all_reduce".
var libraries = []string{"nccl", "rccl", "gloo", "mpi", "ucc", "xccl", "oneccl", "hccl", "mscclpp", "torch_ccl"}

// spaces are the namespaces of PyTorch's operators of communication.
var spaces = []string{"c10d::", "c10d_functional::", "_c10d_functional::", "symm_mem::"}

// talks are parts of the names of kernels that exchange data between devices, in lower case. They are
// from NCCL and RCCL, MSCCL and MSCCL++, oneCCL, PyTorch's symmetric memory, NVSHMEM, vLLM, AITER, Transformer
// Engine, DeepEP and MORI.
var talks = []string{
	"nccl", "rccl", "msccl", "oneccl", "ccl_kernel", "symm_mem", "multimem_", "nvshmem", "cross_device", "userbuffers", "deep_ep", "mori::",
}

// exchanges are what such kernels are named after by anybody. A kernel of TorchInductor may have the names of
// operators beside it, and computes.
var exchanges = []string{"allreduce", "all_reduce", "allgather", "all_gather", "reducescatter", "reduce_scatter", "alltoall", "all_to_all"}

const inductor = "triton_"

// wraps reports whether the event is an operator of PyTorch that hands data to an operator of
// communication, and may wait for it. A kernel that the operator launches itself is a kernel of
// communication.
func (e *event) wraps() bool {
	return string(e.name) == "record_param_comms" || slices.ContainsFunc(spaces, func(s string) bool { return bytes.HasPrefix(e.name, []byte(s)) })
}

// communicates reports whether the event is an operator of communication between processes
// ("nccl:all_reduce") or a kernel of such an operator ("ncclDevKernel_AllReduce_Sum_f32").
func (e *event) communicates() bool {
	if e.kind == kindKernel {
		lower := bytes.ToLower(e.name)
		named := func(part string) bool { return bytes.Contains(lower, []byte(part)) }
		return slices.ContainsFunc(talks, named) || !bytes.HasPrefix(lower, []byte(inductor)) && slices.ContainsFunc(exchanges, named)
	}
	library, _, of := bytes.Cut(e.name, []byte(":"))
	return of && slices.Contains(libraries, string(library))
}
