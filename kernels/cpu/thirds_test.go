package cpu

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestThirds: products by thirds are as exact as float32. Compared with float64, their error is about as
// large as the error of a sum of the same operands in float32, term by term. Some operands outweigh all
// others, so that each of a term's six products rounds the sum; normal deviates have half of the error.
// Deviates of one sign are the harder case, since errors of the sum add up.
func TestThirds(t *testing.T) {
	if bestDots() != dotsOfAMX {
		t.Skip("needs AMX")
	}
	r := rand.New(rand.NewPCG(5, 1))
	for _, s := range [][3]int{{0, 32, 32}, {1, 1, 1}, {16, 32, 32}, {17, 33, 31}, {31, 16, 5}, {70, 100, 300}, {48, 64, 2048}} {
		for _, signed := range []bool{true, false} {
			testThirds(t, r, s[0], s[1], s[2], signed)
		}
	}
}

func testThirds(t *testing.T, r *rand.Rand, m, n, k int, signed bool) {
	deviates := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64() * math.Exp2(8*r.NormFloat64()))
			if !signed {
				v[i] = max(v[i], -v[i])
			}
		}
		return v
	}
	a, b, bias := deviates(m*k), deviates(k*n), deviates(n)
	turn := func(v []float32, rows, columns int) []float32 {
		out := make([]float32, len(v))
		for i := range rows {
			for j := range columns {
				out[j*rows+i] = v[i*columns+j]
			}
		}
		return out
	}
	want, scale := make([]float64, m*n), make([]float64, m*n)
	var plain float64 // the largest error of a sum in float32
	for i := range m {
		for j := range n {
			var sum, size float64
			var single float32
			for p := range k {
				x, y := a[i*k+p], b[p*n+j]
				sum += float64(x) * float64(y)
				size += math.Abs(float64(x) * float64(y))
				single = float32(math.FMA(float64(x), float64(y), float64(single)))
			}
			want[i*n+j], scale[i*n+j] = sum, size
			plain = max(plain, math.Abs(float64(single)-sum)/size)
		}
	}
	for _, turned := range []bool{false, true} {
		left, right := make([]uint16, leftThirds(m, k)), make([]uint16, rightThirds(n, k))
		block, panel := leftThirds(16, k), rightThirds(thirdsN, k)
		panels := ceil(n, thirdsN)
		if turned {
			packLeftThirds(m, k, turn(a, m, k), m, left)
			packRightThirds(n, k, turn(b, k, n), k, true, 0, panels, right, panel)
		} else {
			rows := window{h: 1, w: m, c: k, oh: 1, ow: max(m, 1), r: 1, s: 1, stride: 1}
			packTapThirds(&rows, a, 0, m, 0, k, left, block)
			packRightThirds(n, k, b, n, false, 0, panels, right, panel)
		}
		for fl := range 8 {
			c := make([]float32, m*n)
			for i := range c {
				c[i] = float32(i%7) - 3
			}
			add := bias
			if turned {
				add = nil
			}
			gemmThirds(m, n, k, left, block, right, panel, c, n, add, fl)
			for i := range c {
				w := want[i]
				if fl&accumulate != 0 {
					w += float64(float32(i%7) - 3)
				}
				if add != nil {
					w += float64(add[i%n])
				}
				if fl&relu != 0 {
					w = max(w, 0)
				}
				allowed := max(2*plain, 0x1p-21) * scale[i] // six products of a term, or of few, round more often than one
				if add != nil || fl&accumulate != 0 {       // a rounding more each
					allowed += math.Abs(w)*0x1p-22 + 3*0x1p-22
				}
				if e := math.Abs(float64(c[i]) - w); !(e <= allowed) {
					t.Fatalf("%d x %d x %d, turned %v, flags %d: %g at %d, want %g: off by %.2g, allowed %.2g", m, n, k, turned, fl, c[i], i, w, e, allowed)
				}
			}
		}
	}
}
