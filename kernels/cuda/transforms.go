package cuda

import "dev.gpustall/kernels"

// The shapes of transforms.cu.
const (
	tapWords   = kernels.MaxTaps + 2
	blurWidth  = 32 // of a block's tile
	blurHeight = 16
)

func (p *planner) resample(op kernels.Resample) {
	taps := scratchAt(p.scratch(4 * tapWords * op.N * (op.OutH + op.OutW)))
	p.launch("transforms", "resample_taps", p.stride(op.N*(op.OutH+op.OutW)), elementThreads,
		scalars([]Arg{buffer(1), taps}, op.N, op.OutH, op.OutW, op.Words, op.At)...)
	args := scalars([]Arg{buffer(0), buffer(1), taps, buffer(2)}, op.N, op.OutH, op.OutW, op.In)
	p.launch("transforms", "resample", p.stride(op.N*op.OutH*op.OutW), elementThreads,
		scalars(append(args, boolean(op.Packed)), op.Words, op.At)...)
}

func (p *planner) shift(op kernels.Shift) {
	p.launch("transforms", "shift", p.stride(op.N*op.OutH*op.OutW), elementThreads,
		scalars([]Arg{buffer(0), buffer(1), buffer(2)}, op.N, op.H, op.W, op.OutH, op.OutW, op.Words, op.At)...)
}

func (p *planner) blur(op kernels.Blur) {
	if op.Taps > kernels.MaxBlur {
		p.fail("%d taps are over the %d of its tiles", op.Taps, kernels.MaxBlur)
	}
	p.launch("transforms", "blur", [3]int{ceil(op.W, blurWidth) * ceil(op.H, blurHeight), op.N, 1}, elementThreads,
		scalars([]Arg{buffer(0), buffer(1), buffer(2)}, op.H, op.W, op.Taps, op.Words, op.At)...)
}

func (p *planner) colours(op kernels.Colours) {
	p.launch("transforms", "colours", [3]int{op.N, 1, 1}, elementThreads,
		scalars([]Arg{buffer(0), buffer(1), buffer(2)}, op.H, op.W, op.Words, op.At)...)
}
