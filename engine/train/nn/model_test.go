package nn_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
)

func newModel(t testing.TB, name string, in nn.Shape, classes int) *nn.Model {
	t.Helper()
	m, err := nn.New(name, in, classes)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestSize checks parameter counts and multiply-adds against published ones. torchvision's resnet18
// has 11,689,512 parameters and 1.814 G multiply-adds at 224x224. Its resnet34 has 3.664 G; its
// resnet50, whose stride is in the 3x3, has 4.089 G. resnet18's CIFAR form with ten classes has
// 11,173,962 parameters and 0.555 G.
func TestSize(t *testing.T) {
	for _, c := range []struct {
		model   string
		in      nn.Shape
		classes int
		params  int64
		macs    float64
	}{
		{"cnn", nn.Shape{H: 32, W: 32, C: 3}, 10, 94_538, 10_323_200},
		{"resnet18", nn.Shape{H: 32, W: 32, C: 3}, 10, 11_173_962, 0.5554e9},
		{"resnet18", nn.Shape{H: 224, W: 224, C: 3}, 1000, 11_689_512, 1.8141e9},
		{"resnet34", nn.Shape{H: 224, W: 224, C: 3}, 1000, 21_797_672, 3.6638e9},
		{"resnet50", nn.Shape{H: 224, W: 224, C: 3}, 1000, 25_557_032, 4.0895e9},
	} {
		m := newModel(t, c.model, c.in, c.classes)
		if n := m.NumParams(); n != c.params {
			t.Errorf("%s on %s has %d parameters, not %d", c.model, c.in, n, c.params)
		}
		if f := m.FLOPs() / 2; math.Abs(f/c.macs-1) > 1e-3 {
			t.Errorf("%s on %s takes %.5g multiply-adds, not %.5g", c.model, c.in, f, c.macs)
		}
		sum := int64(0)
		for _, l := range m.Layers() {
			sum += int64(l.Params)
		}
		if sum != c.params {
			t.Errorf("%s: the layers' parameters sum to %d, not %d", c.model, sum, c.params)
		}
	}
}

func TestNewErrors(t *testing.T) {
	for _, c := range []struct {
		model   string
		in      nn.Shape
		classes int
		want    string
	}{
		{"vgg16", nn.Shape{H: 32, W: 32, C: 3}, 10, "cnn, resnet18"},
		{"cnn", nn.Shape{H: 3, W: 32, C: 3}, 10, "at least 4x4"},
		{"cnn", nn.Shape{H: 32, W: 32, C: 5}, 10, "1 to 4 input channels"},
		{"resnet18", nn.Shape{H: 32, W: 32}, 10, "1 to 4 input channels"},
		{"resnet18", nn.Shape{H: 32, W: 32, C: 3}, 1, "at least 2 classes"},
		{"resnet18", nn.Shape{H: 32, W: 32, C: 3, T: 4}, 10, "it takes images, and the samples are clips of 4x32x32x3; choose a model that takes clips: cnn3d"},
		{"cnn3d", nn.Shape{H: 32, W: 32, C: 3}, 10, "clips of at least 2 frames"},
	} {
		_, err := nn.New(c.model, c.in, c.classes)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%q, %v, %d): %v; want %q", c.model, c.in, c.classes, err, c.want)
		}
		if (c.model == "vgg16") != errors.Is(err, nn.ErrUnknownModel) {
			t.Errorf("New(%q): %v is ErrUnknownModel: %v", c.model, err, errors.Is(err, nn.ErrUnknownModel))
		}
	}
}

func TestSpecErrors(t *testing.T) {
	for _, c := range []struct {
		spec nn.Spec
		want string
	}{
		{nn.Spec{Name: "resnet50", Stem: "vgg"}, "cifar or imagenet"},
		{nn.Spec{Name: "cnn", Stem: nn.StemCIFAR}, "no choice of stems"},
		{nn.Spec{Name: "cnn", NoBatchNorm: true}, "no batch norm to leave out"},
	} {
		c.spec.In, c.spec.Classes = nn.Shape{H: 32, W: 32, C: 3}, 10
		if _, err := c.spec.Model(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.spec, err, c.want)
		}
	}
}

