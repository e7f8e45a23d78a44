package cuda

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/kernels"
)

// tolerance returns how far the results of two right variants of op may differ in argument a, as a
// share of the largest value. There are three sources:
//
//   - Each rounds its result to a's type: at most one unit in the last place each.
//   - Both sum the same k products in float32, each in its own order. Where additions round to
//     nearest, the error is about 2^-24 sqrt(k) of the result, since partial sums grow as sqrt(k).
//     Tensor cores truncate, which errs to one side: in proportion to the k/16 additions of an
//     instruction's depth. The bound is a few times both.
//   - tf32 operands are float32 numbers. One variant rounds them to 10 bits, another cuts them off.
func tolerance(op kernels.Op, a kernels.Arg) float64 {
	unit := map[kernels.Type]float64{kernels.F16: 0x1p-10, kernels.BF16: 0x1p-7}[a.Type]
	if unit == 0 {
		unit = 0x1p-23
	}
	k := float64(depth(op))
	tol := 2*unit + 0x1p-23*(8*math.Sqrt(k)+k/16)
	for _, arg := range op.Args() {
		if arg.Type == kernels.TF32 {
			return tol + 0x1p-9
		}
	}
	return tol
}

// depth returns the number of products in each of op's sums.
func depth(op kernels.Op) int {
	switch op := op.(type) {
	case kernels.ConvForward:
		return op.R * op.S * op.C
	case kernels.ConvBackwardData:
		return op.R * op.S * op.K
	case kernels.ConvBackwardWeight:
		return op.Pixels()
	}
	return 1
}

// difference is between a variant's result and the first variant's.
type difference struct {
	worst     float64 // the largest distance
	at        int     // where it is; -1: nowhere
	got, want float32
	broken    bool // one of the two is not a number there
}

// compareChunk is how many elements a goroutine takes at a time.
const compareChunk = 1 << 16

// chunks calls f for each chunk of n elements, on all cores.
func chunks(n int, f func(chunk, from, to int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	count := (n + compareChunk - 1) / compareChunk
	for range min(count, host.Cores()) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < count; i = int(next.Add(1)) - 1 {
				f(i, i*compareChunk, min((i+1)*compareChunk, n))
			}
		})
	}
	wg.Wait()
}

// bits is an element of one of the floating-point types, as an integer.
type bits interface{ ~uint16 | ~uint32 }

// format says how a type's bits are read. Without the sign, a larger integer is a larger number.
// From inf on it is an infinity or a NaN.
type format[B bits] struct {
	sign, inf B
	float     func(B) float32
}

var (
	formatF16  = format[uint16]{0x8000, 0x7c00, kernels.F16Float}
	formatBF16 = format[uint16]{0x8000, 0x7f80, kernels.BF16Float}
	formatF32  = format[uint32]{0x80000000, 0x7f800000, math.Float32frombits}
)

// view returns a tensor's memory as integers.
func view[B bits](b []byte) []B {
	var one B
	return unsafe.Slice((*B)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(one)))
}

// magnitude returns the largest finite absolute value in b, of type t.
func magnitude(b []byte, t kernels.Type) float64 {
	switch t {
	case kernels.F16:
		return largest(view[uint16](b), formatF16)
	case kernels.BF16:
		return largest(view[uint16](b), formatBF16)
	}
	return largest(view[uint32](b), formatF32)
}

func largest[B bits](v []B, f format[B]) float64 {
	parts := make([]B, (len(v)+compareChunk-1)/compareChunk)
	chunks(len(v), func(i, from, to int) {
		var most B
		for _, x := range v[from:to] {
			if x &^= f.sign; x > most && x < f.inf {
				most = x
			}
		}
		parts[i] = most
	})
	if len(parts) == 0 {
		return 0
	}
	return float64(f.float(slices.Max(parts)))
}

// compare measures how far got is from want, both of type t. A NaN agrees with any NaN, and an
// infinity with itself.
func compare(got, want []byte, t kernels.Type) difference {
	switch t {
	case kernels.F16:
		return farthest(view[uint16](got), view[uint16](want), formatF16)
	case kernels.BF16:
		return farthest(view[uint16](got), view[uint16](want), formatBF16)
	}
	return farthest(view[uint32](got), view[uint32](want), formatF32)
}

func farthest[B bits](got, want []B, f format[B]) difference {
	parts := make([]difference, (len(want)+compareChunk-1)/compareChunk)
	chunks(len(want), func(i, from, to int) {
		parts[i] = f.compare(got[from:to], want[from:to])
	})
	all := difference{at: -1}
	for i, p := range parts {
		if p.at >= 0 && !all.broken && (p.broken || p.worst > all.worst) {
			p.at += i * compareChunk
			all = p
		}
	}
	return all
}

func (f format[B]) compare(got, want []B) difference {
	d := difference{at: -1}
	for i, wb := range want {
		gb := got[i]
		if gb == wb {
			continue // most are: the same sums in the same order
		}
		g, w := f.float(gb), f.float(wb)
		if g == w || g != g && w != w {
			continue
		}
		far := math.Abs(float64(g) - float64(w))
		broken := math.IsNaN(far) || math.IsInf(far, 0)
		if broken || far > d.worst {
			d = difference{far, i, g, w, broken}
		}
		if broken {
			return d
		}
	}
	return d
}

// within returns an error where d is larger than right variants may differ. scale is the largest
// magnitude of the first variant's result.
func (d difference) within(tol, scale float64) error {
	switch {
	case d.at < 0 || !d.broken && d.worst <= tol*scale:
		return nil
	case d.broken || scale == 0:
		return fmt.Errorf("%v instead of %v at %d", d.got, d.want, d.at)
	}
	return fmt.Errorf("%.3g instead of %.3g at %d, off by %.2g of the largest value where %.2g is allowed",
		d.got, d.want, d.at, d.worst/scale, tol)
}
