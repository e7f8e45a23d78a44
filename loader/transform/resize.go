package transform

import (
	"math"

	"dev.gpustall/loader"
)

// rect is a rectangle of pixels.
type rect struct{ x, y, w, h int }

// weightBits is the fixed-point precision of the filter's weights. With bytes and
// weights that sum to one, sums stay below 2^30.
const weightBits = 22

// resizer is the scratch of one resize; its slices are reused.
type resizer struct {
	cols, rows taps
	mid        []byte  // the crop's rows, resized horizontally
	acc        []int32 // one row of sums
	out        []byte
}

// taps is a one-dimensional resampling filter: output i is the sum of width[i]
// inputs from first[i] on, weighted by weight[i*size:].
type taps struct {
	size         int
	first, width []int
	weight       []int32
	real         []float64
}

// set computes the triangle filter that resamples in positions to outs ones, for
// the outputs [from,from+n). The filter is as wide as an output pixel, or an
// input pixel when that is wider: that is the antialiasing. See P. Heckbert,
// "Fundamentals of Texture Mapping and Image Warping", 1989, section 3.5.
func (t *taps) set(in, outs, from, n int) {
	scale := float64(in) / float64(outs)
	support := max(scale, 1)
	t.size = int(math.Ceil(support))*2 + 1
	t.first, t.width = grow(t.first, n), grow(t.width, n)
	t.weight, t.real = grow(t.weight, n*t.size), grow(t.real, t.size)
	for i := range n {
		centre := float64((float64(from+i) + 0.5) * scale) // the conversions forbid fused rounding
		lo := max(int(centre-support+0.5), 0)
		hi := min(int(centre+support+0.5), in)
		sum := 0.0
		for k := lo; k < hi; k++ {
			w := max(1-math.Abs(float64((float64(k)-centre+0.5)*(1/support))), 0)
			t.real[k-lo] = w
			sum += w
		}
		t.first[i], t.width[i] = lo, hi-lo
		for k := range hi - lo {
			w := t.real[k]
			if sum != 0 {
				w /= sum
			}
			t.weight[i*t.size+k] = int32(float64(w*(1<<weightBits)) + 0.5)
		}
	}
}

// resize cuts c out of the RGB image s, resizes it to w x h, and writes the
// window of the result to dst: first along rows, then along columns, rounding to
// bytes after each.
func (z *resizer) resize(s *loader.Sample, c rect, w, h int, window rect, dst []byte) {
	z.cols.set(c.w, w, window.x, window.w)
	z.rows.set(c.h, h, window.y, window.h)
	// Only the rows that the second pass reads.
	top := z.rows.first[0]
	bottom := z.rows.first[window.h-1] + z.rows.width[window.h-1]
	stride := window.w * 3
	z.mid = grow(z.mid, (bottom-top)*stride)
	for r := top; r < bottom; r++ {
		at := ((c.y+r)*s.W + c.x) * 3
		z.horizontal(z.mid[(r-top)*stride:(r-top+1)*stride], s.Pixels[at:at+c.w*3])
	}
	z.acc = grow(z.acc, stride)
	for i := range window.h {
		z.vertical(dst[i*stride:(i+1)*stride], i, top, stride)
	}
}

func (z *resizer) horizontal(dst, src []byte) {
	t := &z.cols
	for i, lo := range t.first {
		r, g, b := int32(1)<<(weightBits-1), int32(1)<<(weightBits-1), int32(1)<<(weightBits-1)
		in := src[lo*3 : (lo+t.width[i])*3]
		for _, w := range t.weight[i*t.size : i*t.size+t.width[i]] {
			if len(in) < 3 {
				break
			}
			r += int32(in[0]) * w
			g += int32(in[1]) * w
			b += int32(in[2]) * w
			in = in[3:]
		}
		d := dst[i*3 : i*3+3 : i*3+3]
		d[0], d[1], d[2] = clip(r), clip(g), clip(b)
	}
}

func (z *resizer) vertical(dst []byte, i, top, stride int) {
	t := &z.rows
	acc := z.acc[:len(dst)]
	for k := range acc {
		acc[k] = 1 << (weightBits - 1)
	}
	for k, w := range t.weight[i*t.size : i*t.size+t.width[i]] {
		if w == 0 {
			continue
		}
		at := (t.first[i] + k - top) * stride
		in := z.mid[at : at+stride][:len(acc)]
		for x := range acc {
			acc[x] += int32(in[x]) * w
		}
	}
	for x, v := range acc {
		dst[x] = clip(v)
	}
}

// clip rounds down to a byte. Weights are not negative, so that sums are not
// either; rounding of the weights may carry them past 255.
func clip(v int32) byte { return byte(min(v>>weightBits, 255)) }

// grow returns s with n elements, of any content.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
