package engine

import (
	"errors"
	"fmt"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/nn"
	"dev.gpustall/engine/ops"
	"dev.gpustall/engine/trace"
	"dev.gpustall/kernels"
	"dev.gpustall/loader"
)

// inputSlots is how many batches the device holds at once: one being copied in
// while another is computed on.
const inputSlots = 2

// maxPlans bounds the plans kept: the full batch, the epoch's short last one, and
// those of the knobs tried just before.
const maxPlans = 4

// planKey is what a plan depends on.
type planKey struct {
	samples int
	bytes   int // of Batch.Host
	onDev   bool
}

// plan is one step's launches, prepared once for each input slot.
type plan struct {
	key     planKey
	inputs  [inputSlots]device.Buffer
	nets    [inputSlots]*nn.Plan // nil without a network
	train   [inputSlots]ops.Program
	partial [inputSlots]ops.Program // sums gradients only; zero without accumulation
	used    int                     // for eviction
}

// programs are all that the plan has, for what treats them alike.
func (p *plan) programs() []ops.Program {
	return append(p.train[:len(p.train):len(p.train)], p.partial[:]...)
}

func (p *plan) input(step int32) device.Buffer { return p.inputs[step%inputSlots] }

// program is what a step runs: the whole step, or, when its batch is not the last
// of those whose gradients are accumulated, all but the optimizer. A workload
// without a network has one program for both.
func (p *plan) program(step int32, last bool) *ops.Program {
	if q := &p.partial[step%inputSlots]; q.ID != 0 && !last {
		return q
	}
	return &p.train[step%inputSlots]
}

// readMetrics brings the step's loss and hits to the host.
func (p *plan) readMetrics(dev device.Device, s device.Stream, step int32, dst []byte) error {
	net := p.nets[step%inputSlots]
	if net == nil {
		return nil
	}
	return dev.CopyOut(s, dst[:nn.MetricsSize], net.Metrics)
}

// form is what all plans have in common: the model's state is laid out for it, and
// their kernels are chosen by it.
type form struct {
	typ        kernels.Type
	accumulate int
	checkpoint bool
	tuned      bool
}

func (p *planner) formOf(k Knobs) form {
	_, chooses := p.e.dev.(device.Tuner) // where there is one kernel for all, autotune changes nothing
	return form{k.Precision, k.Accumulate, k.Checkpoint, k.Autotune && chooses}
}

// planner builds plans when a batch of a new shape arrives and keeps a few.
type planner struct {
	e       *Engine
	state   *nn.State
	arena   *nn.Arena
	inputs  [inputSlots]device.Buffer
	plans   []*plan
	form    form
	capture bool
	clock   int

	planned  trace.Memory    // the largest so far
	launches []device.Launch // of the plans that memory was reserved for last
	reserved int64           // taken from the driver at once
	broken   bool            // the device failed for good
}

// ahead builds the plan for batches of n samples before one arrives.
func (p *planner) ahead(k loader.Knobs, n int) error {
	l := loader.NewLayout(p.e.cfg.Dataset.Info(), n, k.DeviceTransforms)
	key := planKey{n, l.Size, k.DeviceTransforms}
	if q := p.find(key); q != nil {
		q.used = p.clock
		return nil
	}
	_, err := p.build(key, l.Labels, l.Aug)
	return err
}

func (p *planner) find(key planKey) *plan {
	for _, q := range p.plans {
		if q.key == key {
			return q
		}
	}
	return nil
}

// get returns the plan for a batch; building one waits for the device first.
func (p *planner) get(b *loader.Batch) (*plan, error) {
	key := planKey{b.N, len(b.Host), b.Device}
	p.clock++
	if q := p.find(key); q != nil {
		q.used = p.clock
		return q, nil
	}
	start := p.e.rec.Now()
	if err := p.e.finish(); err != nil {
		return nil, err
	}
	q, err := p.build(key, b.LabelsOff, b.AugOff)
	p.e.span(trace.KindRebuild, start, b.Seq, 0)
	return q, err
}

// build makes a plan; nothing may be in flight. When memory is short the plans
// there are make room for it.
func (p *planner) build(key planKey, labelsOff, augOff int) (*plan, error) {
	q, err := p.try(key, labelsOff, augOff)
	if errors.Is(err, device.ErrOutOfMemory) {
		p.freeAll()
		q, err = p.try(key, labelsOff, augOff)
	}
	if err != nil {
		return nil, fmt.Errorf("plan a step of batch_size=%d on %s: %w", key.samples, p.e.info.Name, err)
	}
	return q, nil
}

