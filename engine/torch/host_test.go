package torch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestHost: for each gap the table has what the thread did that launched the end of the gap, the innermost
// of each kind.
func TestHost(t *testing.T) {
	on := func(thread int, category, name string, at, dur int, args string) string {
		return fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"pid":1,"tid":%d,"ts":%d,"dur":%d,"args":{%s}}`, category, name, thread, at, dur, args)
	}
	kernel := func(at, dur, n int) string {
		return on(0, "kernel", "k", at, dur, fmt.Sprintf(`"device":0,"correlation":%d`, n))
	}
	s := importText(t,
		on(1, "user_annotation", "ProfilerStep#1", 0, 1000, ""),
		on(1, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 100, ""),
		on(1, "user_annotation", "forward", 100, 300, ""), on(1, "user_annotation", "attention", 150, 100, ""),
		on(1, "cpu_op", "aten::linear", 160, 60, ""), on(1, "cpu_op", "aten::addmm", 170, 40, ""),
		on(1, "cuda_runtime", "cudaMalloc", 180, 20, ""), on(1, "cuda_runtime", "cudaLaunchKernel", 240, 2, `"correlation":1`),
		on(1, "python_function", "train.py(7): main", 0, 1000, ""), on(1, "python_function", "model/net.py(90): forward", 110, 200, ""),
		on(1, "python_function", "torch/nn/modules/module.py(1501): _call_impl", 120, 100, ""), on(1, "python_function", "threading.py(9): wait", 120, 100, ""),
		on(1, "python_function", "<built-in method relu>", 130, 5, ""), on(1, "python_function", "nn.Module: Net_0", 130, 5, ""),
		kernel(250, 150, 1), // of the gap until 250, thread 1 launched the end
		on(1, "cpu_op", "aten::item", 400, 300, ""),
		on(2, "cpu_op", "MulBackward0", 600, 150, ""), on(2, "cuda_runtime", "cudaLaunchKernel", 740, 5, `"correlation":2`),
		kernel(750, 50, 2), // of the gap from 400, thread 2; thread 1 until it begins, that is until 600
	) // nothing ends the gap from 800: the loop's thread
	var got []string
	for _, h := range s.Meta.Profile.GPUs[0].Host {
		got = append(got, fmt.Sprint(h.Part, " ", h.Name, " ", h.Time/1000))
	}
	want := []string{
		"range attention 100", "range enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__ 100", "range forward 50",
		"operator aten::item 200", "operator MulBackward0 150", "operator aten::addmm 40", "operator aten::linear 20",
		"runtime call cudaMalloc 20", "runtime call cudaLaunchKernel 7",
		"Python function train.py(7): main 510", "Python function model/net.py(90): forward 140",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestInnermost compares with a look at each instant, for random nested tasks.
func TestInnermost(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var tasks []task
		var nest func(from, to int64, depth int)
		nest = func(from, to int64, depth int) {
			for at := from; at < to && depth < 5; {
				begin := at + r.Int64N(5)
				end := min(to, begin+r.Int64N(to-from+1))
				if begin < end {
					tasks = append(tasks, task{span{begin, end}, int32(len(tasks))})
					nest(begin, end, depth+1)
				}
				at = max(end, at+1)
			}
		}
		nest(0, 60, 0)
		want := map[int32]int64{}
		for at := range int64(60) {
			in := int32(-1)
			for _, x := range tasks { // an inner one comes later
				if x.start <= at && at < x.end {
					in = x.name
				}
			}
			want[in]++
		}
		delete(want, -1)
		got := map[int32]int64{}
		r.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
		before := int64(0)
		// Of two equal tasks, the later one is the inner one. Sorting must not change the sums.
		for name, s := range innermost(slices.Clone(tasks)) {
			if s.start < before {
				t.Fatalf("%v after %d", s, before)
			}
			before = s.end
			got[name] += s.length()
		}
		var all, sum int64
		for name, ns := range want {
			sum += ns
			if same := slices.ContainsFunc(tasks, func(x task) bool {
				i := slices.IndexFunc(tasks, func(y task) bool { return y.name == name })
				return x.name != name && x.span == tasks[i].span
			}); !same && got[name] != ns {
				t.Errorf("task %d has %d, want %d", name, got[name], ns)
			}
		}
		for _, ns := range got {
			all += ns
		}
		if all != sum {
			t.Errorf("all have %d, want %d", all, sum)
		}
	}
	for name := range innermost(nil) {
		t.Errorf("task %d of none", name)
	}
}
