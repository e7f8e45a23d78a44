package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
)

const sample = `=== RUN   TestDevice
=== RUN   TestDevice/op/conv
    cases.go:120: y: [3] = 1, want 2
=== RUN   TestDevice/op/add
--- FAIL: TestDevice (1.20s)
    --- FAIL: TestDevice/op/conv (0.50s)
    --- PASS: TestDevice/op/add (0.00s)
=== RUN   TestSkips
    cuda_test.go:59: only the emulated driver
--- SKIP: TestSkips (0.00s)
=== RUN   TestAlone
--- PASS: TestAlone (0.00s)
=== RUN   TestParent
=== RUN   TestParent/child
=== NAME  TestParent
    x_test.go:1: the parent itself
--- FAIL: TestParent (0.00s)
    --- PASS: TestParent/child (0.00s)
FAIL
`

func TestParseTests(t *testing.T) {
	n := parseTests([]byte(sample))
	if n.Passed != 3 {
		t.Errorf("%d passed, want TestDevice/op/add, TestAlone and TestParent/child", n.Passed)
	}
	want := map[string]string{"TestDevice/op/conv": "cases.go:120: y: [3] = 1, want 2", "TestParent": "x_test.go:1: the parent itself"}
	if fmt.Sprint(n.Failed) != fmt.Sprint(want) {
		t.Errorf("failed %q, want %q", n.Failed, want)
	}
	if want := map[string]string{"TestSkips": "cuda_test.go:59: only the emulated driver"}; fmt.Sprint(n.Skipped) != fmt.Sprint(want) {
		t.Errorf("skipped %q, want %q", n.Skipped, want)
	}
	if n := parseTests([]byte("panic: boo\n")); n.Passed != 0 || len(n.Failed) != 0 {
		t.Errorf("no test at all: %+v", n)
	}
}

// ramp is a loss curve from one value to another.
func ramp(n int, from, to float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = from + (to-from)*float64(i)/float64(n-1)
	}
	return v
}

