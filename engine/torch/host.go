package torch

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"dev.gpustall/engine/trace"
)

// task is what a thread of the host did: a call of the runtime, an operator, a range or a function.
type task struct {
	span
	name int32
}

// ownFrame reports whether an event of the profiler's with_stack calls a Python function of the
// user's: one outside of PyTorch, its companions and the standard library. The name is the file's
// path without the folder that Python found it in, the function's first line and its name.
func ownFrame(name []byte) bool {
	path, _, ok := bytes.Cut(name, []byte(".py("))
	if !ok || bytes.Contains(path, []byte("-packages/")) || bytes.Contains(path, []byte("/lib/python3")) {
		return false
	}
	first, _, _ := bytes.Cut(path, []byte("/"))
	return !slices.Contains(foreign, string(first))
}

// foreign are files and folders of PyTorch, its companions and the standard library.
var foreign = []string{
	"torch", "torchvision", "torchaudio", "torchdata", "triton", "numpy", "PIL", "tqdm", "transformers", "accelerate", "datasets", "lightning",
	"pytorch_lightning", "deepspeed", "functorch",
	"_collections_abc", "_weakrefset", "abc", "ast", "asyncio", "bisect", "codecs", "collections", "concurrent", "contextlib", "copy", "copyreg",
	"dataclasses", "email", "enum", "functools", "genericpath", "gzip", "heapq", "importlib", "inspect", "io", "json", "linecache", "logging",
	"multiprocessing", "numbers", "operator", "os", "pathlib", "pickle", "posixpath", "queue", "random", "re", "selectors", "shutil", "signal",
	"socket", "ssl", "statistics", "string", "subprocess", "tempfile", "textwrap", "threading", "tokenize", "traceback", "types", "typing",
	"urllib", "uuid", "warnings", "weakref", "zipfile", "zipimport",
}

// gaps returns the times in which nothing ran on a GPU. Each comes with the number of the event
// that ends it, which is len(events) for the last gap. events must be in order.
func gaps(events []deviceEvent, steps ranges) iter.Seq2[int, span] {
	return func(yield func(int, span) bool) {
		if len(steps) == 0 {
			return
		}
		until := steps[0].start
		for i := range events {
			if d := &events[i]; d.start > until && !yield(i, span{until, d.start}) {
				return
			}
			until = max(until, events[i].end)
		}
		if end := steps[len(steps)-1].end; end > until {
			yield(len(events), span{until, end})
		}
	}
}

// maxThreads is how many threads of the host are told apart.
const maxThreads = 64

// host returns what the host was doing while nothing ran on the GPU of these events: the innermost call
// of the runtime, operator, range and Python function. For each gap it looks at the thread that launched
// the work which ended the gap. While nothing of that thread is recorded, it looks at the loop's thread.
func (r *recording) host(events []deviceEvent, steps ranges, launched func(int64) *call) []trace.HostTime {
	if r.tooMany || len(r.operators)+len(r.calls) == 0 {
		return nil
	}
	loop, of := r.loop, map[int64]ranges{}
	if len(r.loops) == 0 && len(r.calls) > 0 {
		loop = r.calls[0].thread
	}
	for i, gap := range gaps(events, steps) {
		thread := loop
		if i < len(events) {
			if c := launched(events[i].correlation); c != nil && (of[c.thread] != nil || len(of) < maxThreads) {
				thread = c.thread
			}
		}
		of[thread] = append(of[thread], steps.within(gap)...)
	}
	h := hostTimes{r: r, sums: map[trace.HostPart]map[int32]int64{}}
	var left []span
	for thread, in := range of {
		if thread != loop {
			left = append(left, in.without(h.look(thread, in))...)
		}
	}
	in := merged(slices.Concat(of[loop], left))
	h.look(loop, in)
	return h.times()
}

// hostTimes adds up what the host did.
type hostTimes struct {
	r    *recording
	sums map[trace.HostPart]map[int32]int64
}

// look adds what a thread did in some time, and returns the times in which it did
// anything.
func (h *hostTimes) look(thread int64, in ranges) ranges {
	var busy pile
	part := func(p trace.HostPart, tasks []task) {
		sums := h.sums[p]
		if sums == nil {
			sums = map[int32]int64{}
			h.sums[p] = sums
		}
		at := 0
		for name, s := range innermost(tasks) {
			for at < len(in) && in[at].end <= s.start {
				at++
			}
			for k := at; k < len(in) && in[k].start < s.end; k++ {
				both := span{max(s.start, in[k].start), min(s.end, in[k].end)}
				sums[name] += both.length()
				busy.add(both)
			}
		}
	}
	var calls []task
	for i := range h.r.calls {
		if c := &h.r.calls[i]; c.thread == thread {
			calls = append(calls, task{c.span, c.name})
		}
	}
	part(trace.HostCall, calls)
	of := func(from []operator, named bool) (out []task) {
		for i := range from {
			if o := &from[i]; o.thread == thread && o.named == named {
				out = append(out, task{o.span, o.name})
			}
		}
		return out
	}
	part(trace.HostOperator, of(h.r.operators, false))
	part(trace.HostRange, slices.Concat(of(h.r.operators, true), of(h.r.beside.ranges, true)))
	part(trace.HostFrame, of(h.r.beside.frames, false))
	return busy.ranges()
}

// innermost divides the time of one thread's nested tasks among the innermost ones.
func innermost(tasks []task) iter.Seq2[int32, span] {
	slices.SortFunc(tasks, func(a, b task) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	return func(yield func(int32, span) bool) {
		var stack []task
		var at int64
		to := func(t int64) bool { // yields what was innermost until t
			top := &stack[len(stack)-1]
			s := span{at, min(t, top.end)}
			at = max(at, s.end)
			return s.end <= s.start || yield(top.name, s)
		}
		for i := range tasks {
			t := &tasks[i]
			for len(stack) > 0 && stack[len(stack)-1].end <= t.start {
				if !to(t.start) {
					return
				}
				stack = stack[:len(stack)-1]
			}
			if len(stack) > 0 && !to(t.start) {
				return
			}
			at = max(at, t.start)
			stack = append(stack, *t)
		}
		for ; len(stack) > 0; stack = stack[:len(stack)-1] {
			if !to(stack[len(stack)-1].end) {
				return
			}
		}
	}
}

// listedHost is how many rows of each part are kept.
const listedHost = 10

// times returns the largest sums of each part.
func (h *hostTimes) times() (out []trace.HostTime) {
	for _, p := range trace.HostParts {
		names := &h.r.names
		if p == trace.HostFrame {
			names = &h.r.beside.functions
		}
		var rows []trace.HostTime
		for name, ns := range h.sums[p] {
			row := trace.HostTime{Part: p, Name: "others", Time: ns}
			if name >= 0 {
				row.Name = names.of[name]
			}
			if ns > 0 {
				rows = append(rows, row)
			}
		}
		slices.SortFunc(rows, func(a, b trace.HostTime) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name)) })
		out = append(out, rows[:min(len(rows), listedHost)]...)
	}
	return out
}
