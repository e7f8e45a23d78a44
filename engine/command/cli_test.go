package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"dev.gpustall/engine/command/cli"

	"go.uber.org/goleak"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	for _, s := range cli.Endings {
		if signal.Ignored(s) { // as in the background of a script; tests send them to runs
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	dir, err := os.MkdirTemp("", "gpustall-test")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "gpustall")
	out, err := exec.Command("go", "build", "-o", binary, "dev.gpustall").CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
		os.Exit(1)
	}
	// One cache for all tests, so that the default data set is made once.
	os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// tiny makes a small synthetic data set.
func tiny(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if r := gpustall(t, "data", "make", "cifar10", dir, "--samples", "640"); r.code != 0 {
		t.Fatalf("data make: %s", r.stderr)
	}
	return dir
}

type result struct {
	stdout, stderr string
	code           int
}

func gpustall(t *testing.T, args ...string) result {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = t.TempDir()
	var out, errb bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errb
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), errb.String(), cmd.ProcessState.ExitCode()}
}

// last decodes the summary, the last line of --json.
func last(t *testing.T, out string) map[string]any {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Fatalf("not JSON: %s", l)
		}
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRunJSON(t *testing.T) {
	data := tiny(t)
	r := gpustall(t, "run", "--device", "cpu", "--model", "cnn", "--data", data, "--epochs", "2", "--batch-size", "64", "--json")
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	m := last(t, r.stdout)
	for _, key := range []string{"device", "model", "emulated", "samples", "wall_s", "samples_per_s", "device_utilization",
		"data_wait_s", "load_s", "train_s", "loss", "top1", "stalls_s", "dropped_spans",
		"h2d_s", "h2d_share", "ops", "gauges", "peak_memory_bytes"} {
		if m[key] == nil {
			t.Errorf("the summary has no %q", key)
		}
	}
	if m["samples"] != 1280.0 || m["synthetic"] != true || m["emulated"] != false {
		t.Errorf("samples %v, synthetic %v, emulated %v", m["samples"], m["synthetic"], m["emulated"])
	}
	sum := m["busy_s"].(float64)
	for _, v := range m["stalls_s"].(map[string]any) {
		sum += v.(float64)
	}
	if wall := m["wall_s"].(float64); math.Abs(sum-wall) > 1e-3*wall {
		t.Errorf("busy and stalls sum to %v of %v s", sum, wall)
	}
}

// TestRunOps: the summary has the ops of the step, and their shares add up.
func TestRunOps(t *testing.T) {
	r := gpustall(t, "run", "--device", "cpu", "--model", "cnn", "--data", tiny(t), "--steps", "3", "--batch-size", "64", "--time-ops", "--json")
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	var shares, total float64
	convs := 0
	for _, v := range last(t, r.stdout)["ops"].([]any) {
		op := v.(map[string]any)
		shares += op["share"].(float64)
		total += op["total_s"].(float64)
		calls, mean := op["calls"].(float64), op["mean_s"].(float64)
		if got := calls * mean; math.Abs(got-op["total_s"].(float64)) > 1e-3*got {
			t.Errorf("%v: %v calls of %v s are not %v s", op["layer"], calls, mean, op["total_s"])
		}
		if op["name"] == "conv_forward" {
			if convs++; calls != 3 || op["tflops"].(float64) <= 0 || op["gb_per_s"].(float64) <= 0 {
				t.Errorf("a convolution in three steps: %v", op)
			}
		}
	}
	if convs != 3 || math.Abs(shares-1) > 1e-3 || total <= 0 {
		t.Errorf("%d convolutions, shares add up to %v, %v s in all", convs, shares, total)
	}
}

