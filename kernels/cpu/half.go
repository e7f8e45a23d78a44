package cpu

import (
	"reflect"
	"slices"
	"unsafe"

	"dev.gpustall/kernels"
)

// halves views b as bfloat16s. b must be aligned to 2 bytes.
func halves(b []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}

// bf16 binds a plan's operations on tensors of bfloat16s.
type bf16 struct{ *Plan }

// bind returns the function that runs an operation in bf16.
func (pl bf16) bind(c Call) func() {
	switch op := c.Op.(type) {
	case kernels.Cast:
		x, y := kernels.Floats(c.Bufs[0]), halves(c.Bufs[1])
		return pl.spans(op.N, func(lo, hi int) { pl.pool.variant.narrow(x[lo:hi], y[lo:hi]) })
	case kernels.Optimizer:
		return pl.optimizerWithCopy(op, c.Bufs)
	}
	if run := pl.bindNative(c); run != nil {
		return run
	}
	return pl.widened(c)
}

// optimizerWithCopy writes rounded copies of the weights after their update, unless the step is
// skipped.
func (pl bf16) optimizerWithCopy(op kernels.Optimizer, bufs [][]byte) func() {
	last := len(bufs) - 1
	op.Copy = kernels.F32
	w, hyper, to := kernels.Floats(bufs[0]), kernels.Floats(bufs[last-1]), halves(bufs[last])
	update := pl.Plan.bind(Call{Op: op, Bufs: bufs[:last]})
	narrow := pl.spans(op.N, func(lo, hi int) { pl.pool.variant.narrow(w[lo:hi], to[lo:hi]) })
	return func() {
		update()
		if hyper[kernels.HyperSkip] == 0 {
			narrow()
		}
	}
}

// widened runs the operation in float32 on widened copies of its tensors, and rounds the results.
// So products of bf16 are summed in float32, as on a GPU, but no faster than float32. It is for
// operations without a kernel of their own, and for processors without instructions for bf16.
func (pl bf16) widened(c Call) func() {
	op := inF32(c.Op)
	bufs := slices.Clone(c.Bufs)
	l := layout{pl: pl.Plan}
	var before, after []func()
	var places []func()
	for i, a := range c.Op.Args() {
		if a.Type != kernels.BF16 {
			continue
		}
		r, h := l.take(a.Len), halves(c.Bufs[i])
		bufs[i] = nil
		places = append(places, func() { bufs[i] = bytesIn(pl.at(r)) })
		if a.Role != kernels.Out {
			before = append(before, pl.spans(a.Len, func(lo, hi int) { pl.pool.variant.widen(h[lo:hi], pl.at(r)[lo:hi]) }))
		}
		if a.Role != kernels.In {
			after = append(after, pl.spans(a.Len, func(lo, hi int) { pl.pool.variant.narrow(pl.at(r)[lo:hi], h[lo:hi]) }))
		}
	}
	outer := pl.base
	inner := func() func() {
		pl.base = outer + l.n
		defer func() { pl.base = outer }()
		return pl.Plan.bind(Call{Op: op, Bufs: bufs})
	}
	run := inner() // to count the scratch that it needs; its tensors do not exist yet
	pl.late = append(pl.late, func() {
		for _, place := range places {
			place()
		}
		run = inner()
	})
	return func() {
		for _, f := range before {
			f()
		}
		run()
		for _, f := range after {
			f()
		}
	}
}

// inF32 returns op with tensors of float32.
func inF32(op kernels.Op) kernels.Op {
	v := reflect.New(reflect.TypeOf(op)).Elem()
	v.Set(reflect.ValueOf(op))
	v.FieldByName("Type").SetUint(uint64(kernels.F32))
	return v.Interface().(kernels.Op)
}

// bytesIn views v as bytes.
func bytesIn(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}

func goWiden(from []uint16, to []float32) {
	for i, h := range from {
		to[i] = kernels.BF16Float(h)
	}
}

func goNarrow(from []float32, to []uint16) {
	for i, x := range from {
		to[i] = kernels.BF16Bits(x)
	}
}

// takeHalves reserves n bfloat16s, n even.
func (l *layout) takeHalves(n int) region { return l.take(n / 2) }

// halvesAt returns r as bfloat16s, halvesPart the i-th part of it, where each part has n.
func (pl *Plan) halvesAt(r region) []uint16             { return halves(bytesIn(pl.at(r))) }
func (pl *Plan) halvesPart(r region, i, n int) []uint16 { return halves(bytesIn(pl.part(r, i, n/2))) }
