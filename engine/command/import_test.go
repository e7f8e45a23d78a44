package command

import (
	"context"
	"errors"
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
		broken: "it ends too soon", filepath.Dir(broken): "it is a folder", filepath.Join(filepath.Dir(broken), "none"): "no such file",
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