func (p *planner) try(key planKey, labelsOff, augOff int) (*plan, error) {
	if err := p.growInputs(key.bytes); err != nil {
		return nil, err
	}
	if len(p.plans) >= maxPlans {
		p.drop(1)
	}
	q := &plan{key: key, used: p.clock}
	for i := range q.inputs {
		q.inputs[i] = p.inputs[i].Slice(0, key.bytes)
		if err := p.prepare(q, i, labelsOff, augOff); err != nil {
			p.release(q)
			return nil, err
		}
	}
	p.plans = append(p.plans, q)
	return q, nil
}

// prepare makes the program that reads input slot i.
func (p *planner) prepare(q *plan, i, labelsOff, augOff int) (err error) {
	if p.e.cfg.Model == nil {
		return p.load(&q.train[i], []device.Launch{{Op: p.e.cfg.Fixed(q.key.samples), Layer: "step"}})
	}
	cfg := p.config(p.form, q.key.samples, q.key.onDev)
	cfg.Input, cfg.LabelsOff, cfg.AugOff = q.inputs[i], labelsOff, augOff
	if cfg.Arena, err = p.growArena(cfg); err != nil {
		return err
	}
	if q.nets[i], err = p.e.cfg.Model.Plan(p.e.dev, p.state, cfg); err != nil {
		return err
	}
	if err = p.load(&q.train[i], q.nets[i].Train); err != nil || p.form.accumulate == 1 {
		return err
	}
	return p.load(&q.partial[i], q.nets[i].Accumulate)
}

// load has the device prepare launches.
func (p *planner) load(prog *ops.Program, ls []device.Launch) (err error) {
	if *prog, err = ops.NewProgram(p.e.dev, ls); err != nil {
		return err
	}
	return p.setCapture(prog.ID, p.capture)
}

// setCapture replays a program as one graph, or stops doing so, where the device
// can.
func (p *planner) setCapture(prog device.Program, on bool) error {
	if c, ok := p.e.dev.(device.Capturer); ok {
		return c.Capture(prog, on)
	}
	return nil
}

// growInputs makes the input slots hold n bytes; plans point into them.
func (p *planner) growInputs(n int) (err error) {
	if n <= p.inputs[0].Size {
		return nil
	}
	p.drop(len(p.plans))
	p.freeInputs()
	for i := range p.inputs {
		if p.inputs[i], err = p.e.dev.Alloc(n); err != nil {
			p.inputs[i] = device.Buffer{}
			p.freeInputs()
			return fmt.Errorf("allocate %d bytes of input (lower batch_size): %w", n, err)
		}
	}
	return nil
}

// growArena makes the arena hold a plan's activations; plans point into it.
func (p *planner) growArena(c nn.PlanConfig) (*nn.Arena, error) {
	need, err := p.e.cfg.Model.Memory(c)
	if err != nil || p.arena != nil && need <= p.arena.Size() {
		return p.arena, err
	}
	p.drop(len(p.plans))
	p.freeArena()
	p.arena, err = nn.NewArena(p.e.dev, p.e.cfg.Model, c)
	return p.arena, err
}

// drop releases the n least recently used plans.
func (p *planner) drop(n int) {
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

func (p *planner) release(q *plan) {
	for _, prog := range q.programs() {
		if prog.ID != 0 {
			p.e.dev.Release(prog.ID)
		}
	}
	for _, net := range q.nets {
		if net != nil {
			net.Free()
		}
	}
}

func (p *planner) freeInputs() {
	for i, b := range p.inputs {
		if b.Size > 0 {
			p.e.dev.Free(b)
			p.inputs[i] = device.Buffer{}
		}
	}
}

// freeAll gives back what plans hold and stand on; parameters stay.
func (p *planner) freeAll() {
	p.drop(len(p.plans))
	p.freeInputs()
	p.freeArena()
}

func (p *planner) freeArena() {
	if p.arena != nil {
		p.arena.Free()
		p.arena = nil
	}
}

func (p *planner) close() {
	if p.e == nil {
		return
	}
	p.freeAll()
	if p.state != nil {
		p.state.Free()
	}
}
