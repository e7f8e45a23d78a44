package nn

import (
	"fmt"
	"strings"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
	"pgregory.net/rapid"
)

// checkPacked fails when two tensors alive at the same time overlap, or one is
// out of bounds. It returns the least memory that any packing needs.
func checkPacked(t interface{ Fatalf(string, ...any) }, ts []tensor, total int) (least int) {
	last := 0
	for i, a := range ts {
		if a.first < 0 {
			continue
		}
		if a.off%tensorAlign != 0 || a.off < 0 || a.off+a.size > total {
			t.Fatalf("tensor %d at %d+%d lies outside %d bytes or is not aligned", i, a.off, a.size, total)
		}
		last = max(last, a.last)
		for j, b := range ts[:i] {
			if b.first < 0 || a.last < b.first || b.last < a.first {
				continue
			}
			if a.off < b.off+b.size && b.off < a.off+a.size {
				t.Fatalf("tensors %d and %d overlap while both live: %+v %+v", j, i, b, a)
			}
		}
	}
	for at := range last + 1 {
		live := 0
		for _, a := range ts {
			if a.first >= 0 && a.first <= at && at <= a.last {
				live += roundUp(a.size)
			}
		}
		least = max(least, live)
	}
	return least
}

func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts := rapid.SliceOf(rapid.Custom(func(t *rapid.T) tensor {
			first := rapid.IntRange(-1, 30).Draw(t, "first")
			return tensor{size: rapid.IntRange(1, 5000).Draw(t, "size"), first: first,
				last: first + rapid.IntRange(0, 15).Draw(t, "life")}
		})).Draw(t, "tensors")
		total := pack(ts)
		sum := 0
		for _, a := range ts {
			sum += roundUp(a.size)
		}
		if least := checkPacked(t, ts, total); total < least || total > sum {
			t.Fatalf("packed into %d bytes; between %d and %d are possible", total, least, sum)
		}
	})
}

// TestPlanMemory checks the packing of real plans: every tensor is written
// before it is read, none overlap, and little memory is wasted.
func TestPlanMemory(t *testing.T) {
	for _, c := range []struct {
		model string
		in    Shape
		batch int
	}{
		{"cnn", Shape{H: 32, W: 32, C: 3}, 128},
		{"cnn", Shape{H: 224, W: 224, C: 3}, 16},
		{"resnet18", Shape{H: 32, W: 32, C: 3}, 128},
		{"resnet18", Shape{H: 224, W: 224, C: 3}, 16},
		{"cnn3d", Shape{H: 64, W: 64, C: 3, T: 16}, 8},
		{"resnet50", Shape{H: 224, W: 224, C: 3}, 4},
		{"resnet18 without batch norm", Shape{H: 32, W: 32, C: 3}, 128},
	} {
		name, plain := strings.CutSuffix(c.model, " without batch norm")
		for _, typ := range []kernels.Type{kernels.F32, kernels.F16} {
			t.Run(fmt.Sprintf("%s/%s/%s", c.model, c.in, typ), func(t *testing.T) {
				m, err := Spec{Name: name, In: c.in, Classes: 10, NoBatchNorm: plain}.Model()
				if err != nil {
					t.Fatal(err)
				}
				ls := m.lists(nil, PlanConfig{Batch: c.batch, Type: typ, DeviceTransforms: true}, device.Buffer{})
				less := m.lists(nil, PlanConfig{Batch: c.batch, Type: typ, DeviceTransforms: true, Checkpoint: true}, device.Buffer{})
				checkPacked(t, less.train.tensors, less.memory)
				checkWritten(t, less.train)
				t.Logf("with checkpoints %.1f MiB", float64(less.memory)/(1<<20))
				if strings.HasPrefix(c.model, "resnet") && float64(less.memory) > 0.8*float64(ls.memory) {
					t.Errorf("checkpoints take %d bytes of activations, without them %d", less.memory, ls.memory)
				}
				for name, l := range map[string]*list{"train": ls.train, "eval": ls.eval} {
					least := checkPacked(t, l.tensors, ls.memory)
					checkWritten(t, l)
					if name == "train" {
						sum := 0
						for _, a := range l.tensors {
							sum += roundUp(a.size)
						}
						t.Logf("%d launches, %.1f MiB of activations in %.1f MiB; no packing takes less than %.1f MiB",
							len(l.calls), float64(sum)/(1<<20), float64(ls.memory)/(1<<20), float64(least)/(1<<20))
						if float64(ls.memory) > 1.2*float64(least) {
							t.Errorf("the plan takes %d bytes, over a fifth more than the least, %d", ls.memory, least)
						}
					}
				}
			})
		}
	}
}

func checkWritten(t *testing.T, l *list) {
	t.Helper()
	written := make([]bool, len(l.tensors))
	for i, c := range l.calls {
		args := c.op.Args()
		if len(args) != len(c.refs) {
			t.Fatalf("launch %d, %s of %s, has %d buffers, not %d", i, c.op.Name(), c.layer, len(c.refs), len(args))
		}
		for j, r := range c.refs {
			if r.t > 0 && args[j].Role != kernels.Out && !written[r.t-1] {
				t.Errorf("launch %d, %s of %s, reads %s before it is written", i, c.op.Name(), c.layer, args[j].Name)
			}
		}
		for j, r := range c.refs {
			if r.t > 0 && args[j].Role != kernels.In {
				written[r.t-1] = true
			}
		}
	}
}