func TestVerdict(t *testing.T) {
	good := ramp(200, 2.3, 0.1)
	shifted := ramp(200, 2.3, 1)
	for _, c := range []struct {
		name string
		t    training
		want string
	}{
		{"falls", training{Losses: good, Captured: good}, ""},
		{"does not fall", training{Losses: ramp(200, 2.3, 2.2)}, "does not fall"},
		{"too short to judge", training{Losses: ramp(20, 2.3, 2.3)}, ""},
		{"capture does not fall", training{Losses: good, Captured: ramp(200, 2.3, 2.3)}, "with capture"},
		{"capture elsewhere at the end", training{Losses: good, Captured: shifted}, "last quarter"},
		{"capture begins elsewhere", training{Losses: good, Captured: append([]float64{2.31}, good[1:]...)}, "first loss"},
		{"capture is cut off", training{Losses: good, Captured: good[:50]}, "50 steps beside 200"},
		{"as the cpu", training{Losses: good, CPU: &compared{[]float64{2, 1}, []float64{2, 1.001}, []float64{0, 0.002}}}, ""},
		{"not as the cpu", training{Losses: good, CPU: &compared{[]float64{2, 1}, []float64{2, 1.1}, []float64{0, 0.002}}}, "step 1"},
		{"not a number", training{Losses: good, CPU: &compared{[]float64{math.NaN()}, []float64{2}, []float64{1}}}, "step 0"},
		{"no memory", training{Losses: good, Rates: []rate{{Batch: 1024, Error: "out of device memory"}}}, "batch 1024"},
	} {
		err := c.t.verdict()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestPrecision(t *testing.T) {
	good := ramp(200, 2.3, 0.1)
	c := &findings{runs: map[string]*training{"fp32": {Losses: good}}}
	if _, err := c.precision(); err == nil {
		t.Error("bf16 did not train, and it passed")
	}
	for _, k := range []struct {
		bf16 []float64
		ok   bool
	}{{ramp(200, 2.31, 0.12), true}, {ramp(200, 2.5, 0.1), false}, {ramp(200, 2.3, 1), false}} {
		c.runs["bf16"] = &training{Losses: k.bf16}
		if _, err := c.precision(); (err == nil) != k.ok {
			t.Errorf("bf16 to %v: %v, want ok %v", k.bf16[199], err, k.ok)
		}
	}
}

func openCPU(t *testing.T) device.Device {
	t.Helper()
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// The measurements run on any device; on the cpu the curve falls and agrees with
// itself.
func TestTrain(t *testing.T) {
	d := openCPU(t)
	stages := 0
	s := trainSpec{Model: "cnn", Side: 8, Type: "fp32", Batch: 16, Steps: judged, CPU: 3, CPUSize: 4, Contrast: 1, Rates: []int{8}}
	got, err := train(d, s, func(*training) { stages++ })
	if err != nil {
		t.Fatal(err)
	}
	if err := got.verdict(); err != nil {
		t.Error(err)
	}
	if len(got.Losses) != judged || stages < 4 {
		t.Errorf("%d losses, %d stages emitted", len(got.Losses), stages)
	}
	for i, v := range got.CPU.Losses {
		if abs(v-got.CPU.CPU[i]) > got.CPU.Allowed[i] || got.CPU.Allowed[i] <= 0 || got.CPU.Allowed[i] > 0.1*v {
			t.Errorf("step %d: %v beside %v, allowed %v", i, v, got.CPU.CPU[i], got.CPU.Allowed[i])
		}
	}
	for _, r := range got.Rates {
		if r.Error != "" || r.Samples <= 0 || r.TFLOPs <= 0 || r.Steps != 10 {
			t.Errorf("%+v", r)
		}
	}
	if _, err := train(d, trainSpec{Model: "cnn", Side: 8, Type: "fp16", Batch: 1, Steps: 1}, func(*training) {}); err == nil {
		t.Error("the cpu device trained in fp16")
	}
}

func TestCosts(t *testing.T) {
	d := openCPU(t)
	rates, err := copies(d, true)
	if err != nil || len(rates) != 4 {
		t.Errorf("%+v, %v", rates, err)
	}
	for _, r := range rates {
		if r.GBPerS <= 0 || r.Alone <= 0 {
			t.Errorf("%+v", r)
		}
	}
	costs, err := launches(d, true)
	if err != nil || len(costs) < 2 {
		t.Errorf("%+v, %v", costs, err)
	}
}

// Each line of an emulated table says so, and no ceiling is claimed.
func TestTableLabels(t *testing.T) {
	c := &findings{facts: facts{Name: "Emulated GPU", Emulated: true}, runs: map[string]*training{"fp32": {Losses: ramp(10, 2, 1), Rates: []rate{{Batch: 4, Samples: 7}}}}}
	c.report.Emulated = true
	c.report.Parts = []result{
		{Name: "copies", Status: statusOK, Value: []copyRate{{Direction: "h2d", Bytes: 4096, GBPerS: 1}}},
		{Name: "ops", Status: statusOK, Value: map[string]*runSummary{"4": {Ops: []opRow{{Name: "conv_forward", TFLOPs: 1, Total: 1}}}}},
	}
	var out strings.Builder
	c.write(&out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) < 8 {
		t.Errorf("the table is short:\n%s", &out)
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, "emulated | ") || strings.Contains(l, "of the ceiling") {
			t.Errorf("%q", l)
		}
	}
}

// NVML counts in per cent, gpustall in shares.
func TestUtilisationRow(t *testing.T) {
	var s runSummary
	if err := json.Unmarshal([]byte(`{"device_utilization": 0.5, "gauges": {"nvml_util": {"mean": 97, "samples": 30}}}`), &s); err != nil {
		t.Fatal(err)
	}
	c := &findings{}
	c.report.Parts = []result{{Name: "starved", Status: statusOK, Value: &s}}
	var out strings.Builder
	c.write(&out)
	if want := "measured 50.0 %, NVML 97.0 % (30 samples)"; !strings.Contains(out.String(), want) {
		t.Errorf("the table lacks %q:\n%s", want, &out)
	}
}

func TestCeiling(t *testing.T) {
	c := &findings{facts: facts{Name: "NVIDIA H100 80GB HBM3"}}
	if v, from := c.ceiling("bf16"); v != 989.4 || !strings.Contains(from, "not measured") {
		t.Errorf("without PyTorch: %v, %q", v, from)
	}
	c.report.Parts = []result{{Value: torchRun{Rows: []torchRow{{Case: "matmul", Type: "bf16", TFLOPs: 640}}}}}
	if v, from := c.ceiling("bf16"); v != 640 || !strings.Contains(from, "measured in this run") {
		t.Errorf("with PyTorch: %v, %q", v, from)
	}
	c.facts.Name = "A GPU to come"
	if v, from := c.ceiling("fp16"); v != 0 || !strings.Contains(from, "unknown") {
		t.Errorf("an unknown GPU: %v, %q", v, from)
	}
}

// PyTorch's script answers in JSON whether there is a PyTorch or not.
func TestPeerProbe(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	t.Setenv("GPUSTALL_PYTHON", "python3")
	c, _ := newCheck(t)
	dir, err := filepath.Abs("bundle")
	if err != nil {
		t.Fatal(err)
	}
	c.dir = dir
	v, err := checkTorch(context.Background(), c)
	var s skip
	if f, ok := v.(torchFacts); !ok || !f.Usable && (!errors.As(err, &s) || f.Why == "") {
		t.Errorf("%+v, %v", v, err)
	}
	if c.torch.Usable {
		return
	}
	if _, err := c.torchRun(context.Background(), "eager"); !errors.As(err, &s) {
		t.Errorf("without PyTorch: %v, want a skip", err)
	}
}