// TestRunOpsSampled: some steps of each segment time their ops, and the report has them. With time_ops
// off there are none.
func TestRunOpsSampled(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.gpustall")
	r := gpustall(t, "run", "--device", "cpu", "--model", "cnn", "--data", tiny(t), "--steps", "20", "--batch-size", "16", "--session", file, "--json")
	m := last(t, r.stdout)
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	table := m["segment_table"].([]any)
	g := table[0].(map[string]any)
	if len(table) != 1 || g["steps"] != 20.0 || g["timed_steps"] != 2.0 || g["memory_bytes"].(float64) <= 0 {
		t.Errorf("%d segments, %v steps, %v of them timed, %v bytes", len(table), g["steps"], g["timed_steps"], g["memory_bytes"])
	}
	phases := map[any]bool{}
	for _, v := range g["ops"].([]any) {
		op := v.(map[string]any)
		phases[op["phase"]] = true
		if lo, hi, mean := op["min_s"].(float64), op["max_s"].(float64), op["mean_s"].(float64); op["calls"] != 2.0 || lo > mean || hi < mean || lo <= 0 {
			t.Errorf("%v", op)
		}
	}
	if !phases["forward"] || !phases["loss"] || !phases["backward"] || !phases["optimizer"] {
		t.Errorf("phases %v", phases)
	}
	out := gpustall(t, "report", file, "--format", "csv", "--table", "ops")
	if n := strings.Count(out.stdout, "\n"); out.code != 0 || n != len(g["ops"].([]any))+1 {
		t.Errorf("exit %d, %d lines: %s", out.code, n, out.stderr)
	}
	if out = gpustall(t, "report", file); !strings.Contains(out.stdout, "top operations by device time") {
		t.Error("the report has no table of ops")
	}
	for _, args := range [][]string{{"--table", "ops"}, {"--format", "csv", "--table", "layers"}} {
		if out = gpustall(t, append([]string{"report", file}, args...)...); out.code != 2 {
			t.Errorf("%v: exit %d", args, out.code)
		}
	}
	m = last(t, gpustall(t, "run", "--device", "cpu", "--model", "cnn", "--data", tiny(t), "--steps", "5", "--batch-size", "16", "--time-ops=off", "--json").stdout)
	if n := len(m["ops"].([]any)); n != 0 {
		t.Errorf("%d ops with time_ops off", n)
	}
}

// TestSameSeed: two trainings with different numbers of workers have the same losses.
func TestSameSeed(t *testing.T) {
	data := tiny(t)
	var losses []any
	for _, w := range []string{"0", "3"} {
		r := gpustall(t, "run", "--device", "cpu", "--model", "cnn", "--data", data, "--batch-size", "64", "--num-workers", w, "--json")
		losses = append(losses, last(t, r.stdout)["loss"])
	}
	if losses[0] != losses[1] || losses[0] == nil {
		t.Errorf("final loss %v with 0 workers, %v with 3", losses[0], losses[1])
	}
}

