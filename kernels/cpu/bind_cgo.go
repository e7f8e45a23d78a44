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
		return batchNorm(pl, op, f(0), f(1), f(8), f)
	case kernels.BatchNormBackward:
		return batchNormBackward(pl, op, f(0), f(1), f(2), f(6), f(9), f)
	case kernels.ReLUBackward:
		dy, y, dx := f(0), f(1), f(2)
		return pl.spans(op.N, func(lo, hi int) { pl.pool.variant.reluBack(dy[lo:hi], y[lo:hi], dx[lo:hi]) })
	case kernels.Add:
		a, b, y := f(0), f(1), f(2)
		return pl.spans(op.N, func(lo, hi int) { pl.pool.variant.add(a[lo:hi], b[lo:hi], y[lo:hi], flags(false, op.ReLU)) })
	case kernels.Optimizer:
		return pl.optimizer(op, f)
	case kernels.MaxPool:
		x, y, index := f(0), f(1), c.Bufs[2]
		pixels := op.N * op.OutT() * op.OutH() * op.OutW()
		return pl.parallel(ceil(pixels*op.C, spanFloats/4), pixels, func(lo, hi int) {
			pl.pool.variant.maxPool(&op, lo, hi, x, y, index)
		})
	case kernels.MaxPoolBackward:
		dy, index, dx := f(0), c.Bufs[1], f(2)
		return pl.parallel(ceil(op.InLen(), spanFloats), op.N, func(lo, hi int) {
			pl.pool.variant.maxPoolBack(&op.MaxPool, lo, hi, dy, index, dx)
		})
	case kernels.StackFrames:
		x, y := f(0), f(1)
		return pl.parallel(ceil(op.OutLen(), spanFloats), op.N*op.OutT(), func(lo, hi int) { pl.pool.variant.stackFrames(false, &op, lo, hi, x, y) })
	case kernels.StackFramesBackward:
		dy, dx := f(0), f(1)
		return pl.parallel(ceil(op.OutLen(), spanFloats), op.N*op.T, func(lo, hi int) { pl.pool.variant.stackFrames(true, &op.StackFrames, lo, hi, dy, dx) })
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

// bindHalves is bindNative of tensors of bfloat16s.
func (pl *Plan) bindHalves(c Call) func() {
	if pl.pool.variant == pureGo {
		return nil
	}
	h := func(i int) []uint16 {
		if i >= len(c.Bufs) {
			return nil
		}
		return halves(c.Bufs[i])
	}
	f := func(i int) []float32 { return kernels.Floats(c.Bufs[i]) }
	switch op := c.Op.(type) {
	case kernels.BatchNormForward:
		return batchNorm(pl, op, h(0), h(1), h(8), f)
	case kernels.BatchNormBackward:
		return batchNormBackward(pl, op, h(0), h(1), h(2), h(6), h(9), f)
	}
	return pl.bindDots(c)
}

// optimizer updates elements with weight decay and those without.
func (pl *Plan) optimizer(op kernels.Optimizer, f func(i int) []float32) func() {
	var slots [kernels.MaxSlots][]float32
	n := len(op.Rule.Slots())
	for i := range n {
		slots[i] = f(2 + i)
	}
	w, grad, hyper := f(0), f(1), f(2+n)
	decayed := op.N - op.Exempt
	var with, without settings
	some := func(lo, hi int, h settings) {
		if lo >= hi {
			return
		}
		var at [kernels.MaxSlots][]float32
		for i := range n {
			at[i] = slots[i][lo:hi]
		}
		pl.pool.variant.update(op.Rule, w[lo:hi], grad[lo:hi], at[0], at[1], h)
	}
	all := pl.spans(op.N, func(lo, hi int) {
		some(lo, min(hi, decayed), with)
		some(max(lo, decayed), hi, without)
	})
	return func() {
		if hyper[kernels.HyperSkip] != 0 {
			return
		}
		op.Rule.Count(hyper)
		with = settingsOf(hyper)
		without = with
		without.decay = 0
		all()
	}
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
