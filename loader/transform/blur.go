package transform

import (
	"math"

	"dev.gpustall/loader"
)

// blur is GaussianBlur: kernel_size taps along rows, then along columns, float32 between,
// the image mirrored at its borders without the border itself. Sums are taken from the
// middle outwards, two taps of a weight at a time, and nothing is fused, so that Go, C and
// the device make the same bytes.
type blur struct {
	taps  int // odd
	sigma [2]float64
}

func (t *blur) radius() int               { return t.taps / 2 }
func (t *blur) shape(h, w int) (int, int) { return h, w }

// words are the weights, from the middle outwards.
func (t *blur) words() int { return t.radius() + 1 }

func (t *blur) draw(w, h int, rng *loader.RNG, p []int32) (ow, oh int) {
	sigma := t.sigma[0] + (t.sigma[1]-t.sigma[0])*rng.Float64()
	sum := 0.0
	weight := func(i int) float64 { return math.Exp(-0.5 * (float64(i) / sigma) * (float64(i) / sigma)) }
	for i := range p {
		sum += weight(i)
		if i > 0 {
			sum += weight(i)
		}
	}
	for i := range p {
		p[i] = int32(math.Float32bits(float32(weight(i) / sum)))
	}
	return w, h
}

// mirrored is the pixel of n that stands for the one at i, which may lie outside.
func mirroredAt(i, n int) int {
	for n > 1 && (i < 0 || i >= n) {
		if i < 0 {
			i = -i
		} else {
			i = 2*n - 2 - i
		}
	}
	if n == 1 {
		return 0
	}
	return i
}

func (t *blur) apply(z *scratch, in *image, p []int32, dst []byte, w, h int) {
	r, n := t.radius(), 3*w
	z.weights = grow(z.weights, r+1)
	for i := range z.weights {
		z.weights[i] = math.Float32frombits(uint32(p[i]))
	}
	// Of some floats more than are used C computes sums, too.
	z.line = grow(z.line, n+6*r+blurBlock)
	z.rows32 = grow(z.rows32, h*n+blurBlock)
	for y := range h {
		px := in.row(0, y, w)
		for i, v := range px {
			z.line[3*r+i] = float32(v)
		}
		for x := 1; x <= r; x++ {
			a, b := mirroredAt(-x, w), mirroredAt(w-1+x, w)
			for c := range 3 {
				z.line[3*(r-x)+c] = float32(px[3*a+c])
				z.line[3*(r+w-1+x)+c] = float32(px[3*b+c])
			}
		}
		z.blurRow(n, z.rows32[y*n:])
	}
	z.lines = grow(z.lines, 2*r+1)
	for y := range h {
		for k := -r; k <= r; k++ {
			z.lines[r+k] = int32(mirroredAt(y+k, h) * n)
		}
		z.blurColumns(n, dst[y*n:(y+1)*n])
	}
}

// blurBlock is how many floats C sums at a time.
const blurBlock = 32

// blurRow writes the sums along line.
func (z *scratch) blurRow(n int, out []float32) {
	if native {
		z.nativeBlurRow(n, out)
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

// blurColumns writes a row of bytes, of the rows that begin at lines.
func (z *scratch) blurColumns(n int, dst []byte) {
	if native {
		z.nativeBlurColumns(n, dst)
		return
	}
	r := len(z.weights) - 1
	z.line = grow(z.line, n)
	sum, middle := z.line[:n], z.rows32[z.lines[r]:][:n]
	for x := range sum {
		sum[x] = z.weights[0] * middle[x]
	}
	for k := 1; k <= r; k++ {
		w, a, b := z.weights[k], z.rows32[z.lines[r-k]:][:n], z.rows32[z.lines[r+k]:][:n]
		for x := range sum {
			sum[x] += float32(w * (a[x] + b[x]))
		}
	}
	for x, v := range sum {
		dst[x] = byte(v + 0.5)
	}
}
