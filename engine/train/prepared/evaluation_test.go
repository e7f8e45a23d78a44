package prepared_test

import (
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
	"dev.gpustall/loader/transform"
)

// TestEvaluationPlanned: the memory of evaluations is planned from the start, even if
// their batches are larger than the training's. It is 0 if there is nothing to evaluate
// on.
func TestEvaluationPlanned(t *testing.T) {
	c, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := nn.New("cnn", nn.Shape{H: 16, W: 16, C: 3}, 4)
	if err != nil {
		t.Fatal(err)
	}
	k := prepared.Knobs{Loader: loader.DefaultKnobs(), Accumulate: 1}
	k.Loader.BatchSize, k.Loader.DeviceTransforms = 64, true
	resized := transform.Must("resize((16,16))|normalize", transform.Input{H: 30, W: 30, Constants: transform.CIFAR})
	mean, std := resized.Normalisation()
	dev := known{&limited{Device: c, captured: map[device.Program]bool{}}, c}
	open := func(test int) *prepared.Steps {
		p, err := prepared.Open(prepared.Config{
			Task: prepared.Task{Model: m, Seed: 1}, Device: dev, Quiesce: func() error { return nil }, Recorder: trace.NewRecorder(trace.NewClock(), 0),
			Split: prepared.Split{Dataset: loader.Info{Samples: 200, H: 16, W: 16, C: 3}, Mean: mean, Std: std},
			Test:  prepared.Split{Dataset: resized.Shape(loader.Info{Samples: test, C: 3}), Mean: mean, Std: std, Steps: resized.DeviceSteps()},
		}, k)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Warm(k); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := open(150)
	for _, n := range []int{64, 150 - 2*64} {
		if _, err := p.Build(prepared.Key{Samples: n, DeviceTransforms: true, Test: true}); err != nil {
			t.Fatal(err)
		}
	}
	planned, host, peak := p.Memory().Total(), p.HostMemory(), c.MemoryPeak()
	p.Close()
	p = open(0)
	defer p.Close()
	if without := p.Memory().Total(); planned <= without || peak > planned || peak < planned*98/100 {
		t.Errorf("planned %d bytes of the device, %d without evaluations, and the peak is %d", planned, without, peak)
	}
	if none := p.HostMemory().Evaluation; none != 0 || host.Evaluation < prepared.TestHold*64*30*30*3 {
		t.Errorf("planned %d bytes of the host for evaluations, %d without any", host.Evaluation, none)
	}
}
