package nn

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// Batch norm's constants, PyTorch's defaults.
const (
	normEps      = 1e-5
	normMomentum = 0.1
)

// cols is the channels of value v as stored.
func (p *planner) cols(v int) int {
	c := p.m.shape(v).C
	if v == 0 {
		return channels(c, p.c.Type)
	}
	return c
}

// rows is the positions of value v in the batch.
func (p *planner) rows(v int) int {
	s := p.m.shape(v)
	return p.c.Batch * s.H * s.W
}

func (p *planner) activation(v int) ref { return p.tensor(p.rows(v)*p.cols(v), p.c.Type) }

// forward emits the network, from the input buffer to the logits.
func (p *planner) forward() {
	p.phase = device.PhaseInput
	p.values[0] = p.samples()
	p.phase = device.PhaseForward
	for i, n := range p.m.nodes {
		v := i + 1
		switch n.kind {
		case convNode:
			p.convForward(i, n)
		case normNode:
			// Evaluation saves nothing; any vectors will do.
			p.aux[i] = [2]ref{p.stat(n.mean), p.stat(n.variance)}
			if p.train {
				p.aux[i] = [2]ref{p.tensor(n.out.C, kernels.F32), p.tensor(n.out.C, kernels.F32)}
			}
			p.normForward(i, n, p.stat(n.mean), p.stat(n.variance))
		case maxPoolNode:
			p.values[v] = p.activation(v)
			p.aux[i][0] = p.tensor(p.rows(v)*n.out.C, kernels.U8)
			p.emit(n.name, p.pool(n), p.values[n.in], p.values[v], p.aux[i][0])
		case avgPoolNode:
			p.values[v] = p.activation(v)
			p.emit(n.name, p.average(n), p.values[n.in], p.values[v])
		case linearNode:
			p.values[v] = p.tensor(p.c.Batch*n.out.C, kernels.F32)
			p.emit(n.name, p.linear(n), p.values[n.in], p.weight(n.weight), p.values[v], p.master(n.bias))
		}
	}
}

func (p *planner) convForward(i int, n node) {
	y := p.activation(i + 1)
	p.values[i+1] = y
	op := kernels.ConvForward{Conv: p.geometry(n), Type: p.c.Type, Bias: n.bias >= 0, ReLU: n.relu}
	refs := []ref{p.values[n.in], p.weight(n.weight), y}
	if n.bias >= 0 {
		refs = append(refs, p.master(n.bias))
	}
	p.emit(n.name, op, refs...)
}

// samples is the network's input: the buffer itself, where it is finished.
func (p *planner) samples() ref {
	s, n := p.m.In, p.c.Batch
	padded := channels(s.C, p.c.Type)
	switch {
	case p.c.DeviceTransforms:
		x := p.activation(0)
		op := kernels.Augment{N: n, H: s.H, W: s.W, C: s.C, CPad: padded, Mean: p.c.Mean, Std: p.c.Std, Type: p.c.Type}
		p.emit("input", op, p.input(0, n*s.elems()), p.input(p.c.AugOff, 4*kernels.AugLen*n), x)
		return x
	case p.c.Type.Size() == 2:
		x := p.activation(0)
		op := kernels.PadChannels{Rows: n * s.H * s.W, C: s.C, CPad: padded, Type: p.c.Type}
		p.emit("input", op, p.input(0, 4*n*s.elems()), x)
		return x
	}
	return p.input(0, 4*n*s.elems())
}

// normForward emits a batch norm that reads or updates the given running
// statistics.
func (p *planner) normForward(i int, n node, mean, variance ref) {
	y := p.activation(i + 1)
	p.values[i+1] = y
	op := kernels.BatchNormForward{Rows: p.rows(i + 1), C: n.out.C, Type: p.c.Type, Eps: normEps, Momentum: normMomentum,
		Train: p.train, ReLU: n.relu, Residual: n.res >= 0}
	refs := []ref{p.values[n.in], y, p.master(n.weight), p.master(n.bias), mean, variance, p.aux[i][0], p.aux[i][1]}
	if n.res >= 0 {
		refs = append(refs, p.values[n.res])
	}
	p.emit(n.name, op, refs...)
}

// loss emits the loss and returns the logits' gradient.
func (p *planner) loss() ref {
	last := len(p.m.nodes)
	n, c := p.c.Batch, p.m.Classes
	d := p.tensor(n*c, kernels.F32)
	p.phase = device.PhaseLoss
	p.emit("loss", kernels.SoftmaxXent{N: n, C: c},
		p.values[last], p.input(p.c.LabelsOff, 4*n), fixed(p.metrics), d, p.hyper())
	return d
}

func (p *planner) geometry(n node) kernels.Conv {
	in := p.m.shape(n.in)
	return kernels.Conv{N: p.c.Batch, H: in.H, W: in.W, C: p.cols(n.in), K: n.out.C,
		R: n.size, S: n.size, Stride: n.stride, Pad: n.pad}
}

func (p *planner) pool(n node) kernels.MaxPool {
	in := p.m.shape(n.in)
	return kernels.MaxPool{N: p.c.Batch, H: in.H, W: in.W, C: in.C, Size: n.size, Stride: n.stride, Pad: n.pad, Type: p.c.Type}
}

func (p *planner) average(n node) kernels.AvgPool {
	in := p.m.shape(n.in)
	return kernels.AvgPool{N: p.c.Batch, H: in.H, W: in.W, C: in.C, Type: p.c.Type}
}

func (p *planner) linear(n node) kernels.Linear {
	return kernels.Linear{N: p.c.Batch, In: p.m.shape(n.in).C, Out: n.out.C, Type: p.c.Type}
}
