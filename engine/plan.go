package engine

import (
	"fmt"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/nn"
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
	typ     kernels.Type
}

// plan is one step's launches, prepared once for each input slot.
type plan struct {
	key      planKey
	inputs   [inputSlots]device.Buffer
	programs [inputSlots]device.Program
	metrics  device.Buffer
	used     int // for eviction
}

func (p *plan) input(step int) device.Buffer { return p.inputs[step%inputSlots] }

func (p *plan) program(step int) device.Program { return p.programs[step%inputSlots] }

// readMetrics brings the step's loss and hits to the host.
func (p *plan) readMetrics(dev device.Device, s device.Stream, dst []byte) error {
	if p.metrics.Size == 0 {
		return nil
	}
	return dev.CopyOut(s, dst, p.metrics)
}

// planner builds plans when a batch of a new shape arrives and keeps a few.
type planner struct {
	e      *Engine
	state  *nn.State
	arena  *nn.Arena
	inputs [inputSlots]device.Buffer
	plans  []*plan
	typ    kernels.Type
	clock  int
}

func newPlanner(e *Engine) (planner, error) {
	p := planner{e: e, typ: e.applied.Precision}
	if e.cfg.Model == nil {
		return p, nil
	}
	var err error
	if p.state, err = nn.NewState(e.dev, e.cfg.Model, e.cfg.Seed); err != nil {
		return p, fmt.Errorf("place the model's parameters on %s: %w", e.info.Name, err)
	}
	p.arena = nn.NewArena(e.dev)
	return p, p.state.SetHyper(e.computeStream, e.cfg.Hyper)
}

// warm builds the plans that the first epoch needs before the run's clock starts.
func (p *planner) warm() error {
	k := p.e.applied.Loader
	info := p.e.cfg.Dataset.Info()
	sizes := []int{min(k.BatchSize, info.Samples)}
	if rest := info.Samples % k.BatchSize; rest != 0 && !k.DropLast && rest != sizes[0] {
		sizes = append(sizes, rest)
	}
	for _, n := range sizes {
		l := loader.NewLayout(info, n, k.DeviceTransforms)
		if _, err := p.build(planKey{n, l.Size, k.DeviceTransforms, p.typ}, l.Labels, l.Aug); err != nil {
			return err
		}
	}
	return nil
}

// get returns the plan for a batch; building one drains the device first.
func (p *planner) get(b *loader.Batch) (*plan, error) {
	key := planKey{b.N, len(b.Host), b.Device, p.typ}
	p.clock++
	for _, q := range p.plans {
		if q.key == key {
			q.used = p.clock
			return q, nil
		}
	}
	start := p.e.rec.Now()
	if err := p.e.finish(); err != nil {
		return nil, err
	}
	q, err := p.build(key, b.LabelsOff, b.AugOff)
	p.e.rebuilt(start, b.Seq)
	return q, err
}

func (p *planner) build(key planKey, labelsOff, augOff int) (*plan, error) {
	dev := p.e.dev
	if key.bytes > p.inputs[0].Size {
		p.drop(len(p.plans)) // they point into the old inputs
		for i := range p.inputs {
			if p.inputs[i].Size > 0 {
				dev.Free(p.inputs[i])
				p.inputs[i] = device.Buffer{}
			}
		}
		for i := range p.inputs {
			var err error
			if p.inputs[i], err = dev.Alloc(key.bytes); err != nil {
				return nil, fmt.Errorf("allocate %d bytes of input on %s; lower batch_size: %w", key.bytes, p.e.info.Name, err)
			}
		}
	}
	if len(p.plans) >= maxPlans {
		p.drop(1)
	}
	q := &plan{key: key, used: p.clock}
	for i := range q.inputs {
		q.inputs[i] = p.inputs[i].Slice(0, key.bytes)
		launches, metrics, err := p.launches(key, q.inputs[i], labelsOff, augOff)
		if err == nil {
			q.metrics = metrics
			q.programs[i], err = dev.Prepare(launches)
		}
		if err != nil {
			p.release(q)
			return nil, fmt.Errorf("plan a step of %d samples on %s: %w", key.samples, p.e.info.Name, err)
		}
	}
	p.plans = append(p.plans, q)
	return q, nil
}

func (p *planner) launches(key planKey, in device.Buffer, labelsOff, augOff int) ([]device.Launch, device.Buffer, error) {
	if p.e.cfg.Model == nil {
		return []device.Launch{{Op: p.e.cfg.Fixed(key.samples), Layer: "step"}}, device.Buffer{}, nil
	}
	mean, std := p.e.cfg.Transform.Normalisation()
	np, err := p.e.cfg.Model.Plan(p.e.dev, p.state, nn.PlanConfig{
		Batch: key.samples, Type: key.typ, DeviceTransforms: key.onDev, Mean: mean, Std: std,
		Input: in, LabelsOff: labelsOff, AugOff: augOff, Arena: p.arena,
	})
	if err != nil {
		return nil, device.Buffer{}, err
	}
	return np.Train, np.Metrics, nil
}

// apply makes later plans use the knobs; parameters stay where they are.
func (p *planner) apply(k Knobs) error {
	p.typ = k.Precision
	return nil
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
	for _, prog := range q.programs {
		if prog != 0 {
			p.e.dev.Release(prog)
		}
	}
}

func (p *planner) close() {
	p.drop(len(p.plans))
	for _, b := range p.inputs {
		if b.Size > 0 {
			p.e.dev.Free(b)
		}
	}
	if p.arena != nil {
		p.arena.Close()
	}
	if p.state != nil {
		p.state.Close()
	}
}
