package cuda

import "dev.gpustall/kernels"

// The blocks of columns.h: of a sum over rows, and of a pass over the elements.
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
	// All blocks run at once, so that they sweep the rows together. Of a sum, one a
	// multiprocessor suffices to read at full speed, and keeps the parts few for the
	// block that adds them up; of a pass, two fit.
	blocks := func(each, threads int) int {
		strips := ceil(rows, threads/across*stripBatch)
		return max(1, min(each*p.t.Processors/groups, strips))
	}
	parts, slices := blocks(1, sumThreads), blocks(2, passThreads)
	return columnGrid{name, [3]int{groups, parts, 1}, [3]int{groups, slices, 1}, parts}
}

// vectored names the variant of a kernel for rows of n elements of t, and how many
// elements it loads at once.
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
