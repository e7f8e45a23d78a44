package pixels

import (
	"math"
	"slices"

	"dev.gpustall/kernels"
)

// Blur blurs images along rows, then along columns, with float32 in between. It holds the scratch memory
// of one blur at a time. Beyond its borders the image is mirrored, without repeating the border. Sums go
// from the middle outwards, the two taps of a weight at a time, without fused multiply-adds. So Go, C and
// every device make the same bytes.
type Blur struct {
	weights []float32
	line    []float32 // a row, extended beyond the borders
	rows    []float32 // the sums along all rows
	lines   []int32   // where the rows begin that a row of the result is made of
}

// Image blurs x, of w x h pixels, into y. Its numbers p are those of kernels.Blur.
func (z *Blur) Image(w, h int, p []int32, x, y []byte) {
	r, n := len(p)-1, 3*w
	z.weights = sized(z.weights, r+1)
	for i := range z.weights {
		z.weights[i] = math.Float32frombits(uint32(p[i]))
	}
	// C computes some sums more than are used.
	z.line = sized(z.line, n+6*r+block)
	z.rows = sized(z.rows, h*n+block)
	for i := range h {
		px := x[i*n : (i+1)*n]
		for j, v := range px {
			z.line[3*r+j] = float32(v)
		}
		for j := 1; j <= r; j++ {
			a, b := kernels.Mirror(-j, w), kernels.Mirror(w-1+j, w)
			for c := range 3 {
				z.line[3*(r-j)+c] = float32(px[3*a+c])
				z.line[3*(r+w-1+j)+c] = float32(px[3*b+c])
			}
		}
		z.row(n, z.rows[i*n:])
	}
	z.lines = sized(z.lines, 2*r+1)
	for i := range h {
		for k := -r; k <= r; k++ {
			z.lines[r+k] = int32(kernels.Mirror(i+k, h) * n)
		}
		z.columns(n, y[i*n:(i+1)*n])
	}
}

// sized returns s with n elements, of any content.
func sized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// block is how many floats C sums at a time.
const block = 32

// row writes the sums along line.
func (z *Blur) row(n int, out []float32) {
	if native {
		z.nativeRow(n, out)
		return
	}
	r := len(z.weights) - 1
	out = out[:n]
	middle := z.line[3*r:]
	for x := range out {
		out[x] = z.weights[0] * middle[x]
	}
	for k := 1; k <= r; k++ {
		w, a, b := z.weights[k], z.line[3*(r-k):][:n], z.line[3*(r+k):][:n]
		for x := range out {
			out[x] += float32(w * (a[x] + b[x]))
		}
	}
}

// columns writes a row of bytes, of the rows that begin at lines.
func (z *Blur) columns(n int, dst []byte) {
	if native {
		z.nativeColumns(n, dst)
		return
	}
	r := len(z.weights) - 1
	z.line = sized(z.line, n)
	sum, middle := z.line[:n], z.rows[z.lines[r]:][:n]
	for x := range sum {
		sum[x] = z.weights[0] * middle[x]
	}
	for k := 1; k <= r; k++ {
		w, a, b := z.weights[k], z.rows[z.lines[r-k]:][:n], z.rows[z.lines[r+k]:][:n]
		for x := range sum {
			sum[x] += float32(w * (a[x] + b[x]))
		}
	}
	for x, v := range sum {
		dst[x] = byte(v + 0.5)
	}
}
