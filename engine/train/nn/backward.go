package nn

import (
	"slices"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// backward emits the gradients of all parameters, from the logits' gradient.
func (e *emitter) backward() {
	e.phase = device.PhaseBackward
	for i := len(e.m.nodes) - 1; i >= 0; i-- {
		n := e.m.nodes[i]
		d := e.grads[i+1]
		switch n.typ {
		case linearNode:
			dx := e.activation(n.in)
			e.emit(n.name, kernels.LinearBackward{Linear: e.linear(n)},
				d, e.aux[i][0], e.weight(n.weight), dx, e.grad(n.weight), e.grad(n.bias))
			if e.c.Dropout > 0 {
				e.emit("dropout", e.dropout(n), dx, e.noise(), dx)
			}
			e.contribute(n.name, n.in, dx)
		case avgPoolNode:
			dx := e.activation(n.in)
			e.emit(n.name, kernels.AvgPoolBackward{AvgPool: e.average(n)}, d, dx)
			e.contribute(n.name, n.in, dx)
		case maxPoolNode:
			if e.poolMasks(n.in) {
				e.relu(n.name, i+1)
			}
			dx := e.activation(n.in)
			e.emit(n.name, kernels.MaxPoolBackward{MaxPool: e.pool(n)}, d, e.aux[i][0], dx)
			e.contribute(n.name, n.in, dx)
		case normNode:
			if e.c.Checkpoint && n.res >= 0 {
				e.recompute(i)
			}
			e.normBackward(i, n)
		case sumNode:
			if e.c.Checkpoint {
				e.recompute(i)
			}
			e.relu(n.name, i+1)
			e.contribute(n.name, n.in, d)
			e.contribute(n.name, n.res, d)
		case convNode:
			if n.relu && !e.poolMasks(i+1) {
				e.relu(n.name, i+1)
			}
			e.convBackward(i, n)
		}
	}
}

// poolMasks reports whether the gradient of value v's ReLU is masked at the output of the
// max-pool that alone reads v. The gradient reaches only the window's maximum, which is the
// pooled value. So masking the pooled gradient gives the same result with a fraction of the
// work.
func (e *emitter) poolMasks(v int) bool {
	if v == 0 || e.users[v] != 1 {
		return false
	}
	if n := e.m.nodes[v-1]; !n.relu || n.res >= 0 {
		return false
	}
	for _, n := range e.m.nodes {
		if n.in == v {
			return n.typ == maxPoolNode
		}
	}
	return false
}

// recompute emits again the forward pass of the residual block that ends in node last,
// up to its convolution's output, because the block's own values were not kept. The
// batch statistics come out the same. The running statistics must not be updated twice, so
// the update goes to the layer's gradients, which the backward pass overwrites.
func (e *emitter) recompute(last int) {
	e.phase = device.PhaseRecompute
	defer func() { e.phase = device.PhaseBackward }()
	for i := e.m.nodes[last].begin; i < last; i++ {
		switch n := e.m.nodes[i]; {
		case n.typ == convNode && e.readBack(i+1):
			e.convForward(i, n)
		case n.typ == normNode && n.relu: // without ReLU, the backward pass needs only the input
			e.normForward(i, n, e.grad(n.weight), e.grad(n.bias))
		}
	}
}

// readBack reports whether the backward pass reads value v or a value that is computed
// from it. The backward pass of a sum does not read what the sum adds.
func (e *emitter) readBack(v int) bool {
	for _, n := range e.m.nodes {
		if (n.in == v || n.res == v) && n.typ != sumNode {
			return true
		}
	}
	return e.m.nodes[v-1].relu
}

// relu masks the gradient of value v in place.
func (e *emitter) relu(layer string, v int) {
	op := kernels.ReLUBackward{N: e.rows(v) * e.cols(v), Type: e.c.Type}
	e.emit(layer, op, e.grads[v], e.values[v], e.grads[v])
}

func (e *emitter) convBackward(i int, n node) {
	d := e.grads[i+1]
	g := e.geometry(n)
	refs := []ref{e.stacked(n), d, e.grad(n.weight)} // stacked again, not kept: it is several times as large as the input
	if n.bias >= 0 {
		refs = append(refs, e.grad(n.bias))
	}
	e.emit(n.name, kernels.ConvBackwardWeight{Conv: g, Type: e.c.Type, Bias: n.bias >= 0}, refs...)
	if n.in == 0 {
		return
	}
	if n.frames > 1 {
		op := kernels.StackFramesBackward{StackFrames: e.stack(n)}
		dstack, dx := e.tensor(op.OutLen(), e.c.Type), e.activation(n.in)
		e.emit(n.name, kernels.ConvBackwardData{Conv: g, Type: e.c.Type}, d, e.weight(n.weight), dstack)
		e.emit(n.name, op, dstack, dx)
		e.contribute(n.name, n.in, dx)
		return
	}
	dx := e.grads[n.in]
	accumulate := !dx.none()
	if !accumulate {
		dx = e.activation(n.in)
		e.grads[n.in] = dx
	}
	e.emit(n.name, kernels.ConvBackwardData{Conv: g, Type: e.c.Type, Accumulate: accumulate}, d, e.weight(n.weight), dx)
}

func (e *emitter) normBackward(i int, n node) {
	d := e.grads[i+1]
	relu := n.relu && !e.poolMasks(i+1)
	op := kernels.BatchNormBackward{Rows: e.rows(i + 1), C: n.out.C, Type: e.c.Type, ReLU: relu, Residual: n.res >= 0}
	y := e.values[i+1]
	if !relu {
		y = e.values[n.in] // not read; the output's memory may be in use again
	}
	// dx overwrites dy, which nothing else reads.
	refs := []ref{d, e.values[n.in], y, e.master(n.weight), e.aux[i][0], e.aux[i][1],
		d, e.grad(n.weight), e.grad(n.bias)}
	var dres ref
	if n.res >= 0 {
		dres = e.activation(n.res)
		refs = append(refs, dres)
	}
	e.emit(n.name, op, refs...)
	e.contribute(n.name, n.in, d)
	if n.res >= 0 {
		e.contribute(n.name, n.res, dres)
	}
}

// contribute adds d to value v's gradient.
func (e *emitter) contribute(layer string, v int, d ref) {
	if e.grads[v].none() {
		e.grads[v] = d
		return
	}
	op := kernels.Add{N: e.rows(v) * e.cols(v), Type: e.c.Type}
	e.emit(layer, op, e.grads[v], d, e.grads[v])
}

// optimize emits the update of the parameters from their gradients.
func (e *emitter) optimize() {
	e.phase = device.PhaseOptimizer
	var w, g, cp ref
	slots := make([]ref, len(e.c.Rule.Slots()))
	n := e.m.elems()
	if s := e.st; s != nil {
		w, g, cp = fixed(s.weights), fixed(s.grads), fixed(s.copy)
		for i := range slots {
			slots[i] = fixed(s.slots.bufs[i])
		}
	}
	if e.c.Accumulate > 1 {
		e.sum()
		if e.st != nil {
			g = fixed(e.st.sum)
		}
	}
	const layer = "optimizer"
	if e.c.Type == kernels.F16 {
		e.emit(layer, kernels.ScaleCheck{N: n}, g, e.hyper())
	}
	op := kernels.Optimizer{Rule: e.c.Rule, N: n}
	if e.c.WeightsOnly {
		op.Exempt = e.m.exempt()
	}
	refs := slices.Concat([]ref{w, g}, slots, []ref{e.hyper()})
	if e.c.Type.Size() == 2 {
		op.Copy = e.c.Type
		refs = append(refs, cp)
	}
	e.emit(layer, op, refs...)
	if e.c.Accumulate > 1 {
		e.emit(layer, kernels.Zero{N: 4 * n}, g)
	}
}

// sum emits the addition of the batch's gradients to the accumulated ones.
func (e *emitter) sum() {
	e.phase = device.PhaseOptimizer
	var sum, grads ref
	if s := e.st; s != nil {
		sum, grads = fixed(s.sum), fixed(s.grads)
	}
	e.emit("optimizer", kernels.Add{N: e.m.elems(), Type: kernels.F32}, sum, grads, sum)
}