func TestPlanErrors(t *testing.T) {
	dev := cpuDevice(t)
	m := newModel(t, "cnn", nn.Shape{H: 8, W: 8, C: 3}, 10)
	other := newModel(t, "cnn", nn.Shape{H: 8, W: 8, C: 1}, 10)
	st, err := nn.NewState(dev, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Free()
	input, err := dev.Alloc(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Free(input)
	good := nn.PlanConfig{Batch: 4, Input: input, LabelsOff: 3072, AugOff: 3136}
	small := activations(t, dev, m, nn.PlanConfig{Batch: 2})
	for _, c := range []struct {
		name   string
		m      *nn.Model
		change func(*nn.PlanConfig)
		want   string
	}{
		{"good", m, func(c *nn.PlanConfig) {}, ""},
		{"another model's state", other, func(c *nn.PlanConfig) {}, "another model"},
		{"no batch", m, func(c *nn.PlanConfig) { c.Batch = 0 }, "batch_size 0"},
		{"type", m, func(c *nn.PlanConfig) { c.Type = kernels.F16 }, "choose one of fp32"},
		{"no type", m, func(c *nn.PlanConfig) { c.Type = kernels.U8 }, "no compute type"},
		{"input too small", m, func(c *nn.PlanConfig) { c.Batch = 100 }, "outside the input buffer"},
		{"labels in samples", m, func(c *nn.PlanConfig) { c.LabelsOff = 64 }, "follow"},
		{"labels outside", m, func(c *nn.PlanConfig) { c.LabelsOff = 1 << 16 }, "labels at"},
		{"augmentation outside", m, func(c *nn.PlanConfig) {
			c.DeviceTransforms, c.Std, c.AugOff = true, [4]float32{1, 1, 1}, 1<<16
		}, "augmentation at"},
		{"no deviation", m, func(c *nn.PlanConfig) { c.DeviceTransforms = true }, "must be positive"},
		{"activations", m, func(c *nn.PlanConfig) { c.Activations = small }, "as much as the plan's Memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := good
			c.change(&cfg)
			p, err := c.m.Plan(dev, st, cfg)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				p.Free()
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want %q", err, c.want)
			}
			if strings.Contains(c.want, "choose") && !errors.Is(err, device.ErrUnsupported) {
				t.Errorf("%v does not wrap ErrUnsupported", err)
			}
		})
	}
}

// TestPlanShapes builds plans of many forms on a device that refuses a launch
// whose buffers do not have exactly the operation's sizes.
func TestPlanShapes(t *testing.T) {
	for _, model := range nn.Names() {
		for _, in := range []nn.Shape{{H: 32, W: 32, C: 3}, {H: 28, W: 28, C: 1}, {H: 40, W: 24, C: 4}, {H: 9, W: 11, C: 2}, {H: 224, W: 224, C: 3}, {H: 97, W: 65, C: 3}} {
			if deep(model) && in.W != 65 {
				continue
			}
			clip := model == "cnn3d"
			if clip {
				in.T = 2 + in.C
			}
			m := newModel(t, model, in, 7)
			tr := newTrainer(t, &sizesOnly{newRefDevice()}, m, 1, 3, nil)
			for _, typ := range []kernels.Type{kernels.F32, kernels.TF32, kernels.F16, kernels.BF16} {
				for _, onDevice := range []bool{false, !clip} {
					tr.rebuild(3, func(c *nn.PlanConfig) {
						c.Type, c.DeviceTransforms, c.Accumulate = typ, onDevice, 2
						c.Std = [4]float32{1, 1, 1, 1}
					})
				}
			}
		}
	}
}

// sizesOnly checks launches and copies nothing.
type sizesOnly struct{ *refDevice }

func (d *sizesOnly) Alloc(n int) (device.Buffer, error) {
	a := d.next
	d.next += uint64(n+255) &^ 255
	return device.Buffer{Addr: a, Size: n}, nil
}
func (d *sizesOnly) Free(device.Buffer)                                 {}
func (d *sizesOnly) CopyIn(device.Stream, device.Buffer, []byte) error  { return nil }
func (d *sizesOnly) CopyOut(device.Stream, []byte, device.Buffer) error { return nil }
func (d *sizesOnly) Launch(device.Stream, device.Program) error         { return nil }