func TestInjectedTransform(t *testing.T) {
	r := gpustall(t, "run", "--device", "cpu", "--model", "cnn", "--data", tiny(t), "--batch-size", "32", "--inject", "cpu=2ms", "--steps", "20", "--json")
	m := last(t, r.stdout)
	if m["verdict"] != "input-bound" || m["dominant_cause"] != "transform" || m["injected"] != true {
		t.Errorf("verdict %v, dominant %v, injected %v", m["verdict"], m["dominant_cause"], m["injected"])
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	short := filepath.Join(dir, "cifar-10-batches-bin")
	if err := os.MkdirAll(short, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"} {
		if err := os.WriteFile(filepath.Join(short, name), make([]byte, 3073*2+100), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	corrupt := filepath.Join(dir, "broken.gpustall")
	if err := os.WriteFile(corrupt, bytes.Repeat([]byte("not a session "), 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"missing folder", []string{"run", "--data", dir + "/nowhere"}, 1, []string{dir + "/nowhere"}},
		{"truncated CIFAR file", []string{"run", "--data", short}, 1, []string{"data_batch_1.bin"}},
		{"unknown device", []string{"run", "--device", "tpu"}, 3, []string{"tpu", "cpu", "emu:"}},
		{"unknown emulated device", []string{"run", "--device", "emu:b200"}, 3, []string{"b200", "h100"}},
		{"no CUDA driver", []string{"run", "--device", "cuda"}, 3, []string{"cuda"}},
		{"unknown model", []string{"run", "--model", "vgg"}, 2, []string{"vgg", "resnet18"}},
		{"prefetch without workers", []string{"run", "--prefetch-factor", "4"}, 2, []string{"prefetch_factor", "num_workers"}},
		{"persistent without workers", []string{"run", "--persistent-workers"}, 2, []string{"persistent_workers", "num_workers"}},
		{"workers out of range", []string{"run", "--num-workers", "65"}, 2, []string{"num_workers", "64"}},
		{"workers not a number", []string{"run", "--num-workers", "many"}, 2, []string{"num_workers", "many"}},
		{"bad injection", []string{"run", "--inject", "gpu=1ms"}, 2, []string{"gpu"}},
		{"precision of another device", []string{"run", "--device", "cpu", "--precision", "fp16"}, 2, []string{"fp16", "fp32"}},
		{"negative epochs", []string{"run", "--epochs", "-1"}, 2, []string{"--epochs"}},
		{"unknown flag", []string{"run", "--wrokers", "4"}, 2, []string{"wrokers", "did you mean --num-workers?"}},
		{"a flag's last word", []string{"run", "--chekpointing"}, 2, []string{"did you mean --activation-checkpointing?"}},
		{"unknown command", []string{"trian"}, 2, []string{"trian"}},
		{"corrupt session", []string{"report", corrupt}, 1, []string{"broken.gpustall"}},
		{"corrupt session in replay", []string{"replay", corrupt}, 1, []string{"broken.gpustall"}},
		{"missing session", []string{"report", "nothing"}, 1, []string{"nothing", "sessions"}},
		{"unknown format", []string{"report", "x", "--format", "pdf"}, 2, []string{"pdf", "markdown"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := gpustall(t, tt.args...)
			if r.code != tt.code {
				t.Errorf("exit code %d, want %d", r.code, tt.code)
			}
			for _, s := range tt.says {
				if !strings.Contains(r.stderr, s) {
					t.Errorf("the message does not name %q", s)
				}
			}
			if strings.Contains(r.stderr, "goroutine ") || strings.Count(strings.TrimSpace(r.stderr), "\n") > 1 {
				t.Error("not one sentence")
			}
			if t.Failed() {
				t.Logf("stderr: %s", r.stderr)
			}
		})
	}
}

// TestSignal: SIGINT ends a run with code 130, a summary, and a session that opens.
func TestSignal(t *testing.T) {
	cmd := exec.Command(binary, "run", "--device", "emu:cosmoflow-h100", "--steps", "1000000", "--json", "--interval", "0.1")
	var out bytes.Buffer
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1)
	if _, err := pipe.Read(buf); err != nil { // the first progress line has begun
		t.Fatal(err)
	}
	out.Write(buf)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer kill.Stop()
	out.ReadFrom(pipe)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	m := last(t, out.String())
	if m["type"] != "summary" || m["status"] != "stopped" || m["emulated"] != true {
		t.Fatalf("last line: %v", m)
	}
	if m["loss"] != nil {
		t.Errorf("an emulated device reports loss %v", m["loss"])
	}
	r := gpustall(t, "report", m["session"].(string))
	if r.code != 0 || !strings.Contains(r.stdout, "emulated") {
		t.Errorf("report: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// TestSessionList: the list of sessions says how each ended, and which cannot be opened.
func TestSessionList(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gpustall", "sessions")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", filepath.Dir(filepath.Dir(dir)))
	if err := os.WriteFile(filepath.Join(dir, "broken.gpustall"), []byte("not a session"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := gpustall(t, "run", "--device", "emu:cosmoflow-h100", "--steps", "2"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	r := gpustall(t, "sessions")
	if !regexp.MustCompile(`(?m)^\S+-cosmoflow-emu +\S+ \S+ +finished +\S+ .* - +cosmoflow on emulated`).MatchString(r.stdout) ||
		!regexp.MustCompile(`(?m)^broken +cannot be opened: .*not a gpustall session`).MatchString(r.stdout) {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

func TestSessionsAndReplay(t *testing.T) {
	r := gpustall(t, "run", "--device", "cpu", "--model", "cnn", "--data", tiny(t), "--steps", "3")
	if r.code != 0 {
		t.Fatal(r.stderr)
	}
	for _, args := range [][]string{{"sessions"}, {"report", "latest"}, {"report", "latest", "--format", "csv"},
		{"report", "latest", "--format", "chrome"}, {"replay", "latest"}, {"doctor"}, {"--version"}} {
		if r := gpustall(t, args...); r.code != 0 || r.stdout == "" {
			t.Errorf("%v: exit %d, %d bytes, %s", args, r.code, len(r.stdout), r.stderr)
		}
	}
}
