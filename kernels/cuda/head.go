package cuda

import "dev.gpustall/kernels"

// Pooling, and the network's head: linear, softmax and loss.

func (p *planner) pool(op kernels.MaxPool, entry string, n int, bufs ...Arg) {
	name, vector := vectored(op.Type, op.C)
	args := scalars(bufs, op.N, op.H, op.W, op.C, op.Size, op.Stride, op.Pad, op.OutH(), op.OutW())
	p.launch("pool", entry+name, p.stride(n/vector), elementThreads, args...)
}

func (p *planner) maxPool(op kernels.MaxPool) {
	p.pool(op, "maxpool_", op.OutLen(), buffer(0), buffer(1), buffer(2))
}

func (p *planner) maxPoolBackward(op kernels.MaxPoolBackward) {
	p.pool(op.MaxPool, "maxpool_backward_", op.InLen(), buffer(0), buffer(1), buffer(2))
}

func (p *planner) avgPool(op kernels.AvgPool) {
	name, vector := vectored(op.Type, op.C)
	grid, threads := p.spread(op.N * op.C / vector)
	p.launch("pool", "avgpool_"+name, grid, threads,
		scalars([]Arg{buffer(0), buffer(1)}, op.N, op.H*op.W, op.C)...)
}

func (p *planner) avgPoolBackward(op kernels.AvgPoolBackward) {
	name, vector := vectored(op.Type, op.C)
	p.launch("pool", "avgpool_backward_"+name, p.stride(op.N*op.H*op.W*op.C/vector), elementThreads,
		scalars([]Arg{buffer(0), buffer(1)}, op.N, op.H*op.W, op.C)...)
}

// The shapes of linear.cu and xent.cu.
const (
	linearOuts  = 4  // outputs of a warp
	linearWarps = 8  // of a block
	linearIns   = 32 // inputs of a block, in the weight gradient
	xentWarps   = 8  // samples of a block
)

func (p *planner) linear(op kernels.Linear) {
	name, _ := vectored(op.Type, op.In)
	warps := op.N * ceil(op.Out, linearOuts)
	p.launch("linear", "linear_"+name, [3]int{ceil(warps, linearWarps), 1, 1}, 32*linearWarps,
		scalars([]Arg{buffer(0), buffer(1), buffer(2), buffer(3)}, op.N, op.In, op.Out)...)
}

func (p *planner) linearBackward(op kernels.LinearBackward) {
	name, vector := vectored(op.Type, op.In)
	grid, threads := p.spread(op.N * op.In / vector)
	p.launch("linear", "linear_backward_data_"+name, grid, threads,
		scalars([]Arg{buffer(0), buffer(2), buffer(3)}, op.N, op.In, op.Out)...)
	p.launch("linear", "linear_backward_weight_"+stored(op.Type), [3]int{ceil(op.In, linearIns), op.Out, 1}, elementThreads,
		scalars([]Arg{buffer(0), buffer(1), buffer(4), buffer(5)}, op.N, op.In, op.Out)...)
}

func (p *planner) softmaxXent(op kernels.SoftmaxXent) {
	blocks := ceil(op.N, xentWarps)
	p.launch("xent", "softmax_xent", [3]int{blocks, 1, 1}, 32*xentWarps,
		scalars([]Arg{buffer(0), buffer(1), buffer(2), buffer(3), buffer(4), scratchAt(p.scratch(8 * blocks)), counterAt(0)}, op.N, op.C)...)
}
