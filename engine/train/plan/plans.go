package plan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/ops"
	"dev.gpustall/loader"
)

// maxPlans bounds the plans kept: those of the full batch, of the epoch's short last
// one, the same of evaluations, and those of the knobs tried just before.
const maxPlans = 6

// Task is what is trained, and what may be spent on its start.
type Task struct {
	Model *nn.Model // nil with Fixed
	// Fixed makes the step of a modelled workload without a network: one operation
	// whose time the device knows.
	Fixed func(samples int) device.Operation
	Seed  int64 // of all that is random; plans take the model's first parameters from it

	// TuneLimit is how long the start may try variants of the kernels, where the
	// device has several; 0: not at all.
	TuneLimit time.Duration
	Start     context.Context                    // ends a long start; nil: nothing does
	Progress  func(what string, done, total int) // is told what takes the start long; nil: nobody

	HostMemory  func() host.Memory     // what this process may hold; nil: that is not known
	HostPlanned func(trace.HostMemory) // is told what knobs put in force are planned to take; nil: nobody
}

// Config is what plans are made of.
type Config struct {
	Task
	Device   device.Device
	Recorder *trace.Recorder // gets notes, and the memory as gauges
	// Quiesce waits until the device has finished all that was enqueued. It is
	// called before anything that a step in flight uses is changed or freed.
	Quiesce func() error

	Split       // of training
	Test  Split // what is evaluated on; without samples, nothing is
	Saves bool  // copies of the model's state are made while the run goes on
	Hold  int   // batches that are held at once beside the loader's own
}

// Split is what a split's samples are, and what the device makes of them.
type Split struct {
	Dataset   loader.Info
	Mean, Std [4]float32          // of its transforms
	Steps     []loader.DeviceStep // the other transforms that it makes, before
}

// Plans builds plans and keeps a few, with the memory that they share. It belongs to
// the step loop's goroutine.
type Plans struct {
	cfg      Config
	dev      device.Device
	info     device.Info
	rec      *trace.Recorder
	reserver device.Reserver   // nil when the device reserves nothing
	overhead device.Overheader // nil when it does not know its own
	tuner    device.Tuner      // nil when it has one kernel for each operation

	state       *nn.State // nil without a network
	activations *nn.Activations
	inputs      [Slots]device.Buffer
	plans       []*Plan
	turn        int // counts the uses of plans, for eviction
	inForce
	before inForce // what was in force before the latest Apply

	room        host.Memory      // what the process may hold, as it was last read
	process     int64            // bytes that it held before anything was planned
	hostPlanned trace.HostMemory // the largest so far

	planned  trace.Memory    // the largest so far
	launches []device.Launch // of the plans that memory was reserved for last
	reserved int64           // taken from the driver at once
	broken   bool            // the device failed for good
	gauges   gauges
}

// inForce is what all plans have in common.
type inForce struct {
	basis
	capture bool
}

// basis is what the model's state is laid out for and what the plans' kernels are
// chosen by.
type basis struct {
	nn.Layout
	weightsOnly bool
	checkpoint  bool
	dropout     Share
	smoothing   Share
	tuned       bool
}

func (p *Plans) basisOf(k Knobs) basis {
	// Where there is one kernel for each operation, autotune changes nothing.
	return basis{nn.Layout{Type: k.Precision, Accumulate: k.Accumulate, Rule: k.Optimizer.Rule}, k.Optimizer.WeightsOnly, k.Checkpoint, k.Dropout, k.Smoothing, k.Autotune && p.tuner != nil}
}

// Find returns the plan of a batch, or nil when it has to be built.
func (p *Plans) Find(key Key) *Plan {
	p.turn++
	return p.find(key)
}

func (p *Plans) find(key Key) *Plan {
	for _, q := range p.plans {
		if q.key == key {
			q.used = p.turn
			return q
		}
	}
	return nil
}

// Build makes the plan of a batch. It waits for what is in flight, since plans that
// are there may have to make room.
func (p *Plans) Build(key Key) (*Plan, error) {
	if err := p.cfg.Quiesce(); err != nil {
		return nil, err
	}
	return p.build(key)
}

// build is Build when nothing is in flight. When memory is short, all plans there
// are make room.
func (p *Plans) build(key Key) (*Plan, error) {
	q, err := p.tryBuild(key)
	if errors.Is(err, device.ErrOutOfMemory) {
		p.freeAll()
		q, err = p.tryBuild(key)
	}
	if err != nil {
		return nil, errs.Wrap(err, "plan", fmt.Sprintf("a step of batch_size=%d on %s", key.Samples, p.info.Name), hintMemory)
	}
	return q, nil
}

