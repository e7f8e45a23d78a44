package cpu

// The matrix kernels in plain Go: what native.h describes, for builds without cgo.

const goPanel = 8

func goGemmNN(count, m, n, k int, a []float32, lda, sa int, b []float32, sb int, c []float32, ldc, sc int, bias []float32, flags int) {
	for i := range count {
		for j := 0; j < n; j += goPanel {
			panel := b[i*sb+j*k : i*sb+(j+goPanel)*k]
			for r := range m {
				row := a[i*sa+r*lda : i*sa+r*lda+k]
				out := c[i*sc+r*ldc+j : i*sc+r*ldc+min(j+goPanel, n)]
				goRow(row, panel, out, bias, j, flags)
			}
		}
	}
}

// goRow computes one row of one panel. Eight sums in eight variables stay in
// registers.
func goRow(a, b, c, bias []float32, j, flags int) {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for _, x := range a {
		r := b[:goPanel:goPanel]
		s0 += x * r[0]
		s1 += x * r[1]
		s2 += x * r[2]
		s3 += x * r[3]
		s4 += x * r[4]
		s5 += x * r[5]
		s6 += x * r[6]
		s7 += x * r[7]
		b = b[goPanel:]
	}
	sums := [goPanel]float32{s0, s1, s2, s3, s4, s5, s6, s7}
	for i := range c {
		v := sums[i]
		if bias != nil {
			v += bias[j+i]
		}
		if flags&accumulate != 0 {
			v += c[i]
		}
		if flags&relu != 0 && v < 0 {
			v = 0
		}
		c[i] = v
	}
}

func goGemmTN(m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc, flags int) {
	for i := range m {
		row := c[i*ldc : i*ldc+n]
		if flags&accumulate == 0 {
			clear(row)
		}
		for p := range k {
			x := a[p*lda+i]
			for j, y := range b[p*ldb : p*ldb+n] {
				row[j] += x * y
			}
		}
	}
}

func goPack(n, k int, b []float32, ldb int, transposed bool, first, end int, out []float32, step int) {
	for j := first; j < end; j++ {
		o := out[j*step : j*step+k*goPanel]
		for p := range k {
			for i := range goPanel {
				col := j*goPanel + i
				switch {
				case col >= n:
					o[p*goPanel+i] = 0
				case transposed:
					o[p*goPanel+i] = b[col*ldb+p]
				default:
					o[p*goPanel+i] = b[p*ldb+col]
				}
			}
		}
	}
}

func goGather(g *window, x []float32, first, end int, out []float32, ld int) {
	for p := first; p < end; p++ {
		o := out[(p-first)*ld:]
		n, i, j := p/(g.ow*g.oh), p/g.ow%g.oh, p%g.ow
		for r := range g.r {
			for s := range g.s {
				h, w := i*g.stride+g.dr+r-g.pad, j*g.stride+g.ds+s-g.pad
				to := o[(r*g.s+s)*g.c : (r*g.s+s+1)*g.c]
				if h < 0 || h >= g.h || w < 0 || w >= g.w {
					clear(to)
					continue
				}
				copy(to, x[((n*g.h+h)*g.w+w)*g.c:])
			}
		}
	}
}
