//go:build cuda && cgo && linux

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
)

// curve is a short training run.
type curve struct {
	model   string
	side    int // of the pictures
	batch   int
	steps   int
	lr      float64
	typ     kernels.Type
	capture bool
	nudge   float64 // relative noise on the first batch's pixels
}

// losses trains on dev and returns each step's loss. The batches follow from the
// seed, so that devices can be compared.
func (c curve) losses(t *testing.T, dev device.Device) []float64 {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	m, err := nn.New(c.model, nn.Shape{H: c.side, W: c.side, C: 3}, 10)
	check(err)
	st, err := nn.NewState(dev, m, 7)
	check(err)
	t.Cleanup(st.Free)
	samples := 4 * c.batch * c.side * c.side * 3
	labels := (samples + 63) &^ 63
	input, err := dev.Alloc(labels + 4*c.batch)
	check(err)
	t.Cleanup(func() { dev.Free(input) })
	plan, err := m.Plan(dev, st, nn.PlanConfig{Batch: c.batch, Type: c.typ, Input: input, LabelsOff: labels})
	check(err)
	t.Cleanup(plan.Free)
	p, err := dev.Prepare(plan.Train)
	check(err)
	t.Cleanup(func() { dev.Release(p) })
	if c.capture {
		check(dev.(device.Capturer).Capture(p, true))
	}
	compute, err := dev.NewStream("compute")
	check(err)
	copying, err := dev.NewStream("copy")
	check(err)
	var copied, done device.Event
	copied, err = dev.NewEvent()
	check(err)
	done, err = dev.NewEvent()
	check(err)
	host, err := dev.AllocHost(input.Size)
	check(err)
	metrics, err := dev.AllocHost(8)
	check(err)

	rng := rand.New(rand.NewPCG(5, 6))
	var out []float64
	for step := range c.steps {
		for i := range c.batch {
			label := rng.IntN(10)
			*(*int32)(unsafe.Pointer(&host[labels+4*i])) = int32(label)
			px := kernels.Floats(host[:samples])[i*c.side*c.side*3 : (i+1)*c.side*c.side*3]
			for j := range px {
				v := rng.NormFloat64() + math.Sin(float64(label+1)*float64(j))
				if step == 0 {
					v *= 1 + c.nudge*math.Sin(float64(j*j))
				}
				px[j] = float32(v)
			}
		}
		check(st.SetHyper(compute, nn.Hyper{LR: c.lr, Momentum: 0.9, WeightDecay: 5e-4}))
		check(dev.CopyIn(copying, input, host))
		check(dev.Record(copying, copied))
		check(dev.Wait(compute, copied))
		check(dev.Launch(compute, p))
		check(dev.CopyOut(compute, metrics, plan.Metrics.Slice(0, 8)))
		check(dev.Record(compute, done))
		check(dev.Sync(done))
		loss := float64(kernels.Floats(metrics)[0])
		if math.IsNaN(loss) {
			t.Fatalf("step %d: loss is NaN", step)
		}
		out = append(out, loss)
	}
	dev.FreeHost(host)
	dev.FreeHost(metrics)
	return out
}

// Training on the GPU follows training on the cpu from the same weights and batches. How closely it
// can is measured, because batch norm over a few pixels is a chaotic map. The cpu's own curve is
// taken again with a millionth of noise on the first batch. The GPU may be off by some times what
// that does, plus what its type rounds. The rates are so low that this stays far less than what
// training changes: a network that learnt nothing must not pass.
func TestTrainingFollowsCPU(t *testing.T) {
	d := open(t)
	host, err := cpu.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	for _, c := range []struct {
		curve
		tol float64 // of the loss, relative, beside the noise
	}{
		{curve{model: "cnn", side: 16, batch: 8, lr: 0.02, steps: 20}, 1e-5},
		{curve{model: "cnn", side: 16, batch: 8, lr: 0.02, steps: 20, capture: true}, 1e-5},
		{curve{model: "cnn", side: 16, batch: 8, lr: 0.02, steps: 10, typ: kernels.TF32}, 2e-3},
		{curve{model: "cnn", side: 16, batch: 8, lr: 0.02, steps: 10, typ: kernels.F16}, 3e-3},
		{curve{model: "cnn", side: 16, batch: 8, lr: 0.02, steps: 10, typ: kernels.BF16}, 1e-2},
		{curve{model: "resnet18", side: 8, batch: 8, lr: 1e-5, steps: 20}, 1e-4},
		{curve{model: "resnet18", side: 8, batch: 8, lr: 5e-4, steps: 4, typ: kernels.BF16, capture: true}, 0.05},
	} {
		t.Run(fmt.Sprintf("%s/%v/capture=%v", c.model, c.typ, c.capture), func(t *testing.T) {
			if testing.Short() && c.model != "cnn" && c.typ != kernels.F32 {
				t.Skip("one curve of resnet18 is enough: it takes long on the emulated driver")
			}
			supported := false
			for _, n := range d.info.Types {
				supported = supported || n == c.typ.String()
			}
			if !supported {
				t.Skipf("the device has no %v", c.typ)
			}
			got := c.losses(t, d)
			ref := c.curve
			ref.typ, ref.capture = kernels.F32, false
			want := ref.losses(t, host)
			noise := make([]float64, c.steps)
			for _, ref.nudge = range []float64{1e-6, -1e-6, 3e-6} {
				for i, v := range ref.losses(t, host) {
					noise[i] = max(noise[i], math.Abs(v-want[i]))
				}
			}
			frozen := ref
			frozen.nudge, frozen.lr = 0, 0
			learnt := 0.0 // in units of what is allowed
			for i, v := range frozen.losses(t, host) {
				if i > 0 {
					noise[i] = max(noise[i], noise[i-1]) // it grows; a small value is a crossing
				}
				allowed := c.tol*want[i] + 5*noise[i]
				learnt = max(learnt, math.Abs(v-want[i])/allowed)
				if math.Abs(got[i]-want[i]) > allowed {
					t.Errorf("step %d: loss %.5f, the cpu has %.5f: allowed %.2g", i, got[i], want[i], allowed)
				}
			}
			if c.typ == kernels.F32 && learnt < 5 {
				t.Errorf("a network that learns nothing is off by %.2g times what is allowed: this curve shows nothing", learnt)
			}
			t.Logf("losses %.5f\ncpu    %.5f\nnoise  %.1g\nfrozen %.1f times what is allowed", got, want, noise, learnt)
		})
	}
}
