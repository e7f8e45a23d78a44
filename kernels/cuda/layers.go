package cuda

import "dev.gpustall/kernels"

// The blocks of columns.h. Its kernels sum over rows, or pass over all elements.
const (
	sumThreads  = 512 // SUM_THREADS
	passThreads = 256 // PASS_THREADS
	stripBatch  = 4   // BATCH: rows of a thread at a time
)

// columnGrid is how the kernels of columns.h cover [rows][C].
type columnGrid struct {
	name  string // of the type, with its vector width
	sums  [3]int // grid of a sum over rows
	apply [3]int // grid of a pass over the elements
	parts int    // parts of each sum
}

func (p *planner) columns(rows, c int, t kernels.Type) columnGrid {
	name, vector := vectored(t, c)
	across := 8
	if vector == 1 {
		across = 32
	}
	groups := ceil(c, across*vector)
	if 4*groups > CounterBytes {
		p.fail("%d channels in rows are over the %d that its counters serve", c, CounterBytes/4*across*vector)
	}
	// All blocks run at once, so that they sweep the rows together. For a sum, one
	// block on each multiprocessor reads at full speed, and leaves few parts for the
	// block that adds them up. For a pass, two fit on a multiprocessor.
	blocks := func(each, threads int) int {
		strips := ceil(rows, threads/across*stripBatch)
		return max(1, min(each*p.t.Processors/groups, strips))
	}
	parts, slices := blocks(1, sumThreads), blocks(2, passThreads)
	return columnGrid{name, [3]int{groups, parts, 1}, [3]int{groups, slices, 1}, parts}
}

// vectored returns the suffix of the kernel's name for rows of n elements of t, and
// how many elements that kernel loads at once: 16 bytes, or one element if 16 bytes
// do not divide the row.
func vectored(t kernels.Type, n int) (name string, vector int) {
	if vector = 16 / t.Size(); n%vector == 0 {
		return stored(t), vector
	}
	return stored(t) + "_v1", 1
}

func (p *planner) batchNormForward(op kernels.BatchNormForward) {
	g := p.columns(op.Rows, op.C, op.Type)
	mean, spread := 4, 5 // running
	if op.Train {
		mean, spread = 6, 7 // saved
		p.launch("batchnorm", "batchnorm_stats_"+g.name, g.sums, sumThreads,
			buffer(0), buffer(4), buffer(5), buffer(6), buffer(7), scratchAt(p.scratch(8*g.parts*op.C)), counterAt(0),
			scalar(op.Rows), scalar(op.C), float(op.Eps), float(op.Momentum))
	}
	p.launch("batchnorm", "batchnorm_apply_"+g.name, g.apply, passThreads,
		buffer(0), buffer(1), buffer(2), buffer(3), buffer(mean), buffer(spread), optional(op.Residual, 8),
		scalar(op.Rows), scalar(op.C), float(op.Eps), boolean(!op.Train), boolean(op.ReLU))
}

func (p *planner) batchNormBackward(op kernels.BatchNormBackward) {
	g := p.columns(op.Rows, op.C, op.Type)
	y := optional(op.ReLU, 2)
	p.launch("batchnorm", "batchnorm_grad_sums_"+g.name, g.sums, sumThreads,
		buffer(0), buffer(1), y, buffer(4), buffer(5), buffer(7), buffer(8), scratchAt(p.scratch(8*g.parts*op.C)), counterAt(0),
		scalar(op.Rows), scalar(op.C))
	p.launch("batchnorm", "batchnorm_grad_"+g.name, g.apply, passThreads,
		buffer(0), buffer(1), y, buffer(3), buffer(4), buffer(5), buffer(6), buffer(7), buffer(8), optional(op.Residual, 9),
		scalar(op.Rows), scalar(op.C))
}

func (p *planner) pool(op kernels.MaxPool, entry string, n int, bufs ...Arg) {
	name, vector := vectored(op.Type, op.C)
	args := scalars(bufs, op.N, op.H, op.W, op.C, op.Size, op.Stride, op.Pad, op.OutH(), op.OutW(),
		max(op.T, 1), op.OutT(), max(op.SizeT, 1), max(op.StrideT, 1))
	p.launch("pool", entry+name, p.stride(n/vector), elementThreads, args...)
}

func (p *planner) maxPool(op kernels.MaxPool) {
	p.pool(op, "maxpool_", op.OutLen(), buffer(0), buffer(1), buffer(2))
}

func (p *planner) maxPoolBackward(op kernels.MaxPoolBackward) {
	p.pool(op.MaxPool, "maxpool_backward_", op.InLen(), buffer(0), buffer(1), buffer(2))
}

// stackFrames shares the elements that are written among the threads: those of y, or with back of dx.
func (p *planner) stackFrames(op kernels.StackFrames, entry string, n int) {
	name, vector := vectored(op.Type, op.C)
	p.launch("elementwise", entry+name, p.stride(n/vector), elementThreads,
		scalars([]Arg{buffer(0), buffer(1)}, op.N, op.T, op.OutT(), op.Pixels, op.C, op.Taps, op.Pad)...)
}

func (p *planner) stackForward(op kernels.StackFrames) {
	p.stackFrames(op, "stack_frames_", op.OutLen())
}

func (p *planner) stackBackward(op kernels.StackFramesBackward) {
	p.stackFrames(op.StackFrames, "stack_frames_backward_", op.InLen())
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
		append(scalars([]Arg{buffer(0), buffer(1), buffer(2), buffer(3), buffer(4), scratchAt(p.scratch(8 * blocks)), counterAt(0)},
			op.N, op.C), float(1-op.Smoothing), float(op.Smoothing/float32(op.C)))...)
}
