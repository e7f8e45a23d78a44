package emu

import (
	"math"
	"testing"
	"time"
)

// Peak rates follow from what the whitepapers say of the chips: multiprocessors,
// boost clocks, and operations a clock of a multiprocessor. Two per fused multiply-add.
func TestPeaks(t *testing.T) {
	for _, c := range []struct {
		card         Card
		sms          float64
		vector       float64 // FP32 operations a clock and multiprocessor
		tensor       float64 // FP16 with FP32 sums, on tensor cores
		clock, dense float64 // boost clock, Hz; with tensor cores at work
		bus, pin     float64 // memory interface, bits; bits/s of a pin; 0: HBM's is not published
	}{
		{h100, 132, 256, 4096, 1.98e9, 1.83e9, 0, 0},
		{a100, 108, 128, 2048, 1.41e9, 1.41e9, 0, 0},
		{rtx4090, 128, 256, 512, 2.52e9, 2.52e9, 384, 21e9},
		{rtx4070, 46, 256, 512, 2.475e9, 2.475e9, 192, 21e9},
		{t4, 40, 128, 1024, 1.59e9, 1.59e9, 256, 10e9},
	} {
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 0.006*want { // datasheets round
				t.Errorf("%s: %s is %.4g, the chip gives %.4g", c.card.Name, what, got, want)
			}
		}
		near("FP32", c.card.FP32, c.sms*c.vector*c.clock)
		near("FP16", c.card.FP16, c.sms*c.tensor*c.dense)
		if c.card.BF16 > 0 { // TF32 runs at half the rate
			near("BF16", c.card.BF16, c.card.FP16)
			near("TF32", c.card.TF32, c.card.FP16/2)
		}
		if c.bus > 0 {
			near("bandwidth", c.card.Bandwidth, c.bus/8*c.pin)
		}
	}
}

// A batch twice as large computes for twice as long.
func TestWorkloadStep(t *testing.T) {
	for _, p := range Presets() {
		if w := p.Workload; w != nil {
			for _, samples := range []int{w.BatchSize, 2 * w.BatchSize} {
				if got, want := w.Step(samples).(Fixed).Duration, w.Compute*time.Duration(samples/w.BatchSize); got != want {
					t.Errorf("%s: %d samples take %v, want %v", p.Name, samples, got, want)
				}
			}
		}
	}
}
