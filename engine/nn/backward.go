package nn

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// backward emits the gradients of all parameters, from the logits' gradient.
func (p *planner) backward() {
	p.phase = device.PhaseBackward
	for i := len(p.m.nodes) - 1; i >= 0; i-- {
		n := p.m.nodes[i]
		d := p.grads[i+1]
		switch n.kind {
		case linearNode:
			dx := p.activation(n.in)
			p.emit(n.name, kernels.LinearBackward{Linear: p.linear(n)},
				d, p.values[n.in], p.weight(n.weight), dx, p.grad(n.weight), p.grad(n.bias))
			p.contribute(n.name, n.in, dx)
		case avgPoolNode:
			dx := p.activation(n.in)
			p.emit(n.name, kernels.AvgPoolBackward{AvgPool: p.average(n)}, d, dx)
			p.contribute(n.name, n.in, dx)
		case maxPoolNode:
			if p.poolMasks(n.in) {
				p.relu(n.name, i+1)
			}
			dx := p.activation(n.in)
			p.emit(n.name, kernels.MaxPoolBackward{MaxPool: p.pool(n)}, d, p.aux[i][0], dx)
			p.contribute(n.name, n.in, dx)
		case normNode:
			if p.c.Checkpoint && n.res >= 0 {
				p.recompute(i)
			}
			p.normBackward(i, n)
		case convNode:
			if n.relu && !p.poolMasks(i+1) {
				p.relu(n.name, i+1)
			}
			p.convBackward(i, n)
		}
	}
}

// poolMasks reports whether value v's ReLU is undone after the max-pool that
// alone reads it: the gradient reaches only the window's maximum, and that is
// the pooled value, so that masking the pooled gradient is the same and a
// fraction of the work.
func (p *planner) poolMasks(v int) bool {
	if v == 0 || p.users[v] != 1 {
		return false
	}
	if n := p.m.nodes[v-1]; !n.relu || n.res >= 0 {
		return false
	}
	for _, n := range p.m.nodes {
		if n.in == v {
			return n.kind == maxPoolNode
		}
	}
	return false
}

// recompute emits the forward pass of the residual block that ends in node last
// again, up to its convolution's output: the block's own values were not kept.
// The same batch statistics come out; the running ones are not to be updated
// twice, so the layer's gradients, which the backward pass is about to write, take
// that place.
func (p *planner) recompute(last int) {
	p.phase = device.PhaseRecompute
	defer func() { p.phase = device.PhaseBackward }()
	for i := p.m.nodes[last].begin; i < last; i++ {
		switch n := p.m.nodes[i]; {
		case n.kind == convNode:
			p.convForward(i, n)
		case n.relu: // without one, the backward pass needs the input alone
			p.normForward(i, n, p.grad(n.weight), p.grad(n.bias))
		}
	}
}

// relu masks the gradient of value v in place.
func (p *planner) relu(layer string, v int) {
	op := kernels.ReLUBackward{N: p.rows(v) * p.cols(v), Type: p.c.Type}
	p.emit(layer, op, p.grads[v], p.values[v], p.grads[v])
}

func (p *planner) convBackward(i int, n node) {
	d := p.grads[i+1]
	g := p.geometry(n)
	refs := []ref{p.values[n.in], d, p.grad(n.weight)}
	if n.bias >= 0 {
		refs = append(refs, p.grad(n.bias))
	}
	p.emit(n.name, kernels.ConvBackwardWeight{Conv: g, Type: p.c.Type, Bias: n.bias >= 0}, refs...)
	if n.in == 0 {
		return
	}
	dx := p.grads[n.in]
	accumulate := !dx.none()
	if !accumulate {
		dx = p.activation(n.in)
		p.grads[n.in] = dx
	}
	p.emit(n.name, kernels.ConvBackwardData{Conv: g, Type: p.c.Type, Accumulate: accumulate}, d, p.weight(n.weight), dx)
}

func (p *planner) normBackward(i int, n node) {
	d := p.grads[i+1]
	relu := n.relu && !p.poolMasks(i+1)
	op := kernels.BatchNormBackward{Rows: p.rows(i + 1), C: n.out.C, Type: p.c.Type, ReLU: relu, Residual: n.res >= 0}
	y := p.values[i+1]
	if !relu {
		y = p.values[n.in] // not read; the output's memory is free already
	}
	// dx takes dy's place: nothing else reads it.
	refs := []ref{d, p.values[n.in], y, p.master(n.weight), p.aux[i][0], p.aux[i][1],
		d, p.grad(n.weight), p.grad(n.bias)}
	var dres ref
	if n.res >= 0 {
		dres = p.activation(n.res)
		refs = append(refs, dres)
	}
	p.emit(n.name, op, refs...)
	p.contribute(n.name, n.in, d)
	if n.res >= 0 {
		p.contribute(n.name, n.res, dres)
	}
}

// contribute makes d a part of value v's gradient.
func (p *planner) contribute(layer string, v int, d ref) {
	if p.grads[v].none() {
		p.grads[v] = d
		return
	}
	op := kernels.Add{N: p.rows(v) * p.cols(v), Type: p.c.Type}
	p.emit(layer, op, p.grads[v], d, p.grads[v])
}

// optimize emits the update of the parameters from their gradients.
func (p *planner) optimize() {
	p.phase = device.PhaseOptimizer
	var w, g, mom, cp ref
	n := p.m.elems()
	if s := p.st; s != nil {
		w, g, mom, cp = fixed(s.weights), fixed(s.grads), fixed(s.moment), fixed(s.copy)
	}
	if p.c.Accumulate > 1 {
		p.sum()
		if p.st != nil {
			g = fixed(p.st.sum)
		}
	}
	const layer = "optimizer"
	if p.c.Type == kernels.F16 {
		p.emit(layer, kernels.ScaleCheck{N: n}, g, p.hyper())
	}
	op := kernels.SGD{N: n}
	refs := []ref{w, g, mom, p.hyper()}
	if p.c.Type.Size() == 2 {
		op.Copy = p.c.Type
		refs = append(refs, cp)
	}
	p.emit(layer, op, refs...)
	if p.c.Accumulate > 1 {
		p.emit(layer, kernels.Zero{N: 4 * n}, g)
	}
}

// sum emits the addition of the batch's gradients to the accumulated ones.
func (p *planner) sum() {
	p.phase = device.PhaseOptimizer
	var sum, grads ref
	if s := p.st; s != nil {
		sum, grads = fixed(s.sum), fixed(s.grads)
	}
	p.emit("optimizer", kernels.Add{N: p.m.elems(), Type: kernels.F32}, sum, grads, sum)
}
