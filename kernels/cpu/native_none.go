//go:build !cgo

package cpu

const native = false

func best() variant       { return pureGo }
func variants() []variant { return []variant{pureGo} }

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

func (v variant) gather(g *window, x []float32, first, end int, out []float32, ld int) {
	goGather(g, x, first, end, out, ld)
}

// The plan takes Winograd's way with native kernels only.
func (v variant) winoInput(*grid, int, int, int, []float32, []float32)                  {}
func (v variant) winoSpread(*grid, int, int, int, []float32, []float32)                 {}
func (v variant) winoOutput(*grid, int, int, int, []float32, []float32, []float32, int) {}
func (v variant) winoFilter(bool, int, int, int, int, int, []float32, []float32)        {}
func (v variant) winoGather(int, int, int, int, []float32, []float32)                   {}
