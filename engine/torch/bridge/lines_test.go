//go:build linux

package bridge

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/torch/frames"
	"dev.gpustall/engine/trace"
)

// TestPlace: a stack, innermost frame first, says what its thread is at and in which line.
func TestPlace(t *testing.T) {
	const lib = "/env/site-packages/"
	l := &lines{layout: &frames.Layout{Library: []string{"/usr/lib/python3", "/env/site-packages"}}}
	frame := func(file, name string, line int) frames.Frame {
		return frames.Frame{File: file, Name: name, Line: line}
	}
	train := frame("/home/u/train.py", "main", 88)
	next := frame(lib+"torch/utils/data/dataloader.py", "_BaseDataLoaderIter.__next__", 733)
	fetch := frame(lib+"torch/utils/data/_utils/fetch.py", "_MapDatasetFetcher.fetch", 52)
	serve := frame(lib+"torch/utils/data/_utils/worker.py", "_worker_loop", 349)
	blur := frame("/home/u/aug.py", "blur", 42)
	filter := frame(lib+"PIL/ImageFilter.py", "GaussianBlur.filter", 9)
	for _, c := range []struct {
		name  string
		stack []frames.Frame
		of    role
		want  trace.Line
	}{
		{"a transform in a worker", []frames.Frame{filter, blur, fetch, serve, next, train}, roleWorker, trace.Line{At: trace.Loading, File: blur.File, Number: 42, Func: "blur", In: "PIL.ImageFilter.GaussianBlur.filter"}},
		{"the same, in the loop", []frames.Frame{blur, fetch, next, train}, roleLoop, trace.Line{At: trace.Loading, File: blur.File, Number: 42, Func: "blur"}},
		{"a library's transform", []frames.Frame{filter, frame(lib+"torchvision/datasets/folder.py", "ImageFolder.__getitem__", 3), fetch, serve}, roleWorker,
			trace.Line{At: trace.Loading, File: filter.File, Func: "GaussianBlur.filter (PIL)", Library: true}},
		{"a worker without a task", []frames.Frame{frame("/usr/lib/python3/selectors.py", "select", 1), serve, next, train}, roleWorker, trace.Line{At: trace.Idling}},
		{"a worker that begins", []frames.Frame{frame("/usr/lib/python3/random.py", "seed", 1), frame("/home/u/data.py", "begin", 4), serve, next, train}, roleWorker, trace.Line{At: trace.Starting, File: "/home/u/data.py", Number: 4, Func: "begin", In: "random.seed"}},
		{"the loop waits", []frames.Frame{frame("/usr/lib/python3/threading.py", "wait", 1), next, train}, roleLoop, trace.Line{At: trace.Waiting}},
		{"a sampler of the user's", []frames.Frame{frame("/home/u/sampler.py", "__iter__", 5), next, train}, roleLoop, trace.Line{At: trace.Sampling, File: "/home/u/sampler.py", Number: 5, Func: "__iter__"}},
		{"a sampler of PyTorch's", []frames.Frame{frame(lib+"torch/utils/data/sampler.py", "RandomSampler.__iter__", 163), next, train}, roleLoop,
			trace.Line{At: trace.Sampling, File: lib + "torch/utils/data/sampler.py", Func: "RandomSampler.__iter__ (torch)", Library: true}},
		{"the step", []frames.Frame{frame(lib+"torch/_tensor.py", "Tensor.item", 1), train}, roleLoop, trace.Line{At: trace.InStep, File: train.File, Number: 88, Func: "main", In: "torch._tensor.Tensor.item"}},
		{"a forward pass", []frames.Frame{frame("/home/u/net.py", "Net.forward", 5), frame(lib+"torch/nn/modules/module.py", "Module._call_impl", 1), train}, roleLoop, trace.Line{At: trace.Forward, File: "/home/u/net.py", Number: 5, Func: "Net.forward"}},
		{"a backward pass that computes activations again", []frames.Frame{frame(lib+"torch/nn/modules/module.py", "Module._call_impl", 1), frame(lib+"torch/autograd/graph.py", "_engine_run_backward", 1), train}, roleLoop,
			trace.Line{At: trace.Backward, File: train.File, Number: 88, Func: "main", In: "torch.nn.modules.module.Module._call_impl"}},
		{"torch.compile", []frames.Frame{frame(lib+"torch/fx/graph.py", "Graph.lint", 9), frame(lib+"torch/_dynamo/convert_frame.py", "ConvertFrame.__call__", 1), frame(lib+"torch/nn/modules/module.py", "Module._call_impl", 1), train}, roleLoop,
			trace.Line{At: trace.Compiles, File: train.File, Number: 88, Func: "main", In: "torch.fx.graph.Graph.lint"}},
		{"the compile of a backward pass", []frames.Frame{frame(lib+"torch/_inductor/compile_fx.py", "compile_fx.<locals>.bw_compiler", 1), frame(lib+"torch/autograd/graph.py", "_engine_run_backward", 1), train}, roleLoop,
			trace.Line{At: trace.Compiles, File: train.File, Number: 88, Func: "main", In: "torch._inductor.compile_fx.compile_fx.<locals>.bw_compiler"}},
		{"what is compiled", []frames.Frame{frame(lib+"torch/_dynamo/eval_frame.py", "_TorchDynamoContext.__call__", 1), frame(lib+"torch/nn/modules/module.py", "Module._call_impl", 1), train}, roleLoop,
			trace.Line{At: trace.Forward, File: train.File, Number: 88, Func: "main", In: "torch._dynamo.eval_frame._TorchDynamoContext.__call__"}},
		{"a comprehension within one", []frames.Frame{frame(train.File, "<listcomp>", 7), frame(train.File, "real.<locals>.<listcomp>", 7), frame(train.File, "real", 7), train}, roleLoop, trace.Line{At: trace.InStep, File: train.File, Number: 7, Func: "real"}},
		{"an optimizer", []frames.Frame{frame(lib+"torch/optim/adam.py", "Adam.step", 1), train}, roleLoop, trace.Line{At: trace.Stepping, File: train.File, Number: 88, Func: "main", In: "torch.optim.adam.Adam.step"}},
		{"a collective", []frames.Frame{frame(lib+"torch/distributed/distributed_c10d.py", "all_reduce", 1), train}, roleLoop,
			trace.Line{At: trace.Exchange, File: train.File, Number: 88, Func: "main", In: "torch.distributed.distributed_c10d.all_reduce"}},
		{"buffers that are sent before a forward pass", []frames.Frame{frame(lib+"torch/nn/parallel/distributed.py", "DistributedDataParallel._distributed_broadcast_coalesced", 1), train}, roleLoop,
			trace.Line{At: trace.Exchange, File: train.File, Number: 88, Func: "main", In: "torch.nn.parallel.distributed.DistributedDataParallel._distributed_broadcast_coalesced"}},
		{"its closure", []frames.Frame{train, frame(lib+"torch/optim/adam.py", "Adam.step", 1), train}, roleLoop, trace.Line{At: trace.InStep, File: train.File, Number: 88, Func: "main"}},
		{"a package that a .pth file added", []frames.Frame{frame("/opt/x/dist-packages/cv2/utils.py", "read", 1), train}, roleLoop, trace.Line{At: trace.InStep, File: train.File, Number: 88, Func: "main", In: "cv2.utils.read"}},
		{"a command line's script", []frames.Frame{frame("<string>", "<module>", 3)}, roleLoop, trace.Line{At: trace.InStep, File: "<string>", Number: 3, Func: "<module>"}},
	} {
		if got := l.place(c.stack, c.of); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestWaits: a line that calls wait exchanges data, where there are several ranks.
func TestWaits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(file, []byte("[w.wait() for w in works]\nos.wait()\nwaiting()\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range []trace.Doing{1: trace.Exchange, 2: trace.InStep, 3: trace.InStep, 4: trace.InStep} {
		for _, ranked := range []bool{true, false} {
			l := &lines{layout: &frames.Layout{}}
			if l.ranked.Store(ranked); !ranked {
				want = trace.InStep
			}
			if got := l.place([]frames.Frame{{File: file, Name: "main", Line: line}}, roleLoop); line > 0 && got.At != want {
				t.Errorf("line %d, ranked %t: %s", line, ranked, got.At)
			}
		}
	}
}

// TestHolding: of the thread that holds the GIL it is the script's line, else the library's function that the thread runs.
func TestHolding(t *testing.T) {
	l := &lines{layout: &frames.Layout{Library: []string{"/usr/lib/python3"}}}
	run := frames.Frame{File: "/usr/lib/python3/threading.py", Name: "Thread.run", Line: 9}
	poll := frames.Frame{File: "/u/train.py", Name: "poll", Line: 5}
	parse := frames.Frame{File: "/usr/lib/python3/json/decoder.py", Name: "JSONDecoder.decode", Line: 3}
	for _, c := range []struct {
		stack []frames.Frame
		want  trace.Line
	}{
		{[]frames.Frame{parse, poll, run}, trace.Line{At: trace.Locked, File: poll.File, Number: 5, Func: "poll", In: "json.decoder.JSONDecoder.decode"}},
		{[]frames.Frame{parse, run}, trace.Line{At: trace.Locked, File: parse.File, Func: "JSONDecoder.decode (json)", Library: true}},
		{[]frames.Frame{run}, trace.Line{At: trace.Locked, Func: "a library's thread"}},
	} {
		if got := l.apart(trace.Locked, c.stack); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// TestAwaits: where the loop waits for another thread, in whatever way, that thread's line is named.
func TestAwaits(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("skipped: threads of a Python process; python3 is not installed")
	}
	for _, way := range []string{"queue", "simple", "event", "future"} {
		cmd := exec.Command(python, "testdata/waits.py", way)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		var is struct {
			Layout   frames.Layout
			Thread   uint64
			PID, TID int
		}
		if err := json.NewDecoder(out).Decode(&is); err != nil {
			t.Fatal(err)
		}
		if is.Layout.Links == nil {
			t.Skip("skipped: this version of Python has no known list of threads")
		}
		l := &lines{layout: &is.Layout, table: map[trace.Line]*found{}, talked: map[int]int64{}, clock: newClock()}
		k := newLooker()
		loop := thread{pid: is.PID, tid: is.TID, state: is.Thread, codes: is.Layout.CodeType, role: roleLoop}
		for range 120 {
			time.Sleep(time.Duration(5+rand.IntN(10)) * time.Millisecond)
			if err := l.thread(k, loop, []thread{loop}, []thread{loop}); err != nil {
				t.Skip("skipped: ", err)
			}
		}
		looks, right := 0, 0
		for line, f := range l.table {
			if looks += f.looks; line.Func == "computes" {
				right += f.looks
			}
		}
		if looks < 40 || 3*right < looks { // nearly all on an idle host; without it, none
			t.Errorf("%s: of %d looks %d found what the other thread computes", way, looks, right)
		}
	}
}

// TestAwait: looks at a worker count as much as the loop waited for that part of the batch. Looks in a batch
// that was ready do not count, nor do looks that belong to no batch.
func TestAwait(t *testing.T) {
	const ms = 1_000_000
	l := &lines{table: map[trace.Line]*found{}, pending: map[int][]look{}}
	line := map[string]*found{}
	for _, name := range []string{"blur", "pad", "ready", "before", "begin"} {
		line[name] = l.add(trace.Line{At: trace.Loading, File: name, Number: 1}, 50*ms, "")
	}
	parts := map[string]loadPart{"pad": collates, "begin": starts}
	at := func(ns int64, name string) {
		l.pending[7] = append(l.pending[7], look{at: ns, took: 50 * ms, of: line[name], part: parts[name]})
	}
	at(5*ms, "before")
	at(20*ms, "blur")
	at(95*ms, "pad")
	at(120*ms, "ready")
	batch := func(begun, collating, done int64) *batch {
		return &batch{done: done, made: made{pid: 7, begun: begun, collating: collating}}
	}
	// The loop waited for the last 40 of the 80 ms before collation, and for all of the
	// collation.
	l.await(batch(10*ms, 90*ms, 110*ms), 50*ms, 111*ms)
	l.await(batch(110*ms, 0, 150*ms), 160*ms, 161*ms)
	// A worker began 40 ms before its first batch. The loop waited for the last 10 of them.
	first := batch(200*ms, 0, 210*ms)
	first.starts = 160 * ms
	at(180*ms, "begin")
	l.await(first, 190*ms, 211*ms)
	for name, want := range map[string]time.Duration{"blur": 25 * ms, "pad": 50 * ms, "ready": 0, "before": 0, "begin": 12500 * time.Microsecond} {
		if f := line[name]; f.lost != want || (f.awaited == 1) != (want > 0) {
			t.Errorf("%s: %v of %d looks, want %v", name, f.lost, f.awaited, want)
		}
	}
	if len(l.pending[7]) > 0 {
		t.Errorf("%d looks are kept", len(l.pending[7]))
	}
}

// TestEnter: looks that were made after a segment began are its own, although it is known later; so is what the
// loop then waited for.
func TestEnter(t *testing.T) {
	const s = int64(time.Second)
	l := &lines{table: map[trace.Line]*found{}, pending: map[int][]look{}, threads: make([]thread, 9)}
	blur := trace.Line{At: trace.Loading, File: "aug.py", Number: 3, In: "PIL.blur"}
	for at := range int64(5) { // seconds 0 to 4
		l.charge(thread{pid: 7, role: roleWorker}, blur, nil, at*s, time.Duration(at+1))
	}
	l.enter(1, 3*s)
	l.charge(thread{pid: 7, role: roleWorker}, blur, nil, 5*s, 6)
	l.await(&batch{done: 6 * s, made: made{pid: 7, begun: 4 * s}}, 4*s, 6*s)
	blur.In = ""
	for segment, want := range []found{{looks: 3, time: 6}, {looks: 3, time: 15, awaited: 2, lost: 11}} {
		blur.Segment = int32(segment)
		f := l.table[blur]
		if f == nil || f.looks != want.looks || f.time != want.time || f.awaited != want.awaited || f.lost != want.lost || f.in["PIL.blur"] != 3 {
			t.Errorf("segment %d: %+v, want %+v", segment, f, want)
		}
	}
}

// TestStarts: looks from before the end of the first step are told apart, although its end is known later.
func TestStarts(t *testing.T) {
	const s = int64(time.Second)
	l := &lines{table: map[trace.Line]*found{}, pending: map[int][]look{}, threads: make([]thread, 9)}
	step := trace.Line{At: trace.InStep, File: "train.py", Number: 3}
	for at := range int64(5) { // seconds 0 to 4
		l.charge(thread{pid: 7}, step, nil, at*s, time.Duration(at+1))
	}
	l.starts(3*s, true)
	l.charge(thread{pid: 7}, step, nil, 5*s, 6)
	for segment, want := range map[int32]found{trace.FirstStep: {looks: 3, time: 6}, 0: {looks: 3, time: 15}} {
		step.Segment = segment
		if f := l.table[step]; f == nil || f.looks != want.looks || f.time != want.time {
			t.Errorf("segment %d: %+v, want %+v", segment, f, want)
		}
	}
}

// TestManyLines: a segment keeps a bounded number of lines, those with the most time, and all of the time.
func TestManyLines(t *testing.T) {
	l := &lines{table: map[trace.Line]*found{}}
	for i := range 3 * mostLines {
		l.add(trace.Line{At: trace.InStep, File: "train.py", Number: i}, time.Duration(i+1), "")
	}
	sum, n := time.Duration(0), 3*mostLines
	for _, f := range l.table {
		sum += f.time
	}
	if len(l.table) > mostLines+2 || sum != time.Duration(n*(n+1)/2) {
		t.Errorf("%d lines with %d ns of %d", len(l.table), sum, n*(n+1)/2)
	}
	if l.table[trace.Line{At: trace.InStep, File: "train.py", Number: n - 1}] == nil {
		t.Error("the line with the most time is gone")
	}
}

// TestStacks: a line's costliest stacks are told with their time. Names from the user's code cannot
// break the form, and gpustall's own calls are left out.
func TestStacks(t *testing.T) {
	l := &lines{table: map[trace.Line]*found{}, layout: &frames.Layout{Library: []string{"/tmp/x/gpustall"}}}
	odd := l.folded([]frames.Frame{{File: "/u/a;b\n c.py", Name: "f", Line: 3}, {File: "/tmp/x/gpustall/live.py", Name: "_inline", Line: 5}, {File: "/u/train.py", Name: "main", Line: 9}})
	if want := "main (train.py:9);f (a,b  c.py:3)"; odd != want {
		t.Errorf("%q, want %q", odd, want)
	}
	for i := range mostStacks + 9 {
		l.add(trace.Line{At: trace.InStep, File: "train.py", Number: 1}, time.Duration(i+1)*time.Microsecond, fmt.Sprint("f", i, " (train.py:1)"))
	}
	f := l.table[trace.Line{At: trace.InStep, File: "train.py", Number: 1}]
	if want := "f19 (train.py:1) 20\nf18 (train.py:1) 19\nf17 (train.py:1) 18\nf16 (train.py:1) 17\n"; f.stacks() != want {
		t.Errorf("%q, want %q", f.stacks(), want)
	}
	deep := make([]frames.Frame, 90)
	if n := strings.Count(l.folded(deep), ";") + 1; n != deepest {
		t.Errorf("%d calls are told", n)
	}
}

// TestInside: what a thread of the training found counts as a look, and is marked. Where it waited for the GIL, the line is
// not known.
func TestInside(t *testing.T) {
	l := &lines{
		layout: &frames.Layout{Library: []string{"/usr/lib/python3"}}, table: map[trace.Line]*found{}, pending: map[int][]look{}, control: &Control{memory: make([]byte, pageSize)}, stacks: map[int]*stacks{},
		threads: []thread{{pid: 7}},
	}
	l.ask(7, []thread{{role: roleLoop}, {role: roleWorker}, {role: roleWorker}})
	if c := l.control; *c.word(wordLooker) != 7 || *c.word(wordLoops) != uint64(2*lookAtLines) || *c.word(wordWorkers) != uint64(4*lookAtLines) {
		t.Errorf("the training is asked for looks at %d every %d and %d ns", *c.word(wordLooker), *c.word(wordLoops), *c.word(wordWorkers))
	}
	main, blur := frames.Frame{File: "/u/train.py", Name: "main", Line: 9}, frames.Frame{File: "/u/train.py", Name: "blur", Line: 3}
	l.tells(&message{from: 7, Fresh: []frames.Frame{main}, Stack: []int{0}})
	l.tells(&message{from: 7, Fresh: []frames.Frame{blur}, Stack: []int{1, 0}})
	l.tells(&message{from: 7, Fresh: []frames.Frame{{File: "/usr/lib/python3/threading.py", Name: "wait", Line: 327}}, Stack: []int{2, 0}})
	const ms = 1_000_000
	for _, look := range []record{
		{Arg: 0, End: 50 * ms}, {Arg: 1, End: 40 * ms}, {Arg: 1, End: 30 * ms, Waiting: 2 * ms}, {Arg: 1, End: 20 * ms, Waiting: 5 * ms}, {Arg: 3, End: 9 * ms},
		{Arg: 2, Sample: 1, End: 8 * ms, Waiting: 5 * ms}, {Arg: 0, Sample: 1, End: 6 * ms}, {Arg: 0, Sample: 1, End: 7 * ms, Waiting: 5 * ms},
	} {
		if look.Sample == 0 {
			look.Sample = -1
		}
		l.inside(&ring{pid: 7, worker: -1}, &look)
	}
	got := map[string]time.Duration{}
	for line, f := range l.table {
		if !line.Approximate {
			t.Errorf("%+v is not marked", line)
		}
		got[fmt.Sprint(line.At, line.Func, line.Number)] += f.time
	}
	if want := map[string]time.Duration{"scriptmain9": 56 * ms, "scriptblur3": 60 * ms, "scriptcode that holds the GIL0": 30 * ms, "threadblur3": 8 * ms, "GIL heldblur3": 7 * ms}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestNext: the loop is looked at in each turn, and with it one worker after another.
func TestNext(t *testing.T) {
	loop, one, two := thread{1, 1, 1, 1, roleLoop, false, 1, 0}, thread{2, 2, 1, 1, roleWorker, false, 1, 0}, thread{3, 3, 1, 1, roleWorker, false, 1, 0}
	seen := map[int]int{}
	for turn := range 40 {
		for _, of := range next([]thread{loop, one, two, {4, 4, 0, 1, roleWorker, false, 1, 0}}, turn) {
			seen[of.pid]++
		}
	}
	if want := map[int]int{1: 40, 2: 20, 3: 20}; !maps.Equal(seen, want) {
		t.Errorf("looks %v, want %v", seen, want)
	}
	if of := next([]thread{loop}, 1); len(of) != 1 || of[0] != loop {
		t.Error("a loop without workers is not looked at")
	}
	if of := next(nil, 0); of != nil {
		t.Error("there is no thread")
	}
}

// TestLookRates: with off there are no looks, and the time meanwhile is charged to no line. With fast there
// are more looks.
func TestLookRates(t *testing.T) {
	b := &Bridge{}
	if b.Looks() != "on" || len(LookRates) != len(lineGaps) {
		t.Errorf("by default lines are %s", b.Looks())
	}
	if b.SetLooks("fast"); lineGaps[b.lines.rate.Load()] >= lookAtLines {
		t.Error("fast is not faster")
	}
	if b.SetLooks("off"); b.Looks() != "off" || lineGaps[b.lines.rate.Load()] != 0 {
		t.Error("off looks")
	}
}
