//go:build cgo

package cpu

import "dev.gpustall/kernels"

// bindNative returns the step that runs c by the C kernels, or nil where there is none.
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
	if op, ok := c.Op.(kernels.Optimizer); ok {
		return pl.optimizer(op, f)
	}
	return bindTensors(pl, c, f, f)
}

// bindNative is Plan.bindNative for tensors of bfloat16s.
func (pl bf16) bindNative(c Call) func() {
	if pl.pool.variant == pureGo {
		return nil
	}
	h := func(i int) []uint16 {
		if i >= len(c.Bufs) {
			return nil
		}
		return halves(c.Bufs[i])
	}
	switch op := c.Op.(type) {
	case kernels.MaxPoolBackward:
		if op.Size > op.Stride || op.SizeT > op.StrideT {
			return nil // sums that several windows add to would be rounded more than once
		}
	case kernels.PadChannels:
		x, y := kernels.Floats(c.Bufs[0]), halves(c.Bufs[1])
		return pl.parallel(ceil(op.Rows*op.CPad, spanFloats), op.Rows, func(lo, hi int) {
			pl.pool.variant.padChannels(hi-lo, op.C, op.CPad, x[lo*op.C:], y[lo*op.CPad:])
		})
	}
	if run := bindTensors(pl.Plan, c, h, func(i int) []float32 { return kernels.Floats(c.Bufs[i]) }); run != nil {
		return run
	}
	return pl.bindDots(c)
}

// bindTensors returns the step of an operation that runs alike on tensors of both types, or nil.
// t returns the operation's tensors, f its other arguments.
func bindTensors[T real](pl *Plan, c Call, t func(int) []T, f func(int) []float32) func() {
	v := pl.pool.variant
	switch op := c.Op.(type) {
	case kernels.BatchNormForward:
		return batchNorm(pl, op, t(0), t(1), t(8), f)
	case kernels.BatchNormBackward:
		return batchNormBackward(pl, op, t(0), t(1), t(2), t(6), t(9), f)
	case kernels.ReLUBackward:
		dy, y, dx := t(0), t(1), t(2)
		return pl.spans(op.N, func(lo, hi int) { reluBack(v, dy[lo:hi], y[lo:hi], dx[lo:hi]) })
	case kernels.Add:
		a, b, y, fl := t(0), t(1), t(2), flags(false, op.ReLU)
		return pl.spans(op.N, func(lo, hi int) { add(v, a[lo:hi], b[lo:hi], y[lo:hi], fl) })
	case kernels.MaxPool:
		x, y, index := t(0), t(1), c.Bufs[2]
		pixels := op.N * op.OutT() * op.OutH() * op.OutW()
		return pl.parallel(ceil(pixels*op.C, spanFloats/4), pixels, func(lo, hi int) { maxPool(v, &op, lo, hi, x, y, index) })
	case kernels.MaxPoolBackward:
		dy, index, dx := t(0), c.Bufs[1], t(2)
		return pl.parallel(ceil(op.InLen(), spanFloats), op.N, func(lo, hi int) { maxPoolBack(v, &op.MaxPool, lo, hi, dy, index, dx) })
	case kernels.StackFrames:
		x, y := t(0), t(1)
		return pl.parallel(ceil(op.OutLen(), spanFloats), op.N*op.OutT(), func(lo, hi int) { stackFrames(v, &op, lo, hi, x, y) })
	case kernels.StackFramesBackward:
		dy, dx := t(0), t(1)
		return pl.parallel(ceil(op.OutLen(), spanFloats), op.N*op.T, func(lo, hi int) { stackFramesBack(v, &op.StackFrames, lo, hi, dy, dx) })
	case kernels.AvgPool:
		return avgPool(pl, op, t(0), t(1))
	case kernels.AvgPoolBackward:
		dy, dx, hw := t(0), t(1), op.H*op.W
		return pl.parallel(ceil(op.N*hw*op.C, spanFloats), op.N, func(lo, hi int) {
			for n := lo; n < hi; n++ {
				spreadMean(v, hw, op.C, 1/float32(hw), dy[n*op.C:], dx[n*hw*op.C:])
			}
		})
	}
	return nil
}

// optimizer updates the elements with weight decay, then those without.
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
func avgPool[T real](pl *Plan, op kernels.AvgPool, x, y []T) func() {
	hw := op.H * op.W
	sums := make([]float64, op.N*op.C)
	return pl.parallel(ceil(op.N*hw*op.C, spanFloats), op.N, func(lo, hi int) {
		for n := lo; n < hi; n++ {
			s := sums[n*op.C : (n+1)*op.C]
			clear(s)
			addColumns(pl.pool.variant, x[n*hw*op.C:(n+1)*hw*op.C], op.C, s)
			for c, sum := range s {
				set(&y[n*op.C+c], float32(sum/float64(hw)))
			}
		}
	})
}

// set stores v as an element of a tensor, rounded to its type.
func set[T real](to *T, v float32) {
	switch to := any(to).(type) {
	case *float32:
		*to = v
	case *uint16:
		*to = kernels.BF16Bits(v)
	}
}
