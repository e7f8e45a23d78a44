package cuda

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"sync"

	"dev.gpustall/kernels"
)

// tolerance is how far the results of two right variants of op may lie apart in
// argument a, as a share of the largest value. There are three sources:
//
//   - Each rounds its result to a's type: at most one unit in the last place each.
//   - Both sum the same products in float32, in orders of their own. Summing k of
//     them, whose partial sums grow as sqrt(k), errs by about 2^-24 sqrt(k) of the
//     result where each addition rounds to nearest; the tensor cores truncate,
//     which errs to one side and so in proportion to the k/16 additions of an
//     instruction's depth. The bound is some times both.
//   - tf32 operands are float32 numbers, rounded to 10 bits by one variant and cut
//     off by another.
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

// depth is the number of products in each of op's sums.
func depth(op kernels.Op) int {
	switch op := op.(type) {
	case kernels.ConvForward:
		return op.R * op.S * op.C
	case kernels.ConvBackwardData:
		return op.R * op.S * op.K
	case kernels.ConvBackwardWeight:
		return op.N * op.OutH() * op.OutW()
	}
	return 1
}

// difference is between a variant's result and the first variant's.
type difference struct {
	worst     float64 // the largest distance
	scale     float64 // the largest magnitude of the first variant's result
	at        int     // where it is; -1: nowhere
	got, want float32
	broken    bool // only one of the two is a number there
}

// compareChunk is how many elements a goroutine takes at a time.
const compareChunk = 1 << 16

// compare measures how far got is from want, both of type t. A NaN agrees with a
// NaN alone and an infinity with itself.
func compare(got, want []byte, t kernels.Type) difference {
	all := difference{at: -1}
	if bytes.Equal(got, want) {
		return all
	}
	size := compareChunk * t.Size()
	chunks := (len(want) + size - 1) / size
	parts := make([]difference, chunks)
	var wg sync.WaitGroup
	next := make(chan int, chunks)
	for i := range chunks {
		next <- i
	}
	close(next)
	for range min(chunks, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				from, to := i*size, min((i+1)*size, len(want))
				parts[i] = compareFloats(kernels.Load(got[from:to], t), kernels.Load(want[from:to], t))
			}
		})
	}
	wg.Wait()
	for i, p := range parts {
		all.scale = max(all.scale, p.scale)
		if p.at >= 0 && !all.broken && (p.broken || p.worst > all.worst) {
			all.worst, all.at, all.got, all.want, all.broken = p.worst, i*compareChunk+p.at, p.got, p.want, p.broken
		}
	}
	return all
}

func compareFloats(got, want []float32) difference {
	d := difference{at: -1}
	for i, w := range want {
		if x := math.Abs(float64(w)); x > d.scale && !math.IsInf(x, 0) {
			d.scale = x
		}
		g := got[i]
		if g == w || g != g && w != w || d.broken {
			continue
		}
		far := math.Abs(float64(g) - float64(w))
		d.broken = math.IsNaN(far) || math.IsInf(far, 0)
		if d.broken || far > d.worst {
			d.worst, d.at, d.got, d.want = far, i, g, w
		}
	}
	return d
}

// within is nil when d is a difference that right variants may have.
func (d difference) within(tol float64) error {
	switch {
	case d.at < 0 || !d.broken && d.worst <= tol*d.scale:
		return nil
	case d.broken || d.scale == 0:
		return fmt.Errorf("%v instead of %v at %d", d.got, d.want, d.at)
	}
	return fmt.Errorf("%.3g instead of %.3g at %d, off by %.2g of the largest value where %.2g is allowed",
		d.got, d.want, d.at, d.worst/d.scale, tol)
}
