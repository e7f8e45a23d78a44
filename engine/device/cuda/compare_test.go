package cuda

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"dev.gpustall/kernels"
)

func TestCompare(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	const n = 3*compareChunk + 17
	rng := rand.New(rand.NewPCG(1, 1))
	base := make([]float32, n)
	for i := range base {
		base[i] = 2*rng.Float32() - 1
	}
	base[0] = 4 // the largest
	for _, typ := range []kernels.Type{kernels.F32, kernels.F16, kernels.BF16} {
		for _, c := range []struct {
			name string
			edit func(got, want []float32)
			ok   bool
			says string
		}{
			{"same", func(got, want []float32) {}, true, ""},
			{"near", func(got, want []float32) { got[n-1] = want[n-1] + 0.03 }, true, ""},
			{"far, in the last chunk", func(got, want []float32) { got[n-1] = want[n-1] + 0.5 }, false, "at 196624"},
			{"NaN", func(got, want []float32) { got[compareChunk] = nan }, false, "NaN instead of"},
			{"NaN in both", func(got, want []float32) { got[7], want[7] = nan, nan }, true, ""},
			{"Inf", func(got, want []float32) { got[5] = inf }, false, "+Inf instead of"},
			{"Inf in both", func(got, want []float32) { got[5], want[5], got[6] = inf, inf, want[6]+0.03 }, true, ""},
			{"a number for NaN", func(got, want []float32) { want[5] = nan }, false, "instead of NaN"},
			{"NaN before something farther", func(got, want []float32) { got[5], got[n-1] = nan, 1000 }, false, "NaN instead of"},
			{"zeros", func(got, want []float32) { clear(want); clear(got); got[3] = 1e-3 }, false, "instead of 0"},
		} {
			got, want := append([]float32(nil), base...), append([]float32(nil), base...)
			c.edit(got, want)
			g, w := make([]byte, n*typ.Size()), make([]byte, n*typ.Size())
			kernels.Store(g, typ, got)
			kernels.Store(w, typ, want)
			err := compare(g, w, typ).within(0.02, magnitude(w, typ))
			if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %s: %v; want %q", typ, c.name, err, c.says)
			}
		}
	}
}

// TestTolerance: the tolerance is a few times the error that types and orders of
// summation make of the same products. A variant that leaves out one step of the depth
// must not pass.
func TestTolerance(t *testing.T) {
	layer := kernels.Conv{N: 128, H: 32, W: 32, C: 64, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}
	deep := kernels.Conv{N: 128, H: 4, W: 4, C: 512, K: 512, R: 3, S: 3, Stride: 1, Pad: 1}
	for _, c := range []struct {
		op       kernels.Op
		arg      int
		step     float64 // of the depth
		from, to float64
	}{
		{kernels.ConvForward{Conv: layer}, 2, 8, 1e-5, 1e-4},
		{kernels.ConvForward{Conv: deep}, 2, 8, 1e-5, 2e-4},
		{kernels.ConvForward{Conv: deep, Type: kernels.TF32}, 2, 16, 2e-3, 3e-3},
		{kernels.ConvForward{Conv: deep, Type: kernels.F16}, 2, 32, 2e-3, 3e-3},
		{kernels.ConvForward{Conv: deep, Type: kernels.BF16}, 2, 64, 1.5e-2, 2e-2},
		{kernels.ConvBackwardData{Conv: deep, Type: kernels.BF16}, 2, 64, 1.5e-2, 2e-2},
		{kernels.ConvBackwardWeight{Conv: deep, Type: kernels.BF16}, 2, 64, 1e-5, 1e-3},
		{kernels.ConvBackwardWeight{Conv: layer, Type: kernels.BF16}, 2, 64, 1e-5, 2e-3},
	} {
		tol := tolerance(c.op, c.op.Args()[c.arg])
		if tol < c.from || tol > c.to {
			t.Errorf("%s %+v: %.2g, want %.2g to %.2g", c.op.Name(), c.op, tol, c.from, c.to)
		}
		// A sum of k products that lacks one step of s of them is off by sqrt(s/k) of its
		// deviation. Over a whole tensor, the largest such error is about as many deviations out as
		// the largest value.
		if lost := math.Sqrt(c.step / float64(depth(c.op))); tol > lost/2 {
			t.Errorf("%s %+v: %.2g passes a lost step of the depth, %.2g", c.op.Name(), c.op, tol, lost)
		}
	}
}

// A step's largest activations have 64 million elements; every variant of every
// shape is compared once.
func BenchmarkCompare(b *testing.B) {
	const n = 1 << 24
	rng := rand.New(rand.NewPCG(1, 1))
	v := make([]float32, n)
	for i := range v {
		v[i] = rng.Float32()
	}
	for _, typ := range []kernels.Type{kernels.F32, kernels.F16, kernels.BF16} {
		want := make([]byte, n*typ.Size())
		kernels.Store(want, typ, v)
		same := append([]byte(nil), want...)
		other := make([]byte, len(want))
		for i := range v {
			v[i] *= 1.01
		}
		kernels.Store(other, typ, v)
		for name, got := range map[string][]byte{"same": same, "every element differs": other} {
			b.Run(typ.String()+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(want)))
				for range b.N {
					compare(got, want, typ)
				}
			})
		}
		b.Run(typ.String()+"/magnitude", func(b *testing.B) {
			b.SetBytes(int64(len(want)))
			for range b.N {
				magnitude(want, typ)
			}
		})
	}
}
