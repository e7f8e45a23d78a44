package nn

import (
	"fmt"
	"math"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// Saved is a state on the host, by names.
type Saved struct {
	Weights []Tensor // parameters, then running statistics, by PyTorch's names
	// Optimizer has what the optimizer keeps of each parameter, as in
	// "momentum_buffer.conv1.weight". In "sum.conv1.weight" are the gradients that wait for
	// the next update. It also has the loss scale of fp16, if one was used, and "step", the
	// number of updates, if the optimizer counts them.
	Optimizer  []Tensor
	Accumulate int // batches a step
	Drawn      int // batches that dropout was drawn for
}

// kept lists what the optimizer keeps beside each parameter, by PyTorch's names.
func (s *State) kept() []named {
	var out []named
	for i, name := range s.layout.Rule.Slots() {
		out = append(out, named{name, s.slots.bufs[i]})
	}
	return out
}

// named is a flat buffer by the name of what it has of each parameter.
type named struct {
	name string
	flat device.Buffer
}

// sumName is the name of the gradients that wait for the next update.
const sumName = "sum"

// scaleNames are the names of the tensors that make up fp16's loss scale, and where their
// values are in the hyper-parameters.
var scaleNames = []struct {
	name string
	at   int
}{
	{"loss_scale", kernels.HyperLossScale}, {"loss_scale.growth", kernels.HyperGrowth},
	{"loss_scale.of_gradients", kernels.HyperGradScale}, {"loss_scale.skip", kernels.HyperSkip},
}

// countNames are the names of the tensors for the number of updates and what follows from
// it, in the order in which their values lie from HyperStep on.
var countNames = [...]string{"step", "step.filled1", "step.filled2"}

// Save copies the state to the host. With sum it includes the gradients accumulated since
// the last update. The device must not be running a plan of the state.
func (s *State) Save(sum bool) (*Saved, error) {
	out := &Saved{Accumulate: s.layout.Accumulate}
	flat := make([]float32, s.places.elems)
	gather := func(to []Tensor, prefix string, from device.Buffer) ([]Tensor, error) {
		if err := s.copier.out(flat, from); err != nil {
			return nil, err
		}
		for i, p := range s.m.params {
			t := Tensor{prefix + p.Name, p.Shape, make([]float32, p.Len())}
			s.places.gather(t.Data, flat, i)
			to = append(to, t)
		}
		return to, nil
	}
	var err error
	if out.Weights, err = gather(nil, "", s.weights); err != nil {
		return nil, err
	}
	stats := make([]float32, s.stats.Size/4)
	if err := s.copier.out(stats, s.stats); err != nil {
		return nil, err
	}
	for i, p := range s.m.stats {
		out.Weights = append(out.Weights, Tensor{p.Name, p.Shape, stats[s.places.stat[i]:][:p.Len():p.Len()]})
	}
	from := s.kept()
	if sum && s.sum.Size > 0 {
		from = append(from, named{sumName, s.sum})
	}
	for _, f := range from {
		if out.Optimizer, err = gather(out.Optimizer, f.name+".", f.flat); err != nil {
			return nil, err
		}
	}
	if s.layout.Rule.Counts() {
		if err := s.hyper.keep(s.layout.Type); err != nil {
			return nil, err
		}
		for i, name := range countNames {
			out.Optimizer = append(out.Optimizer, Tensor{name, []int{1}, []float32{s.hyper.count[i]}})
		}
	}
	noise := make([]float32, kernels.NoiseLen) // its bits
	if err := s.copier.out(noise, s.noise); err != nil {
		return nil, err
	}
	out.Drawn = int(math.Float32bits(noise[kernels.NoiseStep]))
	scale, err := s.scale()
	if err != nil || scale == nil {
		return out, err
	}
	for _, n := range scaleNames {
		out.Optimizer = append(out.Optimizer, Tensor{n.name, []int{1}, []float32{scale[n.at]}})
	}
	return out, nil
}

// scale returns the hyper-parameters with fp16's loss scale, or nil where fp16 was never
// used.
func (s *State) scale() ([]float32, error) {
	if s.layout.Type != kernels.F16 {
		return s.hyper.scales[kernels.F16], nil
	}
	h := make([]float32, kernels.HyperLen)
	return h, s.copier.out(h, s.hyper.buf)
}

// Load takes over the weights in ts, by name. Others stay as they are. A name that no
// parameter and no statistic has is an error. The device must not be running a plan of
// the state.
func (s *State) Load(ts []Tensor) error {
	flat := make([]float32, s.places.elems)
	if err := s.copier.out(flat, s.weights); err != nil {
		return err
	}
	stats := make([]float32, s.stats.Size/4)
	if err := s.copier.out(stats, s.stats); err != nil {
		return err
	}
	params, running := indexOf(s.m.params), indexOf(s.m.stats)
	for _, t := range ts {
		if i, ok := params[t.Name]; ok {
			if p := s.m.params[i]; len(t.Data) != p.Len() {
				return wrongLength(t, p)
			}
			s.places.scatter(flat, i, t.Data)
			continue
		}
		i, ok := running[t.Name]
		if !ok {
			return fmt.Errorf("nn: model %q has no %q", s.m.Name, t.Name)
		}
		p := s.m.stats[i]
		if len(t.Data) != p.Len() {
			return wrongLength(t, p)
		}
		copy(stats[s.places.stat[i]:], t.Data)
	}
	if err := s.copier.in(s.weights, flat); err != nil {
		return err
	}
	if err := s.copier.in(s.stats, stats); err != nil {
		return err
	}
	return s.refreshCopy()
}

func wrongLength(t Tensor, p Param) error {
	return fmt.Errorf("nn: tensor %q has %d elements, the model's %d", t.Name, len(t.Data), p.Len())
}

func indexOf(params []Param) map[string]int {
	at := make(map[string]int, len(params))
	for i, p := range params {
		at[p.Name] = i
	}
	return at
}

// Restore takes over a state of the same model, except for the seed of dropout. Its
// accumulated gradients are taken over only by a state that accumulates as many batches.
func (s *State) Restore(from *Saved) error {
	if err := s.Load(from.Weights); err != nil {
		return err
	}
	saved := make(map[string]Tensor, len(from.Optimizer))
	for _, t := range from.Optimizer {
		saved[t.Name] = t
	}
	to := s.kept()
	if s.sum.Size > 0 && from.Accumulate == s.layout.Accumulate {
		to = append(to, named{sumName, s.sum})
	}
	for _, f := range to {
		if err := s.restore(f, saved); err != nil {
			return err
		}
	}
	if err := s.restoreCount(saved); err != nil {
		return err
	}
	if err := s.copier.in(s.noise.Slice(4*kernels.NoiseStep, 4), []float32{math.Float32frombits(uint32(from.Drawn))}); err != nil {
		return err
	}
	return s.restoreScale(saved)
}

// restoreCount takes over the number of updates.
func (s *State) restoreCount(saved map[string]Tensor) error {
	if !s.layout.Rule.Counts() {
		return nil
	}
	if err := s.hyper.keep(s.layout.Type); err != nil {
		return err
	}
	for i, name := range countNames {
		if t := saved[name]; len(t.Data) == 1 {
			s.hyper.count[i] = t.Data[0]
		}
	}
	return s.hyper.reset(s.layout)
}

// restore takes over what the optimizer keeps under one name.
func (s *State) restore(f named, saved map[string]Tensor) error {
	flat := make([]float32, s.places.elems)
	for i, p := range s.m.params {
		t, ok := saved[f.name+"."+p.Name]
		switch {
		case !ok && f.name == sumName:
			continue // none was under way
		case !ok:
			return errs.Reason(fmt.Sprintf("it has no tensor %s.%s: it is another optimizer's (%s)", f.name, p.Name, keptBy(saved)),
				"choose the optimizer that it was trained with, or take the weights alone with --init")
		case len(t.Data) != p.Len():
			return wrongLength(t, p)
		}
		s.places.scatter(flat, i, t.Data)
	}
	return s.copier.in(f.flat, flat)
}

// keptBy says in words what an optimizer kept.
func keptBy(saved map[string]Tensor) string {
	seen := map[string]bool{}
	var names []string
	for name := range saved {
		if slot, _, ok := strings.Cut(name, "."); ok && slot != sumName && slot != "loss_scale" && slot != countNames[0] && !seen[slot] {
			seen[slot] = true
			names = append(names, slot)
		}
	}
	if len(names) == 0 {
		return "one that keeps nothing"
	}
	return "it keeps " + strings.Join(names, ", ")
}

// restoreScale takes over fp16's loss scale, for now or for the time when fp16 is
// chosen.
func (s *State) restoreScale(saved map[string]Tensor) error {
	if _, ok := saved[scaleNames[0].name]; !ok {
		return nil
	}
	h := make([]float32, kernels.HyperLen)
	for _, n := range scaleNames {
		if t := saved[n.name]; len(t.Data) == 1 {
			h[n.at] = t.Data[0]
		}
	}
	s.hyper.setScale(kernels.F16, h)
	if s.layout.Type != kernels.F16 {
		return nil
	}
	return s.hyper.reset(s.layout)
}

// Head names the parameters whose shape follows from the number of classes.
func (m *Model) Head() []string {
	for i := len(m.nodes) - 1; i >= 0; i-- {
		if n := m.nodes[i]; n.typ == linearNode {
			return []string{m.params[n.weight].Name, m.params[n.bias].Name}
		}
	}
	return nil
}

// SavedBytes returns the memory on the host that a state takes while it is saved.
func (m *Model) SavedBytes(l Layout) int64 {
	n := (2 + len(l.Rule.Slots())) * m.elems() // weights, slots, and what is copied from the device at the same time
	if l.Accumulate > 1 {
		n += m.elems()
	}
	for _, p := range m.stats {
		n += p.Len()
	}
	return 4 * int64(n)
}
