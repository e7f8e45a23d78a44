package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"dev.gpustall/kernels"
)

// compare fails the test when an output of op is further from the reference than
// its type and its sums allow.
func compare(t *testing.T, name string, op kernels.Op, got, want [][]byte) {
	t.Helper()
	if err := differ(op, got, want); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

func differ(op kernels.Op, got, want [][]byte) error {
	for i, a := range op.Args() {
		if a.Role == kernels.In {
			continue
		}
		if a.Type == kernels.U8 {
			for j := range want[i] {
				if got[i][j] != want[i][j] {
					return fmt.Errorf("%s[%d] is %d, want %d", a.Name, j, got[i][j], want[i][j])
				}
			}
			continue
		}
		rel, abs := tolerance(op, a)
		g, w := kernels.Load(got[i], a.Type), kernels.Load(want[i], a.Type)
		for j := range w {
			x, y := float64(g[j]), float64(w[j])
			if math.IsNaN(x) && math.IsNaN(y) {
				continue
			}
			if !(math.Abs(x-y) <= abs+rel*math.Abs(y)) {
				return fmt.Errorf("%s[%d] is %g, want %g (tolerance %.2g)", a.Name, j, x, y, abs+rel*math.Abs(y))
			}
		}
	}
	return nil
}

// tolerance is the relative and absolute error an output may have: the rounding
// of its type, and of sums in float32 of terms of about one.
func tolerance(op kernels.Op, a kernels.Arg) (rel, abs float64) {
	switch a.Type {
	case kernels.F16:
		rel = 0x1p-10
	case kernels.BF16:
		rel = 0x1p-7
	default:
		rel = 1e-5
	}
	terms := 16.0
	switch op := op.(type) {
	case kernels.ConvForward:
		terms = float64(op.R * op.S * op.C)
	case kernels.ConvBackwardData:
		terms = float64(op.R * op.S * op.K)
		if op.Accumulate && a.Type.Size() == 2 { // rounded before it is added
			abs += rel * math.Sqrt(terms) * 3
		}
	case kernels.ConvBackwardWeight:
		terms = float64(op.Pixels())
	case kernels.BatchNormBackward:
		terms = float64(op.Rows)
	case kernels.LinearBackward:
		terms = float64(op.N)
	}
	return rel, abs + 4e-6*math.Sqrt(terms)
}

func identity(n int) []int {
	v := make([]int, n)
	for i := range v {
		v[i] = i
	}
	return v
}

// aliased is identity for n buffers, but that each first of a pair is the second's.
func aliased(n int, pairs []int) []int {
	v := identity(n)
	for i := 0; i < len(pairs); i += 2 {
		v[pairs[i]] = pairs[i+1]
	}
	return v
}

func allocate(op kernels.Op) [][]byte {
	var bufs [][]byte
	for _, a := range op.Args() {
		// Through float32, for the alignment.
		bufs = append(bufs, sized(a.Size()))
	}
	return bufs
}

func sized(n int) []byte {
	f := make([]float32, (n+3)/4+1)
	b := make([]byte, 4*len(f))
	return b[:n:n]
}

func clone(bufs [][]byte) [][]byte {
	var c [][]byte
	for _, b := range bufs {
		d := sized(len(b))
		copy(d, b)
		c = append(c, d)
	}
	return c
}

// inputs fills op's buffers with values that its types hold exactly (bfloat16's
// 8 bits), so that products are exact and only sums and results are rounded.
func inputs(op kernels.Op, seed uint64) [][]byte {
	r := rand.New(rand.NewPCG(seed, uint64(len(op.Name()))))
	bufs := allocate(op)
	for i, a := range op.Args() {
		if a.Role == kernels.Out {
			continue
		}
		switch {
		case a.Type == kernels.U8:
			for j := range bufs[i] {
				bufs[i][j] = byte(r.Uint32())
			}
		case a.Type == kernels.I32:
			for j := range a.Len {
				binary.NativeEndian.PutUint32(bufs[i][4*j:], uint32(integer(op, r, j)))
			}
		case a.Name == "hyper":
			copy(kernels.Floats(bufs[i]), []float32{0.1, 0.9, 5e-4, 1024, 0, 3, 512, 3, 1 - 0.9*0.9*0.9, 1 - 0.99*0.99*0.99, 2, 0.01, 1e-3, 0.01})
		default:
			v := make([]float32, a.Len)
			for j := range v {
				v[j] = kernels.BF16Float(kernels.BF16Bits(float32(r.NormFloat64())))
				switch a.Name {
				case "running var", "saved invstd":
					v[j] = float32(math.Abs(float64(v[j]))) + 0.5
				case "sum", "square_avg", "acc_delta", "exp_avg_sq":
					v[j] *= v[j]
				}
			}
			kernels.Store(bufs[i], a.Type, v)
		}
	}
	if len(bufs) > 1 {
		kernels.Examples(op, r, kernels.Ints(bufs[1]))
	}
	if op, ok := op.(kernels.MaxPoolBackward); ok {
		forward := inputs(op.MaxPool, seed)
		op.MaxPool.Reference(forward)
		copy(bufs[1], forward[2])
	}
	return bufs
}

// integer is a label, noise, or part of an augmentation.
func integer(op kernels.Op, r *rand.Rand, j int) int32 {
	if op, ok := op.(kernels.SoftmaxXent); ok {
		return r.Int32N(int32(op.C))
	}
	switch op.(type) {
	case kernels.Dropout, kernels.NextNoise:
		return int32(r.Uint32())
	}
	switch j % kernels.AugLen {
	case kernels.AugFlip:
		return r.Int32N(2)
	case kernels.AugDY, kernels.AugDX:
		return r.Int32N(9) - 4
	}
	return 0
}
