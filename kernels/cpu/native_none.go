//go:build !cgo

package cpu

import "dev.gpustall/kernels"

const native = false

func best() variant { return pureGo }

func (v variant) panel() int { return goPanel }

func (v variant) gemmNN(count, m, n, k int, a []float32, lda, sa int, b []float32, sb int, c []float32, ldc, sc int, bias []float32, flags int) {
	goGemmNN(count, m, n, k, a, lda, sa, b, sb, c, ldc, sc, bias, flags)
}

func (v variant) gemmTN(m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, flags int) {
	goGemmTN(m, n, k, a, lda, b, ldb, c, ldc, flags)
}

func (v variant) pack(n, k int, b []float32, ldb int, transposed bool, first, end int, out []float32, step int) {
	goPack(n, k, b, ldb, transposed, first, end, out, step)
}

func (v variant) strips(m int) int { return m }

func (v variant) packStrips(int, int, []float32, int, int, int, []float32) {}

func (v variant) gemmStrips(int, int, int, []float32, []float32, int, int, []float32, int, int) {}

func (v variant) gemmRows(int, int, int, []float32, []float32, []float32, int, int) {}

func (v variant) gather(g *window, x []float32, first, end int, out []float32, ld int) {
	goGather(g, x, first, end, out, ld)
}

func (v variant) widen(from []uint16, to []float32)  { goWiden(from, to) }
func (v variant) narrow(from []float32, to []uint16) { goNarrow(from, to) }

func add(_ variant, a, b, y []float32, _ int) {
	for i := range y {
		y[i] = a[i] + b[i]
	}
}

func addColumns(_ variant, x []float32, c int, sums []float64) { goAddColumns(x, c, sums) }

func (pl *Plan) bindNative(Call) func() { return nil }

// Minimal filtering needs the C kernels. Nothing calls these, since winograd returns false.
func (pl convolutions) winoConv(kernels.Conv, bool, []float32, []float32, []float32, []float32, int) func() {
	return nil
}
func (pl convolutions) winoWeight(kernels.Conv, []float32, []float32, []float32, []float32) func() {
	return nil
}

// The way for few channels needs them too.
func (pl convolutions) narrow(kernels.Conv) bool { return false }
func (pl convolutions) narrowForward(kernels.Conv, []float32, []float32, []float32, []float32, int) func() {
	return nil
}
func (pl convolutions) narrowWeight(kernels.Conv, []float32, []float32, []float32, []float32) func() {
	return nil
}
