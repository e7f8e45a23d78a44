//go:build cgo

package cpu

import "dev.gpustall/kernels"

// bindNative returns the C kernels' way of running c, or nil when there is none.
func (pl *Plan) bindNative(c Call) func() {
	if pl.pool.variant == pureGo {
		return nil
	}
	f := func(i int) []float32 {
		if i >= len(c.Bufs) {
			return nil
		}
		return kernels.Floats(c.Bufs[i])
	}
	switch op := c.Op.(type) {
	case kernels.BatchNormForward:
		return pl.batchNorm(op, f)
	case kernels.BatchNormBackward:
		return pl.batchNormBackward(op, f)
	case kernels.ReLUBackward:
		dy, y, dx := f(0), f(1), f(2)
		return pl.spans(op.N, func(lo, hi int) { pl.pool.variant.reluBack(dy[lo:hi], y[lo:hi], dx[lo:hi]) })
	case kernels.Add:
		a, b, y := f(0), f(1), f(2)
		return pl.spans(op.N, func(lo, hi int) { pl.pool.variant.add(a[lo:hi], b[lo:hi], y[lo:hi], flags(false, op.ReLU)) })
	case kernels.SGD:
		w, grad, m, hyper := f(0), f(1), f(2), f(3)
		return pl.spans(op.N, func(lo, hi int) {
			if hyper[kernels.HyperSkip] == 0 {
				pl.pool.variant.sgd(w[lo:hi], grad[lo:hi], m[lo:hi], hyper[kernels.HyperLR], hyper[kernels.HyperMomentum],
					hyper[kernels.HyperWeightDecay], 1/hyper[kernels.HyperGradScale])
			}
		})
	case kernels.MaxPool:
		x, y, index := f(0), f(1), c.Bufs[2]
		pixels := op.N * op.OutH() * op.OutW()
		return pl.parallel(ceil(pixels*op.C, spanFloats/4), pixels, func(lo, hi int) {
			pl.pool.variant.maxPool(&op, lo, hi, x, y, index)
		})
	case kernels.MaxPoolBackward:
		dy, index, dx := f(0), c.Bufs[1], f(2)
		return pl.parallel(ceil(op.N*op.H*op.W*op.C, spanFloats), op.N, func(lo, hi int) {
			pl.pool.variant.maxPoolBack(&op.MaxPool, lo, hi, dy, index, dx)
		})
	case kernels.AvgPool:
		return pl.avgPool(op, f(0), f(1))
	case kernels.AvgPoolBackward:
		dy, dx, hw := f(0), f(1), op.H*op.W
		return pl.parallel(ceil(op.N*hw*op.C, spanFloats), op.N, func(lo, hi int) {
			for n := lo; n < hi; n++ {
				pl.pool.variant.spreadMean(hw, op.C, 1/float32(hw), dy[n*op.C:], dx[n*hw*op.C:])
			}
		})
	}
	return nil
}

// avgPool averages with float64 sums, as the reference does.
func (pl *Plan) avgPool(op kernels.AvgPool, x, y []float32) func() {
	hw := op.H * op.W
	sums := make([]float64, op.N*op.C)
	return pl.parallel(ceil(op.N*hw*op.C, spanFloats), op.N, func(lo, hi int) {
		for n := lo; n < hi; n++ {
			s := sums[n*op.C : (n+1)*op.C]
			clear(s)
			pl.pool.variant.addColumns(x[n*hw*op.C:(n+1)*hw*op.C], op.C, s)
			for c, sum := range s {
				y[n*op.C+c] = float32(sum / float64(hw))
			}
		}
	})
}