func (p *Plans) tryBuild(key Key) (*Plan, error) {
	at := p.layout(key)
	c := p.config(p.basis, key)
	activations := 0
	if p.cfg.Model != nil {
		var err error
		if activations, err = p.cfg.Model.Memory(c); err != nil {
			return nil, err
		}
	}
	if err := p.allocate(at.Size, activations); err != nil {
		return nil, err
	}
	if len(p.plans) >= maxPlans {
		p.drop(1)
	}
	q := &Plan{key: key, used: p.turn}
	for i := range q.slots {
		q.slots[i].Input = p.inputs[i].Slice(0, at.Size)
		c.Input, c.SamplesOff, c.LabelsOff, c.AugOff, c.Activations = q.slots[i].Input, at.Samples, at.Labels, at.Aug, p.activations
		if err := p.prepare(&q.slots[i], c); err != nil {
			p.release(q)
			return nil, err
		}
	}
	p.plans = append(p.plans, q)
	return q, nil
}

// prepare makes the programs of a slot.
func (p *Plans) prepare(s *Slot, c nn.PlanConfig) (err error) {
	if p.cfg.Model == nil {
		return p.load(&s.whole, []device.Launch{{Op: p.cfg.Fixed(c.Batch), Layer: "step"}})
	}
	if s.net, err = p.cfg.Model.Plan(p.dev, p.state, c); err != nil {
		return err
	}
	if c.Test {
		return p.load(&s.whole, s.net.Eval)
	}
	if err = p.load(&s.whole, s.net.Train); err != nil || p.Accumulate == 1 {
		return err
	}
	return p.load(&s.partial, s.net.Accumulate)
}

// load has the device prepare launches.
func (p *Plans) load(prog *ops.Program, ls []device.Launch) (err error) {
	if *prog, err = ops.NewProgram(p.dev, ls); err != nil {
		return err
	}
	return p.setCapture(prog, p.capture)
}

// setCapture has the device replay a program as one graph, or not, where it can.
func (p *Plans) setCapture(prog *ops.Program, on bool) error {
	if c, ok := p.dev.(device.Capturer); ok {
		return c.Capture(prog.ID, on)
	}
	return nil
}

// split is which a batch is of.
func (p *Plans) split(key Key) *Split {
	if key.Test {
		return &p.cfg.Test
	}
	return &p.cfg.Split
}

func (p *Plans) layout(key Key) loader.Layout {
	return loader.NewLayout(p.split(key).Dataset, key.Samples, key.DeviceTransforms)
}

// config is the plan of a batch, but for its buffers.
func (p *Plans) config(b basis, key Key) nn.PlanConfig {
	at, of := p.layout(key), p.split(key)
	return nn.PlanConfig{
		Transforms: transforms(of.Steps, at), SampleBytes: at.Sent(), Record: at.Record,
		Batch: key.Samples, Test: key.Test, DeviceTransforms: key.DeviceTransforms, Mean: of.Mean, Std: of.Std,
		Type: b.Type, Accumulate: b.Accumulate, Rule: b.Rule, WeightsOnly: b.weightsOnly, Checkpoint: b.checkpoint,
		Dropout: float32(b.dropout), Smoothing: float32(b.smoothing),
	}
}

// drop releases the n least recently used plans.
func (p *Plans) drop(n int) {
	for ; n > 0 && len(p.plans) > 0; n-- {
		old := 0
		for i, q := range p.plans {
			if q.used < p.plans[old].used {
				old = i
			}
		}
		p.release(p.plans[old])
		p.plans = append(p.plans[:old], p.plans[old+1:]...)
	}
}

func (p *Plans) release(q *Plan) {
	for i := range q.slots {
		s := &q.slots[i]
		for _, prog := range []*ops.Program{&s.whole, &s.partial} {
			if prog.ID != 0 {
				p.dev.Release(prog.ID)
			}
		}
		if s.net != nil {
			s.net.Free()
		}
	}
}

// State is the model's; nil without a network.
func (p *Plans) State() *nn.State { return p.state }

// Close frees all memory. Nothing may be in flight.
func (p *Plans) Close() {
	p.freeAll()
	if p.state != nil {
		p.state.Free()
	}
}
