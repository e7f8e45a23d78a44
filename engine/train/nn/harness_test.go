package nn_test

import (
	"strings"
	"testing"
	"unsafe"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
)

func asBytes[T float32 | int32](v []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))
}

func cpuDevice(t testing.TB) device.Device {
	t.Helper()
	d, err := cpu.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// portable reports whether dev's kernels are plain Go, for want of a C compiler.
func portable(dev device.Device) bool { return strings.HasSuffix(dev.Info().Name, ", go)") }

// trainer runs plans of one model, one batch at a time.
type trainer struct {
	t      testing.TB
	dev    device.Device
	m      *nn.Model
	st     *nn.State
	plan   *nn.Plan
	input  device.Buffer
	cfg    nn.PlanConfig
	stream device.Stream
	done   device.Event
	train  device.Program
	eval   device.Program
	part   device.Program // 0 without accumulation
}

// newTrainer builds a plan for batch float32 samples, after configure, if any,
// has changed it.
func newTrainer(t testing.TB, dev device.Device, m *nn.Model, seed int64, batch int, configure func(*nn.PlanConfig)) *trainer {
	t.Helper()
	st, err := nn.NewState(dev, m, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Free)
	tr := &trainer{t: t, dev: dev, m: m, st: st}
	tr.stream, err = dev.NewStream("compute")
	tr.check(err)
	tr.done, err = dev.NewEvent()
	tr.check(err)
	tr.rebuild(batch, configure)
	return tr
}

func (tr *trainer) check(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

// rebuild makes a new plan on the same state.
func (tr *trainer) rebuild(batch int, configure func(*nn.PlanConfig)) {
	tr.t.Helper()
	samples := 4 * batch * max(tr.m.In.T, 1) * tr.m.In.H * tr.m.In.W * tr.m.In.C
	labels := (samples + 63) &^ 63
	aug := (labels + 4*batch + 63) &^ 63
	var err error
	tr.input, err = tr.dev.Alloc(aug + 16*batch)
	tr.check(err)
	tr.cfg = nn.PlanConfig{Batch: batch, Type: kernels.F32, Input: tr.input, LabelsOff: labels, AugOff: aug}
	if configure != nil {
		configure(&tr.cfg)
	}
	plan, err := tr.m.Plan(tr.dev, tr.st, tr.cfg)
	tr.check(err)
	input := tr.input
	tr.t.Cleanup(func() {
		plan.Free()
		tr.dev.Free(input)
	})
	tr.plan = plan
	prepare := func(ls []device.Launch) device.Program {
		p, err := tr.dev.Prepare(ls)
		tr.check(err)
		tr.t.Cleanup(func() { tr.dev.Release(p) })
		return p
	}
	tr.train, tr.eval, tr.part = prepare(plan.Train), prepare(plan.Eval), 0
	if plan.Accumulate != nil {
		tr.part = prepare(plan.Accumulate)
	}
}

func (tr *trainer) load(x []float32, labels []int32) {
	tr.t.Helper()
	tr.check(tr.dev.CopyIn(tr.stream, tr.input.Slice(0, 4*len(x)), asBytes(x)))
	tr.check(tr.dev.CopyIn(tr.stream, tr.input.Slice(tr.cfg.LabelsOff, 4*len(labels)), asBytes(labels)))
	tr.sync()
}

func (tr *trainer) sync() {
	tr.t.Helper()
	tr.check(tr.dev.Record(tr.stream, tr.done))
	tr.check(tr.dev.Sync(tr.done))
}

// run launches p and returns the batch's mean loss and hits.
func (tr *trainer) run(p device.Program) (loss float64, hits int) {
	tr.t.Helper()
	tr.check(tr.dev.Launch(tr.stream, p))
	v := tr.read(tr.plan.Metrics, 2)
	return float64(v[0]), int(v[1])
}

func (tr *trainer) read(b device.Buffer, n int) []float32 {
	tr.t.Helper()
	v := make([]float32, n)
	tr.check(tr.dev.CopyOut(tr.stream, asBytes(v), b.Slice(0, 4*n)))
	tr.sync()
	return v
}

// activations is memory for each of the plans.
func activations(t testing.TB, dev device.Device, m *nn.Model, plans ...nn.PlanConfig) *nn.Activations {
	t.Helper()
	size := 0
	for _, c := range plans {
		n, err := m.Memory(c)
		if err != nil {
			t.Fatal(err)
		}
		size = max(size, n)
	}
	a, err := m.NewActivations(dev, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Free)
	return a
}
