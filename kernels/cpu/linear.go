package cpu

import "dev.gpustall/kernels"

// linear is a 1x1 convolution of N pixels.
func (pl *Plan) linear(op kernels.Linear, x, w, y, bias []float32) func() {
	f := newForward(pl, pointwise(op))
	return f.bind(x, w, y, bias, 0)
}

func (pl *Plan) linearBackward(op kernels.LinearBackward, dy, x, w, dx, dw, dbias []float32) func() {
	c := pointwise(op.Linear)
	data := pl.backwardData(kernels.ConvBackwardData{Conv: c}, dy, w, dx)
	weight := pl.convBackwardWeight(kernels.ConvBackwardWeight{Conv: c, Bias: true}, x, dy, dw, dbias)
	return func() {
		data()
		weight()
	}
}

func pointwise(op kernels.Linear) kernels.Conv {
	return kernels.Conv{N: op.N, H: 1, W: 1, C: op.In, K: op.Out, R: 1, S: 1, Stride: 1}
}
