package nn

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// MetricsSize is the bytes of Plan.Metrics.
const MetricsSize = 8

// Launches returns the launches of a plan's Train and Accumulate, or of an evaluation's
// Eval, without buffers.
func (m *Model) Launches(c PlanConfig) ([]device.Launch, error) {
	c, err := m.check(c)
	if err != nil {
		return nil, err
	}
	lists := m.lists(nil, c, device.Buffer{})
	if c.Test {
		return lists.eval.launches(nil), nil
	}
	return lists.accumulate.launches(lists.train.launches(nil)), nil
}

func (l *list) launches(to []device.Launch) []device.Launch {
	if l == nil {
		return to
	}
	for _, c := range l.calls {
		to = append(to, device.Launch{Op: c.op, Layer: c.layer, Phase: c.phase})
	}
	return to
}

// elems returns the length of each of the state's flat buffers, in elements.
func (m *Model) elems() int {
	n := 0
	for _, p := range m.params {
		n += p.room()
	}
	return n
}

// exempt returns how many elements at the end of a flat buffer are of biases and norms.
func (m *Model) exempt() int {
	n := 0
	for _, p := range m.params {
		if p.vector() {
			n += p.room()
		}
	}
	return n
}

// offsets returns where the parameters lie in a flat buffer, in elements.
func (m *Model) offsets() []int {
	out := make([]int, len(m.params))
	at := 0
	for _, vectors := range []bool{false, true} {
		for i, p := range m.params {
			if p.vector() == vectors {
				out[i] = at
				at += p.room()
			}
		}
	}
	return out
}

// StateSizes lists the bytes of each allocation of a State in a layout, in their order.
func (m *Model) StateSizes(l Layout) []int {
	elems, stats := m.elems(), 0
	for _, p := range m.stats {
		stats += p.room()
	}
	sizes := []int{4 * elems, 4 * elems, 4 * max(stats, 1), 4 * kernels.HyperLen, 4 * kernels.NoiseLen}
	for range l.Rule.Slots() {
		sizes = append(sizes, 4*elems)
	}
	if l.Type.Size() == 2 {
		sizes = append(sizes, 2*elems)
	}
	if l.Accumulate > 1 {
		sizes = append(sizes, 4*elems)
	}
	return sizes
}

// Missing lists the bytes of each allocation that Configure will make, in their order.
func (s *State) Missing(l Layout) []int {
	var sizes []int
	for i := range l.Rule.Slots() {
		if s.slots.bufs[i].Size == 0 {
			sizes = append(sizes, 4*s.places.elems)
		}
	}
	if l.Type.Size() == 2 && s.copy.Size == 0 {
		sizes = append(sizes, 2*s.places.elems)
	}
	if l.Accumulate > 1 && s.sum.Size == 0 {
		sizes = append(sizes, 4*s.places.elems)
	}
	return sizes
}
