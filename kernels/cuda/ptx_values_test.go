package cuda

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"dev.gpustall/kernels"
	"dev.gpustall/kernels/verify/ptxvm"
)

// TestPTXEdgeValues: the kernels treat values at the edges of the types as the
// references do. These are NaN, infinities, values too large for float16, subnormal
// ones, and zeros with a sign.
func TestPTXEdgeValues(t *testing.T) {
	t.Parallel()
	edges := []float32{
		0, float32(math.Copysign(0, -1)), 1, -1, 65504, -65504, 65519, 65520, 1e5, -1e5, 3e38, -3e38, 0x1p-14, 0x1p-24, -0x1p-24, 0x1p-25, 0x1.8p-25,
		0x1p-126, -0x1p-149, 1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1p-11, 1 + 0x3p-11, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
	}
	const n = 1003
	var ops []kernels.Op
	for _, typ := range floatTypes {
		pool := kernels.MaxPool{N: 2, H: 7, W: 6, C: 5, Size: 3, Stride: 2, Pad: 1, Type: typ}
		wide := pool
		wide.C = 16
		ops = append(ops, kernels.Cast{N: n, Type: typ}, kernels.Add{N: n, Type: typ}, kernels.Add{N: n, Type: typ, ReLU: true}, kernels.ReLUBackward{N: n, Type: typ}, kernels.PadChannels{Rows: 101, C: 3, CPad: 8, Type: typ},
			pool, wide, kernels.Optimizer{N: n, Copy: typ})
	}
	for _, op := range ops {
		r := rand.New(rand.NewPCG(7, 8))
		bufs := inputs(op, 1)
		for i, a := range op.Args() {
			if a.Role == kernels.Out || a.Type == kernels.U8 || a.Type == kernels.I32 || a.Name == "hyper" {
				continue
			}
			v := kernels.Load(bufs[i], a.Type)
			for j := range v {
				if r.IntN(2) == 0 {
					v[j] = edges[r.IntN(len(edges))]
				}
			}
			kernels.Store(bufs[i], a.Type, v)
		}
		want := clone(bufs)
		op.Reference(want)
		for _, target := range ptxTargets {
			plan, err := NewPlan(op, target, "")
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s %+v sm_%d", op.Name(), op, target.SM)
			got := clone(bufs)
			err = runPTX(t, op, plan, func(l Launch) *ptxvm.Module { return ptxModule(t, l.Module, target.SM) }, got, identity(len(bufs)), false)
			if err == nil {
				err = same(op, got, want)
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Gradients that are not finite are seen wherever they lie.
func TestPTXScaleCheck(t *testing.T) {
	t.Parallel()
	const n = 4099
	op := kernels.ScaleCheck{N: n}
	for _, target := range ptxTargets {
		plan, err := NewPlan(op, target, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{-1, 0, 5, 2048, n - 1} {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				bufs := allocate(op)
				if at >= 0 {
					kernels.Floats(bufs[0])[at] = float32(bad)
				}
				copy(kernels.Floats(bufs[1]), []float32{0, 0, 0, 64, 1, kernels.GrowthInterval - 1})
				want := clone(bufs)
				op.Reference(want)
				if err := runPTX(t, op, plan, func(l Launch) *ptxvm.Module { return ptxModule(t, l.Module, target.SM) }, bufs, identity(2), at == 5); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(bufs[1], want[1]) {
					t.Errorf("sm_%d, %g at %d: hyper-parameters %v, want %v", target.SM, bad, at, kernels.Floats(bufs[1]), kernels.Floats(want[1]))
				}
			}
		}
	}
}

// same is differ where differences of infinities must not count as small.
func same(op kernels.Op, got, want [][]byte) error {
	for i, a := range op.Args() {
		if a.Role == kernels.In || a.Type == kernels.U8 {
			continue
		}
		g, w := kernels.Load(got[i], a.Type), kernels.Load(want[i], a.Type)
		for j := range w {
			x, y := float64(g[j]), float64(w[j])
			if math.IsNaN(x) != math.IsNaN(y) || (math.IsInf(x, 0) || math.IsInf(y, 0)) && x != y {
				return fmt.Errorf("%s[%d] is %g, want %g", a.Name, j, x, y)
			}
		}
	}
	return differ(op, finite(op, got), finite(op, want))
}

// finite has zeros for infinities, which differ cannot compare.
func finite(op kernels.Op, bufs [][]byte) [][]byte {
	c := clone(bufs)
	for i, a := range op.Args() {
		if a.Role == kernels.In || a.Type == kernels.U8 || a.Type == kernels.I32 {
			continue
		}
		v := kernels.Load(c[i], a.Type)
		for j, x := range v {
			if math.IsInf(float64(x), 0) {
				v[j] = 0
			}
		}
		kernels.Store(c[i], a.Type, v)
	}
	return c
}
