package nn_test

import (
	"reflect"
	"slices"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
)

// sizes notes what is allocated.
type sizes struct {
	sizesOnly
	got []int
}

func (d *sizes) Alloc(n int) (device.Buffer, error) {
	d.got = append(d.got, n)
	return d.sizesOnly.Alloc(n)
}

// sampleOf is an image, or a clip for models that take these.
func sampleOf(model string) nn.Shape {
	if model == "cnn3d" {
		return nn.Shape{H: 16, W: 16, C: 3, T: 4}
	}
	return nn.Shape{H: 32, W: 32, C: 3}
}

// deep models take long to initialise.
func deep(model string) bool { return model == "resnet34" || model == "resnet50" }

// TestSizes: a model allocates and launches what it says it needs.
func TestSizes(t *testing.T) {
	for _, name := range nn.Names() {
		for _, typ := range []kernels.Type{kernels.F32, kernels.TF32, kernels.F16, kernels.BF16} {
			for accumulate, rule := range map[int]kernels.Rule{1: kernels.Momentum, 3: kernels.SGD, 4: kernels.Adam} {
				l := nn.Layout{Type: typ, Accumulate: accumulate, Rule: rule}
				if deep(name) && (typ != kernels.F16 || accumulate == 1) {
					continue // it is made of the same parts as the others
				}
				m, err := nn.New(name, sampleOf(name), 10)
				if err != nil {
					t.Fatal(err)
				}
				dev := &sizes{sizesOnly: sizesOnly{newRefDevice()}}
				st, err := nn.NewState(dev, m, 1)
				if err != nil {
					t.Fatal(err)
				}
				missing := st.Missing(l)
				if want := append(slices.Clone(dev.got), missing...); !slices.Equal(m.StateSizes(l), want) {
					t.Errorf("%s %v x%d: StateSizes %v, allocated and missing are %v", name, typ, accumulate, m.StateSizes(l), want)
				}
				dev.got = nil
				if err := st.Configure(l); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(dev.got, missing) {
					t.Errorf("%s %v x%d: Configure allocated %v, Missing said %v", name, typ, accumulate, dev.got, missing)
				}
				if left := st.Missing(l); len(left) > 0 {
					t.Errorf("%s %v x%d: after Configure %v are missing", name, typ, accumulate, left)
				}
				input, _ := dev.Alloc(1 << 18)
				c := nn.PlanConfig{Batch: 4, Type: typ, Accumulate: accumulate, Rule: rule, Input: input, LabelsOff: 1 << 17}
				memory, err := m.Memory(c)
				if err != nil {
					t.Fatal(err)
				}
				dev.got = nil
				p, err := m.Plan(dev, st, c)
				if err != nil {
					t.Fatal(err)
				}
				if want := []int{nn.MetricsSize, memory}; !slices.Equal(dev.got, want) {
					t.Errorf("%s %v x%d: Plan allocated %v, want %v", name, typ, accumulate, dev.got, want)
				}
				said, err := m.Launches(c)
				if err != nil {
					t.Fatal(err)
				}
				made := append(slices.Clone(p.Train), p.Accumulate...)
				for i := range made {
					made[i].Bufs = nil
				}
				if !reflect.DeepEqual(said, made) {
					t.Errorf("%s %v x%d: Launches differ from the plan's", name, typ, accumulate)
				}
			}
		}
	}
}
