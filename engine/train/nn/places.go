package nn

import "dev.gpustall/engine/device"

// places says where a model's parameters and running statistics lie in the flat buffers
// of a state. Parameters that weight decay may leave alone (biases and norms) come last,
// so that the optimizer is one launch.
type places struct {
	m     *Model
	elems int   // of a flat buffer of parameters
	param []int // offset of each parameter, in elements
	stat  []int // offset of each running statistic, in elements
	cpad  int   // channels of the stem's weights, as stored
}

func newPlaces(m *Model) places {
	p := places{m: m, elems: m.elems(), param: m.offsets(), cpad: m.In.C}
	n := 0
	for _, s := range m.stats {
		p.stat = append(p.stat, n)
		n += s.room()
	}
	return p
}

// stored returns the number of elements of parameter i on the device.
func (p *places) stored(i int) int {
	of := p.m.params[i]
	if of.stem {
		return of.Len() / of.Shape[1] * p.cpad
	}
	return of.Len()
}

// of returns the part of a flat float32 buffer that has parameter i.
func (p *places) of(flat device.Buffer, i int) device.Buffer {
	return flat.Slice(4*p.param[i], 4*p.stored(i))
}

// half is of for a flat buffer of a 16-bit type.
func (p *places) half(flat device.Buffer, i int) device.Buffer {
	return flat.Slice(2*p.param[i], 2*p.stored(i))
}

// room returns all the space of parameter i in a flat float32 buffer.
func (p *places) room(flat device.Buffer, i int) device.Buffer {
	return flat.Slice(4*p.param[i], 4*p.m.params[i].room())
}

// ofStat returns the part of the buffer of statistics that has statistic i.
func (p *places) ofStat(stats device.Buffer, i int) device.Buffer {
	return stats.Slice(4*p.stat[i], 4*p.m.stats[i].Len())
}

// scatter writes parameter i, in PyTorch's layout, into the copy of a flat buffer.
func (p *places) scatter(flat []float32, i int, v []float32) {
	p.m.params[i].scatter(flat[p.param[i]:], v, p.cpad)
}

// gather is the inverse of scatter.
func (p *places) gather(v, flat []float32, i int) {
	p.m.params[i].gather(v, flat[p.param[i]:], p.cpad)
}
