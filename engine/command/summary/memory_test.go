package summary

import (
	"math"
	"testing"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

func TestTunedKernels(t *testing.T) {
	ks := TunedKernels([]device.Tuned{
		{Layer: "stem", Op: "conv_forward", Variant: "b", First: "a", Time: 3 * time.Microsecond, FirstTime: 4 * time.Microsecond},
		{Layer: "layer1", Op: "conv_forward", Variant: "a", First: "a", Time: 6 * time.Microsecond, FirstTime: 6 * time.Microsecond, Cached: true},
		{Layer: "layer2", Op: "conv_forward", Variant: "a", First: "a"}, // there was no memory to try it
	})
	if len(ks) != 3 || ks[0].Gain != 0.25 || ks[1].Gain != 0 || !ks[1].Cached || !math.IsNaN(float64(ks[2].Gain)) {
		t.Errorf("%+v", ks)
	}
	if got, want := tunedText(ks), "1 of 3 kernels take another variant than the planner's guess, which saves 10.0 % of their time"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := tunedText(nil); got != "" {
		t.Errorf("without tuning: %q", got)
	}
}

func TestPlanMemory(t *testing.T) {
	p := plannedOf(trace.Memory{Activations: 1, Parameters: 20, Inputs: 300, Kernels: 4000})
	if p != (planned{4321, 1, 20, 300, 4000}) {
		t.Errorf("%+v", p)
	}
}
