package cuda

import "dev.gpustall/kernels"

// The kernels of elementwise.cu and optimizer.cu stride over a grid that fills
// the GPU, 16 bytes a thread and turn.
const elementThreads = 256

// stride returns the grid of a kernel that does n vectors of work.
func (p *planner) stride(n int) [3]int {
	blocks := min(ceil(n, elementThreads), 8*max(p.t.Processors, 1))
	return [3]int{max(blocks, 1), 1, 1}
}

// spread is stride for kernels whose threads have much to do. Where there are few
// threads it makes the blocks smaller, so that every multiprocessor gets one.
func (p *planner) spread(n int) (grid [3]int, threads int) {
	for threads = elementThreads; threads > 32 && ceil(n, threads) < p.t.Processors; {
		threads /= 2
	}
	grid = p.stride(n)
	if threads < elementThreads {
		grid[0] = max(1, ceil(n, threads))
	}
	return grid, threads
}

func (p *planner) zero(op kernels.Zero) {
	p.launch("elementwise", "zero", p.stride(ceil(op.N, 16)), elementThreads, buffer(0), scalar(op.N))
}

func (p *planner) cast(op kernels.Cast) {
	p.launch("elementwise", "cast_"+stored(op.Type), p.stride(ceil(op.N, 8)), elementThreads,
		buffer(0), buffer(1), scalar(op.N))
}

func (p *planner) add(op kernels.Add) {
	p.launch("elementwise", "add_"+stored(op.Type), p.stride(ceil(op.N, 16/op.Type.Size())), elementThreads,
		buffer(0), buffer(1), buffer(2), scalar(op.N), boolean(op.ReLU))
}

func (p *planner) reluBackward(op kernels.ReLUBackward) {
	p.launch("elementwise", "relu_backward_"+stored(op.Type), p.stride(ceil(op.N, 16/op.Type.Size())), elementThreads,
		buffer(0), buffer(1), buffer(2), scalar(op.N))
}

func (p *planner) dropout(op kernels.Dropout) {
	p.launch("elementwise", "dropout_"+stored(op.Type), p.stride(ceil(op.N, 16/op.Type.Size())), elementThreads,
		buffer(0), buffer(1), buffer(2), scalar(op.N), scalar(op.Layer), scalar(int(op.Least())), float(op.Scale()))
}

func (p *planner) nextNoise(kernels.NextNoise) {
	p.launch("elementwise", "next_noise", [3]int{1, 1, 1}, 32, buffer(0))
}

func (p *planner) padChannels(op kernels.PadChannels) {
	p.launch("elementwise", "pad_channels_"+stored(op.Type), p.stride(op.Rows), elementThreads,
		buffer(0), buffer(1), scalar(op.Rows), scalar(op.C), scalar(op.CPad))
}

func (p *planner) augment(op kernels.Augment) {
	args := []Arg{buffer(0), buffer(1), buffer(2)}
	args = scalars(args, op.N, op.H, op.W, op.C, op.CPad, op.Record())
	for c := range op.Mean {
		args = append(args, float(op.Mean[c]))
	}
	for c := range op.Std {
		inv := float32(0)
		if op.Std[c] != 0 {
			inv = float32(1 / float64(op.Std[c]))
		}
		args = append(args, float(inv))
	}
	p.launch("elementwise", "augment_"+stored(op.Type), p.stride(op.N*op.H*op.W), elementThreads, args...)
}

// optimizer updates all parameters in one launch: they lie one behind the other.
func (p *planner) optimizer(op kernels.Optimizer) {
	entry := "opt_" + op.Rule.String()
	if op.Copy.Size() == 2 {
		entry += "_" + op.Copy.String()
	}
	slots := len(op.Rule.Slots())
	p.launch("optimizer", entry, p.stride(ceil(op.N, 4)), elementThreads,
		buffer(0), buffer(1), optional(slots > 0, 2), optional(slots > 1, 3), buffer(2+slots), optional(op.Copy != kernels.F32, 3+slots),
		counterAt(0), scalar(op.N), scalar(op.N-op.Exempt))
}

// scaleCheck has the last block to finish update the hyper-parameters.
func (p *planner) scaleCheck(op kernels.ScaleCheck) {
	p.launch("optimizer", "scale_check", p.stride(ceil(op.N, 4)), elementThreads,
		buffer(0), buffer(1), counterAt(0), scalar(op.N))
}
