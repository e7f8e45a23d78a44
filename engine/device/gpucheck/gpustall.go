package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
)

// runSummary is what the check needs of gpustall's summary.
type runSummary struct {
	Type        string  `json:"type"`
	Status      string  `json:"status"`
	Error       string  `json:"error"`
	Steps       int     `json:"steps"`
	Samples     float64 `json:"samples_per_s"`
	Utilisation float64 `json:"device_utilization"`
	Verdict     string  `json:"verdict"`
	Wall        float64 `json:"wall_s"`
	CopyIn      float64 `json:"h2d_s"`
	CopyShare   float64 `json:"h2d_share"`
	Peak        int64   `json:"peak_memory_bytes"`
	Loss        float64 `json:"loss"`
	Injected    bool    `json:"injected"`
	Ops         []opRow `json:"ops"`
	Gauges      map[string]struct {
		Mean    float64 `json:"mean"`
		Max     float64 `json:"max"`
		Samples int     `json:"samples"`
	} `json:"gauges"`
	Knobs   map[string]string `json:"knobs"`
	Session string            `json:"session,omitempty"` // a file beside this one
}

// opRow is a row of the table of device ops.
type opRow struct {
	Name   string  `json:"name"`
	Layer  string  `json:"layer"`
	Calls  int64   `json:"calls"`
	Total  float64 `json:"total_s"`
	Mean   float64 `json:"mean_s"`
	Share  float64 `json:"share"`
	TFLOPs float64 `json:"tflops"`
	GBPerS float64 `json:"gb_per_s"`
}

// gpustall trains on the GPU with the program itself, on synthetic CIFAR-10.
func (c *check) gpustall(ctx context.Context, name string, args ...string) (*runSummary, error) {
	data := filepath.Join(c.tmp, "cifar")
	if !exists(data) {
		make := []string{"data", "make", "cifar10", data}
		if c.quick {
			make = append(make, "--samples", "64")
		}
		if _, err := c.process(ctx, "gpustall", make...); err != nil {
			return nil, err
		}
	}
	session := filepath.Join(c.tmp, name+".gpustall")
	all := append([]string{"run", "--device", "cuda", "--data", data, "--json", "--interval", "5", "--session", session,
		"--autotune", "known"}, args...)
	var s runSummary
	err := c.object(ctx, &s, "gpustall", all...)
	s.Session = c.keepSession(session, name)
	if err != nil {
		return nil, err
	}
	if s.Type != "summary" || s.Status != "finished" {
		return &s, fmt.Errorf("gpustall run: %s after %d steps: %s", s.Status, s.Steps, s.Error)
	}
	return &s, nil
}

// ops takes the table of device ops at both batch sizes.
func (c *check) ops(ctx context.Context) (any, error) {
	out := map[string]*runSummary{}
	sizes, args := []string{"128", "1024"}, []string{"--model", "resnet18", "--steps", "60"}
	if c.quick {
		sizes, args = []string{"4"}, []string{"--model", "cnn", "--steps", "2"}
	}
	if c.has("bf16") {
		args = append(args, "--precision", "bf16")
	}
	for _, n := range sizes {
		s, err := c.gpustall(ctx, "ops-"+n, append(args, "--time-ops", "--pin-memory", "--num-workers", c.workers(), "--batch-size", n)...)
		if err != nil {
			return out, fmt.Errorf("batch size %s: %w", n, err)
		}
		out[n] = s
		if len(s.Ops) == 0 {
			return out, fmt.Errorf("batch size %s: the summary has no ops", n)
		}
	}
	return out, nil
}

// endToEnd trains from disk to loss. With starve, it slows the loader on purpose to about that share
// of the GPU's speed, where NVML's utilisation differs from the measured one.
func (c *check) endToEnd(ctx context.Context, starve float64) (any, error) {
	const seconds, size = 8, 128
	speed := 10000.0 // samples/s, until it is known better
	typ := "fp32"
	if c.has("bf16") {
		typ = "bf16"
	}
	if t := c.runs[typ]; t != nil {
		for _, r := range t.Rates {
			if r.Batch == size && r.Samples > 0 {
				speed = max(r.Samples, 1000)
			}
		}
	}
	workers := c.workers()
	if n, err := strconv.Atoi(workers); err == nil {
		speed = min(speed, 5000*float64(n)) // more than a loader's worker gives, so that the run ends in time
	}
	args := []string{"--model", "resnet18", "--batch-size", strconv.Itoa(size), "--steps", strconv.Itoa(int(speed*seconds/size) + 50)}
	if starve > 0 {
		n, _ := strconv.Atoi(workers) // it was made from a number
		delay := float64(n) / (starve * speed)
		args[len(args)-1] = strconv.Itoa(int(starve*speed*seconds/size) + 20)
		args = append(args, "--inject", fmt.Sprintf("cpu=%dus", int(1e6*delay)))
	}
	if c.quick {
		args = []string{"--model", "cnn", "--batch-size", "4", "--steps", "2"}
		if starve > 0 {
			args = append(args, "--inject", "cpu=1ms")
		}
	}
	name := "end-to-end"
	if starve > 0 {
		name = "starved"
	}
	s, err := c.gpustall(ctx, name, append(args, "--precision", typ, "--num-workers", workers, "--pin-memory", "--capture")...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// workers returns the number of workers that gpustall's and PyTorch's loader get.
func (f *findings) workers() string { return strconv.Itoa(min(8, max(1, f.facts.CPUs-1))) }
