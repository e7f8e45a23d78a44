package prepared_test

import (
	"errors"
	"fmt"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
)

// known is a limited device that knows what its kernels need.
type known struct {
	*limited
	device.Overheader
}

// TestLargest: on a device with as much memory as seven samples are planned to take, the
// largest batch has seven. It takes what was planned, and eight are refused. This holds
// for every model, with and without the knobs that save memory.
func TestLargest(t *testing.T) {
	for _, spec := range []nn.Spec{{Name: "cnn"}, {Name: "cnn3d"}, {Name: "resnet18"}, {Name: "resnet18", NoBatchNorm: true}, {Name: "resnet50", Stem: nn.StemImageNet}} {
		for _, saving := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/no_batch_norm=%t/saving=%t", spec.Name, spec.NoBatchNorm, saving), func(t *testing.T) {
				if testing.Short() && spec.Name == "resnet50" {
					t.Skip("its 25 million parameters take seconds to initialise")
				}
				c, err := cpu.Open(2)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				spec.In, spec.Classes = nn.Shape{H: 16, W: 16, C: 3}, 4
				if spec.Name == "cnn3d" {
					spec.In.T = 4
				}
				m, err := spec.Model()
				if err != nil {
					t.Fatal(err)
				}
				k := prepared.Knobs{Loader: loader.DefaultKnobs(), Accumulate: 1, Checkpoint: saving}
				if k.Dropout = 0.2; saving {
					k.Accumulate = 2
				}
				config := func(memory int64) prepared.Config {
					return prepared.Config{
						Task: prepared.Task{Model: m, Seed: 1}, Device: known{&limited{Device: c, memory: memory, captured: map[device.Program]bool{}}, c}, Quiesce: func() error { return nil },
						Recorder: trace.NewRecorder(trace.NewClock(), 0), Split: prepared.Split{Dataset: loader.Info{Samples: 7 * 9, H: 16, W: 16, C: 3, T: spec.In.T}},
					}
				}
				k.Loader.BatchSize = 7
				p, err := prepared.Open(config(0), k)
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Warm(k); err != nil {
					t.Fatal(err)
				}
				planned, measured := p.Memory().Total(), c.MemoryPeak()
				p.Close()
				if measured > planned || measured < planned*98/100 {
					t.Errorf("planned %d bytes of the device, and the peak is %d", planned, measured)
				}
				if n, err := prepared.Largest(config(planned), k, 63); n != 7 || err != nil {
					t.Errorf("the largest batch is %d, %v; not 7", n, err)
				}
				if n, err := prepared.Largest(config(0), k, 63); n != 63 || err != nil {
					t.Errorf("without a limit the largest batch is %d, %v; not the whole data set", n, err)
				}
				if _, err := prepared.Largest(config(1000), k, 63); !errors.Is(err, device.ErrOutOfMemory) {
					t.Errorf("with 1,000 bytes: %v, not ErrOutOfMemory", err)
				}
				k.Loader.BatchSize = 8
				if _, err := prepared.Open(config(planned), k); !errors.Is(err, device.ErrOutOfMemory) {
					t.Errorf("eight samples: %v, not ErrOutOfMemory", err)
				}
			})
		}
	}
}
