package train_test

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/device/emu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
	"dev.gpustall/loader/transform"
)

// hosted is a run for which it is known what its threads wait for.
type hosted struct {
	cpu        bool // the device; else a modelled step of 5 ms on an emulated one
	neighbours int  // processes that compute all the time
	inject     loader.Inject
	bound      trace.Bound // of the workers; BoundUnknown where it does not matter
}

// truthOfHost prints what a run waits for beside processes that compute, and without them. It shows
// whether slow computing, being blocked and having no core are told apart, and that no copy is
// blamed. Copies are page-locked and take 0.1 ms of a step.
func truthOfHost(t *testing.T, rows *regexp.Regexp) {
	if m, why := host.NewMeter(); m == nil {
		fmt.Println("\nWhat threads wait for: n/a here:", why.Why)
		return
	}
	burners := 2 * host.Cores()
	slow := loader.Inject{CPU: 200 * time.Microsecond}
	fmt.Println("\nWhat is waited for, one worker, or none beside the cpu device, 32 samples a batch: shares of the time, then of the time of worker and kernels.")
	fmt.Println("\n| device | neighbours | injected | data | host | copy | worker: core | waiting | blocked | is | expected | kernels waiting | bar | ok |")
	fmt.Println("|---|--:|---|--:|--:|--:|--:|--:|--:|---|---|--:|--:|---|")
	for _, h := range []hosted{
		{inject: slow, bound: trace.BoundCPU},
		{inject: loader.Inject{Read: 200 * time.Microsecond}, bound: trace.BoundIO},
		{neighbours: burners, inject: slow, bound: trace.BoundCores},
		{neighbours: burners, inject: loader.Inject{Read: 2 * time.Millisecond}, bound: trace.BoundIO},
		{cpu: true},
		{cpu: true, neighbours: burners},
	} {
		row := fmt.Sprintf("emu | %d", h.neighbours)
		if h.cpu {
			row = fmt.Sprintf("cpu | %d", h.neighbours)
		}
		row += fmt.Sprintf(" | cpu=%v read=%v", h.inject.CPU, h.inject.Read)
		if rows.MatchString(row) {
			h.measure(t, row)
		}
	}
}

func (h *hosted) measure(t *testing.T, row string) {
	var dev device.Device
	k := train.DefaultKnobs()
	k.Loader.BatchSize, k.Loader.NumWorkers, k.Loader.PrefetchFactor, k.Loader.Inject = 32, 1, 2, h.inject
	cfg := train.Config{Dataset: stripes{n: 1 << 20}, Transform: transform.CIFARTrain(), Steps: 150}
	if h.cpu {
		d, err := cpu.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		dev, cfg.Task = d, prepared.Task{Model: cnn(t, cfg.Dataset)}
		k.Loader.NumWorkers, k.Loader.PrefetchFactor = 0, 0 // the kernels take every core: a worker would be a neighbour
	} else {
		p, err := emu.Find("h100")
		if err != nil {
			t.Fatal(err)
		}
		k.Loader.PinMemory = true
		dev, cfg.Task = emu.New(p, emu.NewRealClock()), prepared.Task{Fixed: func(int) device.Operation { return emu.Fixed{Duration: 5 * time.Millisecond} }}
	}
	cfg.Knobs = k
	for range h.neighbours {
		c := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait() //nolint:errcheck // it was killed
		defer c.Process.Kill()
	}
	r := newRig(t, dev, cfg)
	b := attribution.Sum(r.run(t, context.Background()).Recent[10:])
	of := func(ns, all int64) string { return units.Prose.Percent(float64(ns) / float64(max(all, 1))) }
	w := b.Work.Batch
	copies, wrong := b.Share(trace.CauseCopy), ""
	if copies > 0.05 {
		wrong = "copies are blamed"
	}
	if h.bound != trace.BoundUnknown && w.Bound() != h.bound {
		wrong = "the worker is not that"
	}
	waiting, bar := "-", "-"
	if d, ok := dev.(device.HostKernels); ok {
		core, wait, _ := d.Starved()
		share := float64(wait) / float64(max(core+wait, 1))
		waiting, bar = units.Prose.Percent(share), "< 20 %"
		if h.neighbours > 0 {
			bar = "> 30 %"
		}
		if h.neighbours > 0 && share < 0.3 || h.neighbours == 0 && share > 0.2 {
			wrong = "its kernels do not"
		}
	}
	ok := "yes"
	if wrong != "" {
		ok = "NO"
		t.Errorf("%s: %s", row, wrong)
	}
	fmt.Printf("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", row, of(b.Data(), b.Active()), of(b.Stall[trace.CauseHost], b.Active()), units.Prose.Percent(copies),
		of(w.Core, w.Total()), of(w.Waiting, w.Total()), of(w.Blocked, w.Total()), w.Bound().Info().Name, h.bound.Info().Name, waiting, bar, ok)
}
