package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestImport: a real trace becomes a session that all readers take, and whose verdict is true.
// Without workers the training waits for data a third of the time; with four it does not.
func TestImport(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	must := func(args []string, words ...string) {
		t.Helper()
		r := gpustall(t, args...)
		if r.code != 0 {
			t.Fatalf("%v: exit %d: %s", args, r.code, r.stderr)
		}
		for _, w := range words {
			if !strings.Contains(r.stdout, w) {
				t.Errorf("%v does not say %q:\n%s", args, w, r.stdout)
			}
		}
	}
	folder, err := filepath.Abs("../torch/testdata")
	if err != nil {
		t.Fatal(err)
	}
	folder += "/"
	must([]string{"import", folder + "resnet50_num_workers_0.pt.trace.json.gz"}, "recorded: a PyTorch training", "input-bound: the device waits for data 33.4 %", "num_workers", "[imported]")
	must([]string{"import", folder + "resnet50_num_workers_4.pt.trace.json.gz"}, "launch-bound", "gpustall report resnet50_num_workers_4")
	must([]string{"sessions"}, "resnet50_num_workers_0", "input-bound 33.4 %", "70.3 %", "[imported]")
	must([]string{"report", "resnet50_num_workers_4"}, "| #10 ", "141,068", "69.2 %", "not recorded", "the trace ends after", "Epochs are not in a trace.", "A row is an operator of PyTorch", "6 steps of the trace.", "aten::cudnn_batch_norm_backward")
	must([]string{"replay", "resnet50_num_workers_0"}, "est. SM efficiency") // without a terminal replay writes the report
	must([]string{"compare", "resnet50_num_workers_0", "resnet50_num_workers_4"}, "lost to dataloader", "not recorded", "| num_workers | 0   | 1 or more |")
	for _, format := range []string{"csv", "chrome"} {
		must([]string{"report", "resnet50_num_workers_4", "--format", format}, "dataloader")
	}
	must([]string{"import", folder + "resnet50_num_workers_0.pt.trace.json.gz"}, "resnet50_num_workers_0-2") // the first session stays
}

// TestImportFails: a file that is no trace is one error, and leaves no session.
func TestImportFails(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte(`{"traceEvents":[{"ph":"X"`), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, reason := range map[string]string{
		broken: "it ends too soon", filepath.Dir(broken): "it ends too soon", t.TempDir(): "the folder has no trace", filepath.Join(filepath.Dir(broken), "none"): "no such file",
	} {
		r := gpustall(t, "import", path)
		if r.code != 1 || !strings.Contains(r.stderr, reason) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: exit %d: %s", path, r.code, r.stderr)
		}
	}
	if list, _ := filepath.Glob(filepath.Join(state, "gpustall", "sessions", "*")); len(list) > 0 {
		t.Errorf("it left %v", list)
	}
}

// TestImportFolder: the traces of a folder become one session for each rank, which have one report. Files
// that are no rank's trace are left out.
func TestImportFolder(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	write := func(name string, rank, world int, loads, talks int64) { // in us of each of 3 steps of 1 ms
		text := fmt.Sprintf(`{"distributedInfo":{"rank":%d,"world_size":%d},"traceEvents":[`, rank, world)
		for i := range int64(3) {
			at, n := 1000*i, 7+i
			text += fmt.Sprintf(`{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":1,"tid":1,"ts":%d,"dur":1000},`, n, at) +
				fmt.Sprintf(`{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":%d,"dur":5,"args":{"correlation":%d}},`, at+loads, n) +
				fmt.Sprintf(`{"ph":"X","cat":"kernel","name":"gemm","ts":%d,"dur":%d,"args":{"device":0,"correlation":%d}},`, at+loads, 1000-loads-talks, n) +
				fmt.Sprintf(`{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL","ts":%d,"dur":%d,"args":{"device":0,"correlation":%d}},`, at+1000-talks, talks, n)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.TrimSuffix(text, ",")+"]}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.pt.trace.json", 0, 2, 100, 600)
	write("b.pt.trace.json", 1, 2, 600, 100)
	write("c.json", 1, 2, 1, 1)     // again
	write("other.json", 0, 0, 1, 1) // says no rank
	r := gpustall(t, "import", dir)
	if r.code != 0 || strings.Count(r.stdout, "rank ") != 2 || !strings.Contains(r.stderr, "c.json: rank 1 has another trace, b.pt.trace.json") || !strings.Contains(r.stderr, "other.json: it does not say which rank") {
		t.Fatalf("exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
	_, folder, _ := strings.Cut(r.stdout, "gpustall report ")
	folder, _, _ = strings.Cut(folder, " (all ranks)")
	r = gpustall(t, "report", folder)
	for _, words := range []string{"The others wait for rank 1", "25.0 % of the time of all ranks", "At 3 of 3 steps"} { // 500 of 1000 us of one of two
		if !strings.Contains(r.stdout, words) {
			t.Errorf("the report does not say %q: %s%s", words, r.stdout, r.stderr)
		}
	}
}

// TestImportBlocked: a pipe that nobody writes to does not hold up the end.
func TestImportBlocked(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := readTrace(ctx, pipe); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // lets the blocked read end
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
}

func TestTraceName(t *testing.T) {
	for path, want := range map[string]string{
		"a/run.pt.trace.json.gz": "run", "-": "imported", ".json": "imported",
		"fit-[Strategy]One device.17.pt.trace.json": "fit--Strategy-One-device.17", // a name from Lightning's profiler
	} {
		if got := traceName(path); got != want {
			t.Errorf("%s is called %q, want %q", path, got, want)
		}
	}
}
