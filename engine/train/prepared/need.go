package prepared

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
	"dev.gpustall/loader"
)

// basis determines the layout of the model's state and the choice of kernels. All
// prepared steps have the same basis.
type basis struct {
	nn.Layout
	weightsOnly bool
	checkpoint  bool
	dropout     Share
	smoothing   Share
	tuned       bool
}

// need is how much of the device's memory the prepared steps of some knobs take: the
// steps of the full batch, of the epoch's last one, and of evaluations.
type need struct {
	trace.Memory
	basis       basis
	input       int             // bytes of an input slot
	activations int             // bytes of the activations
	full        []device.Launch // of the full batch's step, without buffers
	launches    []device.Launch // of all steps
}

// estimator works out what knobs need before any of it is taken. Nothing in it changes
// while a run goes on, so any goroutine may use it, except for need: the device's
// Overhead belongs to the step loop.
type estimator struct {
	cfg      *Config
	info     device.Info
	overhead device.Overheader // nil when the device does not know its own
	tunes    bool              // the device has several kernels for an operation
}

func newEstimator(cfg *Config, info device.Info) estimator {
	e := estimator{cfg: cfg, info: info}
	e.overhead, _ = cfg.Device.(device.Overheader)
	_, e.tunes = cfg.Device.(device.Tuner)
	return e
}

// basis returns the basis of knobs. Where there is one kernel for each operation,
// autotune changes nothing.
func (e *estimator) basis(k Knobs) basis {
	return basis{
		Layout:      nn.Layout{Type: k.Precision, Accumulate: k.Accumulate, Rule: k.Optimizer.Rule},
		weightsOnly: k.Optimizer.WeightsOnly, checkpoint: k.Checkpoint,
		dropout: k.Dropout, smoothing: k.Smoothing, tuned: k.Autotune && e.tunes,
	}
}

// trainKeys returns the keys of an epoch's batches, the full one first.
func (e *estimator) trainKeys(k Knobs) []Key {
	return keys(e.cfg.Dataset.Samples, k.Loader, false)
}

// testKeys returns the keys of an evaluation's batches, if there are evaluations.
func (e *estimator) testKeys(k Knobs) []Key {
	n := e.cfg.Test.Dataset.Samples
	if n == 0 {
		return nil
	}
	return keys(n, TestKnobs(k.Loader, n), true)
}

func keys(n int, k loader.Knobs, test bool) []Key {
	out := []Key{{min(k.BatchSize, n), k.DeviceTransforms, test}}
	if rest := n % k.BatchSize; rest != 0 && n > k.BatchSize && !k.DropLast {
		out = append(out, Key{rest, k.DeviceTransforms, test})
	}
	return out
}

// need adds up the device memory that knobs take.
func (e *estimator) need(k Knobs) (need, error) {
	n, err := e.buffers(k)
	if err == nil && e.overhead != nil {
		n.Kernels = e.overhead.Overhead(n.launches)
	}
	return n, err
}

// buffers is need without the kernels' scratch memory, which takes longer to find out.
func (e *estimator) buffers(k Knobs) (need, error) {
	n := need{basis: e.basis(k)}
	m := e.cfg.Model
	for i, key := range append(e.trainKeys(k), e.testKeys(k)...) {
		n.input = max(n.input, e.layout(key).Size)
		if m == nil {
			continue
		}
		c := e.planConfig(n.basis, key)
		activations, err := m.Memory(c)
		if err != nil {
			return n, err
		}
		launches, err := m.Launches(c)
		if err != nil {
			return n, err
		}
		n.activations = max(n.activations, activations)
		n.launches = append(n.launches, launches...)
		if i == 0 {
			n.full = launches
		}
	}
	n.Inputs, n.Activations = int64(Slots*n.input), int64(n.activations)
	if m != nil {
		for _, bytes := range m.StateSizes(n.basis.Layout) {
			n.Parameters += int64(bytes)
		}
		n.Parameters += maxSteps * Slots * nn.MetricsSize
	}
	return n, nil
}

// host adds up what knobs need of the host's memory. n is their need of device memory,
// which counts if the device's memory is the host's.
func (e *estimator) host(k Knobs, n *need, process int64) trace.HostMemory {
	of := k.Loader.Memory(e.cfg.Dataset, e.cfg.Hold)
	m := trace.HostMemory{
		Batches: of.Batches(), Workers: of.Workers,
		Session: trace.SessionBytes(k.Loader.NumWorkers), Process: process,
		Mapped: e.cfg.Dataset.Mapped + e.cfg.Test.Dataset.Mapped,
	}
	if k.Loader.PinMemory && e.info.PinNote == "" {
		m.Pinned = m.Batches
	}
	if e.cfg.Saves && e.cfg.Model != nil {
		m.Saved = e.cfg.Model.SavedBytes(e.basis(k).Layout)
	}
	if test := e.cfg.Test.Dataset; test.Samples > 0 {
		of := TestKnobs(k.Loader, test.Samples).Memory(test, TestHold)
		m.Evaluation = of.Batches() + of.Workers
	}
	if e.info.OnHost {
		m.Device = n.Memory
	}
	return m
}

// split returns the split that a batch belongs to.
func (e *estimator) split(key Key) *Split {
	if key.Test {
		return &e.cfg.Test
	}
	return &e.cfg.Split
}

func (e *estimator) layout(key Key) loader.Layout {
	return loader.NewLayout(e.split(key).Dataset, key.Samples, key.DeviceTransforms)
}

// planConfig returns the plan of a batch's step, without its buffers.
func (e *estimator) planConfig(b basis, key Key) nn.PlanConfig {
	at, of := e.layout(key), e.split(key)
	return nn.PlanConfig{
		Transforms: transforms(of.Steps, at), SampleBytes: at.Sent(), Record: at.Record,
		Batch: key.Samples, Test: key.Test, DeviceTransforms: key.DeviceTransforms, Mean: of.Mean, Std: of.Std,
		Type: b.Type, Accumulate: b.Accumulate, Rule: b.Rule, WeightsOnly: b.weightsOnly, Checkpoint: b.checkpoint,
		Dropout: float32(b.dropout), Smoothing: float32(b.smoothing),
	}
}

// activations returns the bytes of activations that a batch's step takes.
func (e *estimator) activations(b basis, key Key) (int, error) {
	if e.cfg.Model == nil {
		return 0, nil
	}
	return e.cfg.Model.Memory(e.planConfig(b, key))
}

// indexed reports whether kernels can count the elements of all buffers in 31 bits.
func (n *need) indexed() bool {
	for _, l := range n.launches {
		op, ok := l.Op.(kernels.Op)
		if !ok {
			continue
		}
		for _, a := range op.Args() {
			if a.Len >= 1<<31 {
				return false
			}
		}
	}
	return true
}
