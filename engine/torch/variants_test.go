package torch

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

// x returns an event of a trace as text. Times are as they are written.
func x(category, name, ts, dur, args string) string {
	return fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"pid":7,"tid":7,"ts":%s,"dur":%s,"args":{%s}}`, category, name, ts, dur, args)
}

// launch returns a kernel and the call that launched it, as text.
func launch(runtime, kernel string, at, start, dur, correlation int) string {
	return x(runtime, "cudaLaunchKernel", fmt.Sprint(at), "2", fmt.Sprintf(`"correlation":%d`, correlation)) + "," +
		x(kernel, "gemm", fmt.Sprint(start), fmt.Sprint(dur), fmt.Sprintf(`"device":0,"correlation":%d`, correlation))
}

func importText(t *testing.T, events ...string) *trace.Snapshot {
	t.Helper()
	s, err := Import(context.Background(), strings.NewReader(`{"schemaVersion":1,"traceEvents":[`+strings.Join(events, ",")+`]}`), "x.json")
	if err != nil {
		t.Fatal(err)
	}
	exact(t, s)
	return s
}

// us returns the columns of a step of the profile, in microseconds, and the step's
// length.
func us(s *trace.ProfiledStep) (out [trace.NumRoles + 1]int64) {
	for i, ns := range append(s.Roles[:], s.Length) {
		out[i] = ns / 1000
	}
	return out
}

type columns = [trace.NumRoles + 1]int64

// TestVersions: the words of each version for the same training give the same account.
func TestVersions(t *testing.T) {
	for _, v := range []struct{ step, kernel, memcpy, memset, runtime, loader, op, next string }{
		{"Operator", "Kernel", "Memcpy", "Memset", "Runtime", "Operator", "Operator", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"},
		{"cpu_op", "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cpu_op", "cpu_op", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"},
		{"user_annotation", "kernel", "gpu_memcpy", "gpu_memset", "cuda_driver", "user_annotation", "cpu_op", "enumerate(DataPipe)#Batcher"},
	} {
		s := importText(t,
			x(v.step, "ProfilerStep#3", "100", "100", ""),
			x(v.loader, v.next, "100", "30", ""),
			x(v.op, "aten::conv2d", "130", "40", ""),
			launch(v.runtime, v.kernel, 140, 150, 20, 1),
			x(v.memcpy, "Memcpy HtoD (Pinned -> Device)", "120", "10", `"bytes":4096,"device":0,"correlation":1`),
			x(v.memset, "Memset (Device)", "170", "5", `"device":0`),
			x("gpu_user_annotation", "ProfilerStep#3", "150", "500", ""),
			x("python_function", "train.py: main", "0", "9000", ""),
		)
		want := columns{20, 10, 5, 0, 2, 20, 18, 25, 100}
		if got := us(&s.Meta.Profile.Steps[0]); len(s.Recent) != 1 || got != want {
			t.Errorf("%s: %d steps, %v, want %v", v.kernel, len(s.Recent), got, want)
		}
		if st := &s.Recent[0]; st.Index != 3 || st.Wait != 30_000 || st.Bytes != 4096 || st.Busy != 20_000 {
			t.Errorf("%s: %+v", v.kernel, st)
		}
	}
}

// TestStamps: whole microseconds, their thousandths, nanoseconds and times relative to a
// base mean the same.
func TestStamps(t *testing.T) {
	for _, c := range []struct{ ts, dur, head string }{
		{"1623142623460111", "100", ""},
		{"1623142623460111.000", "100.000", ""},
		{"1623142623460111000", "100000", ""},
		{"1.623142623460111e15", "1e2", ""},
		{`"1623142623460111"`, `"100"`, ""},
		{"23460111", "100", `"baseTimeNanoseconds":1623142600000000000,`},
	} {
		text := "{" + c.head + `"traceEvents":[` + x("cpu_op", "ProfilerStep#1", c.ts, c.dur, "") + "]}"
		s, err := Import(context.Background(), strings.NewReader(text), "x")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Recent[0].End; got != 100_000 || s.Meta.Started.UnixNano() != 1623142623460111000 {
			t.Errorf("%s: %d ns from %s", c.ts, got, s.Meta.Started)
		}
	}
	s := importText(t, x("cpu_op", "ProfilerStep#1", "10.125", "1.5004", ""))
	if got := s.Recent[0].End; got != 1500 || !s.Meta.Started.IsZero() {
		t.Errorf("%d ns from %s", got, s.Meta.Started)
	}
}

func TestSteps(t *testing.T) {
	step := func(n, ts, dur int) string {
		return x("user_annotation", fmt.Sprintf("ProfilerStep#%d", n), fmt.Sprint(ts), fmt.Sprint(dur), "")
	}
	op := func(ts, dur int) string { return x("cpu_op", "aten::add", fmt.Sprint(ts), fmt.Sprint(dur), "") }
	many := func(n, from, gap int) string {
		var out []string
		for i := range n {
			out = append(out, launch("cuda_runtime", "kernel", from+gap*i, from+gap*i+5, 5, 1+from+i))
		}
		return strings.Join(out, ",")
	}
	for _, c := range []struct {
		name   string
		events []string
		ends   []int64 // us of each step
		index  []int32
		cut    int
		busy   int64 // us of the first
	}{
		{"cpu only", []string{step(1, 0, 100), op(10, 50), step(2, 100, 100), op(100, 100)}, []int64{100, 200}, []int32{1, 2}, 0, 50},
		{"no steps", []string{op(10, 50), op(80, 20)}, []int64{90}, []int32{0}, 0, 70},
		{"device alone", []string{x("kernel", "k", "5", "10", ""), x("kernel", "k", "25", "10", "")}, []int64{30}, []int32{0}, 0, 20},
		{"overlapping", []string{step(1, 0, 100), op(0, 50), step(2, 80, 100), op(150, 10)}, []int64{100, 180}, []int32{1, 2}, 0, 50},
		{"in another order", []string{step(2, 100, 100), op(150, 10), step(1, 0, 100), op(0, 50)}, []int64{100, 200}, []int32{1, 2}, 0, 50},
		{"one within another", []string{step(1, 0, 100), op(0, 50), step(2, 20, 10)}, []int64{100, 100}, []int32{1, 2}, 0, 50},
		{"numbered twice", []string{step(1, 0, 100), op(0, 50), step(1, 100, 100), op(150, 10)}, []int64{100, 200}, []int32{0, 1}, 0, 50},
		{"a tail without operators", []string{step(1, 0, 100), op(0, 50), step(2, 100, 100), op(100, 50), step(3, 200, 100)}, []int64{100, 200}, []int32{1, 2}, 1, 50},
		{"a whole tail", []string{step(1, 0, 100), many(10, 0, 9), step(2, 100, 100), many(8, 110, 9)}, []int64{100, 200}, []int32{1, 2}, 0, 50},
		{"a cut tail", []string{step(1, 0, 100), many(10, 0, 9), step(2, 100, 100), many(7, 110, 9)}, []int64{100}, []int32{1}, 1, 50},
		{"tails without work", []string{step(1, 0, 100), many(10, 0, 9), step(2, 100, 50), step(3, 150, 50)}, []int64{100}, []int32{1}, 2, 50},
		{"work after the host's end", []string{step(1, 0, 100), launch("cuda_runtime", "kernel", 90, 95, 30, 1), step(2, 100, 100), launch("cuda_runtime", "kernel", 150, 160, 5, 2)},
			[]int64{125, 200}, []int32{1, 2}, 0, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := importText(t, c.events...)
			var ends []int64
			var index []int32
			for i := range s.Recent {
				ends, index = append(ends, s.Recent[i].End/1000), append(index, s.Recent[i].Index)
			}
			if fmt.Sprint(ends) != fmt.Sprint(c.ends) || fmt.Sprint(index) != fmt.Sprint(c.index) || s.Meta.Profile.Cut != c.cut || s.Recent[0].Busy != c.busy*1000 {
				t.Errorf("ends %v, steps %v, %d left out, busy %d ns; want %v, %v, %d, %d us", ends, index, s.Meta.Profile.Cut, s.Recent[0].Busy, c.ends, c.index, c.cut, c.busy)
			}
		})
	}
}

// TestCommunication: kernels count as communication by the operator that launched them,
// or by their own name.
func TestCommunication(t *testing.T) {
	s := importText(t,
		x("cpu_op", "ProfilerStep#1", "0", "100", ""),
		x("kernel", "allreduce", "10", "10", `"External id":5,"device":0`),
		x("user_annotation", "nccl:all_reduce", "5", "3", `"External id":5`),
		x("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "30", "10", `"device":0`),
		x("kernel", "gemm", "35", "10", `"device":0`),
	)
	want := columns{10, 0, 0, 18, 0, 0, 0, 72, 100}
	if got := us(&s.Meta.Profile.Steps[0]); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := s.Recent[0].Stall[trace.CauseCommunication]; got != 18_000 {
		t.Errorf("%d ns lost to communication", got)
	}
}

// TestCommunicationKernels: the name of a kernel, from any library, tells that it exchanges data, or the
// operator that launched it does. Copies do not hide communication, and kernels that compute do.
func TestCommunicationKernels(t *testing.T) {
	for name, talks := range map[string]bool{
		"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": true, "ncclSymDevKernel_AllGather_LL": true, "rcclGenericKernel": true,
		"void c10d::symmetric_memory::one_shot_all_reduce_kernel<float>": true, "void multimem_all_reduce_kernel<c10::BFloat16, 16>": true,
		"void mscclpp::allreduce<float>": true, "oneccl_allreduce_ring": true, "void vllm::cross_device_reduce_1stage<half, 8>": true,
		"flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<x>": true, "void sgl_hip::allreduce_one_shot<bf16>": true, "mori::moe::EpDispatchIntraNodeKernel": true,
		"triton_poi_fused_all_gather_into_tensor_cat_0": false,
		"void at::native::reduce_kernel<512, 1>":        false, "sm80_xmma_gemm_f32f32": false, "Cijk_Ailk_Bljk_SB": false,
	} {
		s := importText(t, x("user_annotation", "ProfilerStep#1", "0", "100", ""), x("kernel", name, "10", "20", `"device":0`))
		if got := s.Meta.Profile.GPUs[0].Talked == 20_000; got != talks {
			t.Errorf("%s communicates: %v", name, got)
		}
	}
	for name, talks := range map[string]bool{"c10d::allreduce_": true, "_c10d_functional::all_reduce": true, "symm_mem::one_shot_all_reduce": true, "gloo:all_reduce": true, "aten::sum": false} {
		s := importText(t, x("user_annotation", "ProfilerStep#1", "0", "100", ""), x("cpu_op", name, "2", "1", `"External id":5`),
			x("kernel", "k", "10", "20", `"External id":5,"device":0`), x("kernel", "gemm", "25", "10", `"device":0`),
			x("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "5", "10", `"bytes":64,"device":0`))
		g := &s.Meta.Profile.GPUs[0]
		if got := g.Talked == 20_000 && g.Exposed == 15_000 && g.Overlap() == 0.25; got != talks {
			t.Errorf("%s: %d ns, of which %d exposed", name, g.Talked, g.Exposed)
		}
		if talks { // 10 to 25, of which the copy has 5; the operator's own 1 us beside
			want := int64(15_000)
			if strings.HasPrefix(name, "gloo") {
				want += 1000
			}
			if st := s.Recent[0].Stall; st[trace.CauseCommunication] != want || st[trace.CauseCopy] != 5000 {
				t.Errorf("%s: %d ns lost to communication, %d to copies", name, st[trace.CauseCommunication], st[trace.CauseCopy])
			}
		}
	}
}

// TestHostCommunication: without a device, communication that operators hide is not lost, and
// operators that only hand data over hide nothing. The loader is the one that the loop was longest
// in.
func TestHostCommunication(t *testing.T) {
	s := importText(t,
		x("user_annotation", "ProfilerStep#1", "0", "100", ""),
		x("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "0", "10", ""),
		x("cpu_op", "aten::linear", "10", "40", ""), x("user_annotation", "gloo:all_reduce", "20", "20", ""),
		x("cpu_op", "c10d::allreduce_", "60", "25", ""), x("user_annotation", "gloo:all_reduce", "60", "20", ""),
		x("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "90", "5", ""),
	)
	if st := &s.Recent[0]; st.Busy != 45_000 || st.Stall[trace.CauseCommunication] != 20_000 || st.Wait != 15_000 {
		t.Errorf("busy %d, communication %d, wait %d ns", st.Busy, st.Stall[trace.CauseCommunication], st.Wait)
	}
	if got := s.Meta.Profile.Loader; got != "_MultiProcessingDataLoaderIter" {
		t.Error(got)
	}
}

// TestStepsThatDoNotLast: a trace whose steps take no time can be read, and has no
// shares.
func TestStepsThatDoNotLast(t *testing.T) {
	s := importText(t, x("cpu_op", "ProfilerStep#1", "10", "0", ""), x("kernel", "k", "50", "10", `"device":0,"correlation":1`))
	if g := s.Meta.Profile.GPUs; len(g) != 1 || g[0].Idle.All() != 0 || s.Meta.Profile.ShareOf(5) != 0 {
		t.Errorf("%+v", s.Meta.Profile)
	}
}

// TestGPUs: two GPUs are told apart. Idle time is divided by what ended it. What the
// trace does not tell is nil.
func TestGPUs(t *testing.T) {
	kernel := func(device, start, dur, correlation int, more string) string {
		return x("kernel", "k", fmt.Sprint(start), fmt.Sprint(dur), fmt.Sprintf(`"device":%d,"correlation":%d%s`, device, correlation, more))
	}
	call := func(at, correlation int) string {
		return x("cuda_runtime", "cudaLaunchKernel", fmt.Sprint(at), "1", fmt.Sprintf(`"correlation":%d`, correlation))
	}
	text := `{"deviceProperties":[{"id":0,"name":"A","totalGlobalMem":1000},{"id":1,"name":"B"}],"traceEvents":[` + strings.Join([]string{
		x("cpu_op", "ProfilerStep#1", "0", "100", ""),
		call(0, 1), kernel(0, 10, 10, 1, `,"blocks per SM":0.5,"est. achieved occupancy %":40`), // 0 to 10 else: launched at 0
		call(15, 2), kernel(0, 21, 9, 2, `,"blocks per SM":2,"est. achieved occupancy %":80`), // kernel wait of 1
		call(40, 3), kernel(0, 50, 10, 3, ""), // 20 late
		call(45, 4), kernel(0, 95, 5, 4, ""), // 35 else
		call(5, 5), kernel(1, 20, 40, 5, ""),
		`{"ph":"i","name":"[memory]","ts":5,"args":{"Device Type":1,"Device Id":0,"Bytes":5,"Total Allocated":700}}`,
		`{"ph":"i","name":"[memory]","ts":6,"args":{"Device Type":0,"Device Id":-1,"Bytes":5,"Total Allocated":9000}}`,
	}, ",") + "]}"
	s, err := Import(context.Background(), strings.NewReader(text), "x")
	if err != nil {
		t.Fatal(err)
	}
	g := s.Meta.Profile.GPUs
	if len(g) != 2 || g[0].Name != "A" || g[1].Name != "B" || g[0].Utilisation != 0.34 || g[1].Utilisation != 0.4 {
		t.Fatalf("%+v", g)
	}
	if want := (trace.IdleTime{Host: 20_000, Kernel: 1000, Other: 45_000}); g[0].Idle != want {
		t.Errorf("idle %+v, want %+v", g[0].Idle, want)
	}
	if want := (trace.Launches{Count: 4, Delay: 9000, Queue: 0.75, QueueMost: 2}); g[0].Launches != want {
		t.Errorf("launches %+v, want %+v", g[0].Launches, want)
	}
	if got, want := *g[0].Efficiency, (0.5*10+1*9)/100; got != want {
		t.Errorf("SM efficiency %v, want %v", got, want)
	}
	if got, want := *g[0].Occupancy, (0.4*10+0.8*9)/19; got-want > 1e-12 || want-got > 1e-12 {
		t.Errorf("occupancy %v, want %v", got, want)
	}
	if g[1].Efficiency != nil || g[1].Occupancy != nil || g[1].Peak != 0 || g[1].Memory != 0 {
		t.Errorf("invented for the second: %+v", g[1])
	}
	if g[0].Peak != 700 || g[0].Memory != 1000 || s.Outcome.PeakBytes != 700 {
		t.Errorf("memory %+v", g[0])
	}
}

// TestLaunches: work that is shorter than its call, outliers among calls and delays, and the queue of the stream with most
// work are as Holistic Trace Analysis defines them.
func TestLaunches(t *testing.T) {
	work := func(stream, call, took, at, dur, n int) string {
		return x("cuda_runtime", "cudaLaunchKernel", fmt.Sprint(call), fmt.Sprint(took), fmt.Sprintf(`"correlation":%d`, n)) + "," +
			x("kernel", "k", fmt.Sprint(at), fmt.Sprint(dur), fmt.Sprintf(`"device":0,"stream":%d,"correlation":%d`, stream, n))
	}
	text := `{"traceEvents":[` + strings.Join([]string{
		x("cpu_op", "ProfilerStep#1", "0", "2000", ""),
		work(7, 0, 10, 20, 5, 1),                                               // short, 10 late
		work(7, 10, 10, 400, 500, 2),                                           // 380 late
		work(7, 20, 80, 900, 600, 3),                                           // a long call, 800 late
		work(8, 100, 10, 110, 100, 4),                                          // at once
		x("kernel", "k", "1600", "9", `"device":0,"stream":8,"correlation":9`), // its call is not on record
	}, ",") + "]}"
	s, err := Import(context.Background(), strings.NewReader(text), "x")
	if err != nil {
		t.Fatal(err)
	}
	// Stream 7: +1 at 0, +1 at 10, +1 and -1 at 20, -1 at 400, -1 at 900.
	want := trace.Launches{Count: 4, Short: 1, LongCalls: 1, Delayed: 2, Delay: 380_000, Queue: 9. / 6, QueueMost: 3}
	if got := s.Meta.Profile.GPUs[0].Launches; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// generator is a trace of n steps of 100 kernels, which is made while it is read.
type generator struct {
	n, at int
	text  []byte
}

func (g *generator) Read(p []byte) (int, error) {
	for len(g.text) == 0 {
		switch {
		case g.at == 0:
			g.text = []byte(`{"traceEvents":[`)
		case g.at <= g.n:
			from := 1000 * g.at
			events := []string{x("cpu_op", fmt.Sprintf("ProfilerStep#%d", g.at), fmt.Sprint(from), "1000", `"stack":"`+strings.Repeat("f;", 5000)+`"`)}
			for i := range 100 {
				events = append(events, launch("cuda_runtime", "kernel", from+10*i, from+10*i+3, 5, 100*g.at+i), x("cpu_op", "aten::mm", fmt.Sprint(from+10*i), "4", ""))
			}
			g.text = []byte(strings.Join(events, ","))
			if g.at < g.n {
				g.text = append(g.text, ',')
			}
		case g.at == g.n+1:
			g.text = []byte("]}")
		default:
			return 0, io.EOF
		}
		g.at++
	}
	n := copy(p, g.text)
	g.text = g.text[n:]
	return n, nil
}

// TestMemory: only a small part of a trace is kept, and its size depends on the number
// of kernels and not of bytes.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 50 MB")
	}
	const steps = 1000
	rec, err := read(context.Background(), &generator{n: steps})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if len(rec.device) != 100*steps || len(rec.steps) != steps {
		t.Errorf("%d kernels, %d steps", len(rec.device), len(rec.steps))
	}
	if m.HeapAlloc > 40<<20 {
		t.Errorf("%d MiB are held of %d kernels", m.HeapAlloc>>20, len(rec.device))
	}
	runtime.KeepAlive(rec)
}

// TestCopies: a copy within a device is the device's work, and a copy to the host is the
// wait for a result. The copy also tells what a call of the runtime waited for.
func TestCopies(t *testing.T) {
	copied := func(name string, at, start, dur, n int) string {
		return x("cuda_runtime", "cudaMemcpyAsync", fmt.Sprint(at), "40", fmt.Sprintf(`"correlation":%d`, n)) + "," +
			x("gpu_memcpy", "Memcpy "+name, fmt.Sprint(start), fmt.Sprint(dur), fmt.Sprintf(`"bytes":64,"device":0,"correlation":%d`, n))
	}
	for _, c := range []struct {
		name                             string
		busy, copy, sync, launch, others int64 // us
	}{
		{"HtoD (Pageable -> Device)", 0, 10, 40, 0, 0},
		{"M2D (Host -> Device)", 0, 10, 40, 0, 0},
		{"DtoH (Device -> Pageable)", 0, 0, 50, 0, 0},
		{"D2M (Device -> Host)", 0, 0, 50, 0, 0},
		{"DtoD (Device -> Device)", 10, 0, 0, 40, 0},
		{"PtoP (Device -> Device)", 0, 0, 0, 40, 10},
	} {
		s := importText(t, x("cpu_op", "ProfilerStep#1", "0", "100", ""), copied(c.name, 10, 50, 10, 1))
		st := &s.Recent[0]
		got := [5]int64{st.Busy, st.Stall[trace.CauseCopy], st.Stall[trace.CauseSync], st.Stall[trace.CauseLaunch], st.Stall[trace.CauseCommunication]}
		if want := [5]int64{c.busy * 1000, c.copy * 1000, c.sync * 1000, c.launch * 1000, c.others * 1000}; got != want {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
		if got := us(&s.Meta.Profile.Steps[0]); got[trace.RoleMemcpy] != 10 || got[trace.RoleRuntime] != 40 {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestCalls: the cause of a gap is the purpose of the call in it. A copy that waits is not copying, and a
// call that frees memory or loads a module is no launch.
func TestCalls(t *testing.T) {
	call := func(name string, at, dur, n int) string {
		return x("cuda_runtime", name, fmt.Sprint(at), fmt.Sprint(dur), fmt.Sprintf(`"correlation":%d`, n))
	}
	copied := func(name string, at, n int) string {
		return x("gpu_memcpy", "Memcpy "+name, fmt.Sprint(at), "2", fmt.Sprintf(`"bytes":60,"device":0,"correlation":%d`, n))
	}
	slow := func(name string, at, dur, n int) string { // a kernel whose launch takes so long
		return call("cudaLaunchKernel", at, dur, n) + "," + x("kernel", name, fmt.Sprint(at+dur), "10", fmt.Sprintf(`"device":0,"correlation":%d`, n))
	}
	type stalls map[trace.Cause]int64 // us
	for _, c := range []struct {
		name         string
		events       []string
		want         stalls
		sends, blind int64
		idle         trace.IdleTime
	}{
		{"a copy to the device that waits", []string{call("cudaMemcpyAsync", 10, 800, 1), copied("HtoD (Host -> Device)", 800, 1)},
			stalls{trace.CauseCopy: 2, trace.CauseSync: 798, trace.CauseUnknown: 200}, 798, 0, trace.IdleTime{Host: 800, Other: 198}},
		{"a copy to the host", []string{call("cudaMemcpyAsync", 10, 800, 1), copied("DtoH (Device -> Pageable)", 800, 1)},
			stalls{trace.CauseSync: 800, trace.CauseUnknown: 200}, 0, 0, trace.IdleTime{Host: 800, Other: 198}},
		{"free", []string{x("cpu_op", "aten::conv2d", "5", "813", ""), call("cudaFree", 10, 800, 1), launch("cuda_runtime", "kernel", 812, 820, 170, 2)},
			stalls{trace.CauseMemory: 800, trace.CauseLaunch: 5 + 8, trace.CauseUnknown: 17}, 0, 0, trace.IdleTime{Host: 820, Other: 10}},
		{"the first call of all, which makes the context", []string{call("cudaDeviceGetStreamPriorityRange", 10, 800, 1)}, stalls{trace.CauseInit: 800, trace.CauseUnknown: 200}, 0, 0, trace.IdleTime{}},
		{"Python from one operator to the next, and for longer", []string{x("cpu_op", "aten::add", "0", "100", ""), x("cpu_op", "aten::add", "200", "100", ""), x("cpu_op", "aten::add", "401", "599", "")},
			stalls{trace.CauseLaunch: 899, trace.CauseUnknown: 101}, 0, 0, trace.IdleTime{}},
		{"HIP's free", []string{call("hipFree", 10, 800, 1)}, stalls{trace.CauseMemory: 800, trace.CauseUnknown: 200}, 0, 0, trace.IdleTime{}},
		{"page-locking", []string{call("cudaHostAlloc", 10, 800, 1)}, stalls{trace.CauseMemory: 800, trace.CauseUnknown: 200}, 0, 0, trace.IdleTime{}},
		{"a module", []string{call("cuModuleLoadData", 10, 800, 1)}, stalls{trace.CauseInit: 800, trace.CauseUnknown: 200}, 0, 0, trace.IdleTime{}},
		{"a module, loaded by a question", []string{call("cudaFuncGetAttributes", 10, 800, 1)}, stalls{trace.CauseInit: 800, trace.CauseUnknown: 200}, 0, 0, trace.IdleTime{}},
		{"an event", []string{call("cudaEventRecord", 10, 800, 1)}, stalls{trace.CauseLaunch: 800, trace.CauseUnknown: 200}, 0, 0, trace.IdleTime{}},
		{"a kernel's first launch, and another one as slow", []string{slow("a", 0, 2000, 1), slow("a", 3000, 2000, 2), slow("b", 6000, 900, 3)},
			stalls{trace.CauseInit: 2000, trace.CauseLaunch: 2900 + 90, trace.CauseUnknown: 2070 - 90}, 0, 0, trace.IdleTime{Host: 2990 + 1890, Call: 2000, Other: 90}},
		{"a wait for what is not on record", []string{call("cudaStreamSynchronize", 0, 30_000, 1), launch("cuda_runtime", "kernel", 5000, 5010, 10, 2)},
			stalls{trace.CauseSync: 5010, trace.CauseUnknown: 30_000 - 5020}, 0, 30_000 - 5020, trace.IdleTime{Host: 5010, Other: 30_000 - 5020}},
		{"a call that began before the gap", []string{launch("cuda_runtime", "kernel", 0, 5, 95, 1), call("cudaMemcpyAsync", 50, 500, 2), copied("HtoD (Pageable -> Device)", 540, 2)},
			stalls{trace.CauseLaunch: 2 + 3, trace.CauseCopy: 2, trace.CauseSync: 448, trace.CauseUnknown: 453 - 3}, 448, 0, trace.IdleTime{Call: 440, Other: 5 + 458}},
	} {
		length := int64(1000)
		switch {
		case c.blind > 0:
			length = 30_000
		case c.want[trace.CauseInit] == 2000:
			length = 7000
		}
		s := importText(t, append(c.events, x("user_annotation", "ProfilerStep#1", "0", fmt.Sprint(length), ""), x("cpu_op", "aten::add", fmt.Sprint(length), "1", ""))...)
		if len(s.Meta.Profile.GPUs) == 0 { // without a device there is nothing that stalls
			s = importText(t, append(c.events, x("user_annotation", "ProfilerStep#1", "0", fmt.Sprint(length), ""), x("kernel", "k", "2000", "1", `"device":0`))...)
		}
		got := stalls{}
		for cause, ns := range s.Recent[0].Stall {
			if ns > 0 {
				got[trace.Cause(cause)] = ns / 1000
			}
		}
		p := s.Meta.Profile
		if fmt.Sprint(got) != fmt.Sprint(c.want) || p.Sends/1000 != c.sends || p.Blind/1000 != c.blind {
			t.Errorf("%s: %v, %d us in copies that wait, %d without work on record; want %v, %d, %d", c.name, got, p.Sends/1000, p.Blind/1000, c.want, c.sends, c.blind)
		}
		idle := p.GPUs[0].Idle
		if idle = (trace.IdleTime{Host: idle.Host / 1000, Call: idle.Call / 1000, Kernel: idle.Kernel / 1000, Other: idle.Other / 1000}); idle != c.idle && c.idle.All() > 0 {
			t.Errorf("%s: idle %+v us, want %+v", c.name, idle, c.idle)
		}
	}
}

// TestNoDevice: in a trace without the device's side, calls of the runtime are no sign
// that the device is idle.
func TestNoDevice(t *testing.T) {
	s := importText(t, x("cpu_op", "ProfilerStep#1", "0", "100", ""), x("cpu_op", "aten::mm", "0", "20", ""), x("mtia_runtime", "sync", "30", "50", ""))
	if st := &s.Recent[0]; st.Busy != 70_000 || st.Stall[trace.CauseUnknown] != 30_000 {
		t.Errorf("%+v", st)
	}
}

// TestRank: a note says which rank the trace is from, if there are several.
func TestRank(t *testing.T) {
	const step = `,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"ProfilerStep#1","ts":1,"dur":10}]}`
	for info, want := range map[string]string{
		`{"backend":"gloo","rank":1,"world_size":2,"pg_config":[{"ranks":[0,1]}]}`: "the trace is of rank 1 of 2, of which each has one of its own",
		`{"rank":0,"world_size":1}`:   "",
		`{"world_size":2,"rank":"x"}`: "",
		`[]`:                          "",
		`null`:                        "",
	} {
		s, err := Import(context.Background(), strings.NewReader(`{"distributedInfo":`+info+step), "x.json")
		if err != nil {
			t.Fatal(err)
		}
		var notes string
		for _, n := range s.Notes {
			notes += n.Text
		}
		if notes != want {
			t.Errorf("%s is noted as %q, want %q", info, notes, want)
		}
	}
}

// TestOwnLoading: a range of the loop's thread whose name says loading is found, with its share
// of the time while nothing ran on a device.
func TestOwnLoading(t *testing.T) {
	on := func(thread int, category, name string, at, dur int) string {
		return fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"pid":1,"tid":%d,"ts":%d,"dur":%d}`, category, name, thread, at, dur)
	}
	for _, c := range []struct {
		what  string
		event string
		name  string
		share float64
	}{
		{"a range", on(7, "user_annotation", "load_batch", 100, 60), "load_batch", 0.5}, // less what the kernel hides
		{"in words", on(7, "user_annotation", "## Data loading ##", 100, 40), "## Data loading ##", 0.4},
		{"another thread's", on(8, "user_annotation", "load_batch", 100, 60), "", 0},
		{"an operator", on(7, "cpu_op", "load_batch", 100, 60), "", 0},
		{"of the model", on(7, "user_annotation", "load_model_weights", 100, 60), "", 0},
		{"not loading", on(7, "user_annotation", "offload", 100, 60), "", 0},
		{"the DataLoader", on(7, "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 40), "", 0},
	} {
		s := importText(t, on(7, "user_annotation", "ProfilerStep#1", 100, 100), c.event, launch("cuda_runtime", "kernel", 145, 150, 20, 1))
		if got := s.Meta.Profile.Own; got.Name != c.name || math.Abs(got.Share-c.share) > 1e-9 {
			t.Errorf("%s: %+v, want %q with %g", c.what, got, c.name, c.share)
		}
	}
}
