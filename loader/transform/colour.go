package transform

import (
	"math"

	"dev.gpustall/loader"
)

// Colour operations, as they are written down for whoever carries them out: a number that
// says which, and one that says how much. What each does is Pillow's, in integers but for
// the float32 of a blend.
const (
	colourNone         = iota
	colourBrightness   // factor, float32
	colourContrast     // factor, float32
	colourSaturation   // factor, float32
	colourHue          // shift of 0 to 255
	colourPosterize    // bits that stay
	colourSolarize     // threshold, float32: from there on inverted
	colourAutoContrast //
	colourEqualize     //
	colourSharpness    // factor, float32
	colourAffine       // six coefficients follow
)

// colourWords are four operations, or an affine one with its coefficients.
const colourWords = 8

// colours is a step that changes colours pixel by pixel or by an affine map, without a
// change of size.
type colours struct {
	decide func(w, h int, rng *loader.RNG, p []int32)
}

func (t *colours) shape(h, w int) (int, int) { return h, w }
func (t *colours) words() int                { return colourWords }

func (t *colours) draw(w, h int, rng *loader.RNG, p []int32) (ow, oh int) {
	clear(p)
	t.decide(w, h, rng, p)
	return w, h
}

func bits(f float64) int32 { return int32(math.Float32bits(float32(f))) }

// jitter is ColorJitter: what of each is set, in random order.
func jitter(of [4]*[2]float64) *colours {
	return &colours{func(_, _ int, rng *loader.RNG, p []int32) {
		order := [4]int{0, 1, 2, 3}
		for i := 3; i > 0; i-- {
			j := rng.IntN(i + 1)
			order[i], order[j] = order[j], order[i]
		}
		var by [4]float64
		for i, b := range of {
			if b != nil {
				by[i] = b[0] + (b[1]-b[0])*rng.Float64()
			}
		}
		for at, i := range order {
			if of[i] == nil {
				continue
			}
			p[2*at], p[2*at+1] = int32(colourBrightness+i), bits(by[i])
			if i == 3 {
				p[2*at+1] = int32(uint8(int32(by[i] * 255)))
			}
		}
	}}
}

func (t *colours) apply(z *scratch, in *image, p []int32, dst []byte, w, h int) {
	for y := range h {
		copy(dst[y*w*3:(y+1)*w*3], in.row(0, y, w))
	}
	dst = dst[:3*w*h]
	for i := 0; i < colourWords && p[i] != colourAffine; i += 2 {
		f := math.Float32frombits(uint32(p[i+1]))
		switch p[i] {
		case colourSaturation:
			for at := 0; at+3 <= len(dst); at += 3 {
				px := dst[at : at+3 : at+3]
				l := luma(px)
				px[0], px[1], px[2] = blend(l, int32(px[0]), f), blend(l, int32(px[1]), f), blend(l, int32(px[2]), f)
			}
		case colourHue:
			for at := 0; at+3 <= len(dst); at += 3 {
				turn(dst[at:at+3:at+3], p[i+1])
			}
		case colourSharpness:
			sharpen(in, f, dst, w, h)
		default:
			if z.lookUp(p[i], p[i+1], dst) {
				look(dst, &z.table)
			}
		}
	}
	if p[0] == colourAffine {
		affine(in, p[2:8], dst, w, h)
	}
}

// luma is Pillow's conversion to grey.
func luma(px []byte) int32 {
	return (int32(px[0])*19595 + int32(px[1])*38470 + int32(px[2])*7471 + 1<<15) >> 16
}

// blend goes from one value towards another, or beyond it.
func blend(from, to int32, f float32) byte {
	v := float32(from) + float32(f*float32(to-from))
	return byte(min(max(v, 0), 255))
}

// look puts all values through a table for each channel.
func look(px []byte, table *[3][256]byte) {
	r, g, b := &table[0], &table[1], &table[2]
	for len(px) >= 3 {
		px[0], px[1], px[2] = r[px[0]], g[px[1]], b[px[2]]
		px = px[3:]
	}
}

// lookUp makes the table of an operation; false where it changes nothing.
func (z *scratch) lookUp(what, by int32, px []byte) bool {
	f := math.Float32frombits(uint32(by))
	one := func(of func(v int32) byte) {
		for v := range 256 {
			z.table[0][v] = of(int32(v))
		}
		z.table[1], z.table[2] = z.table[0], z.table[0]
	}
	switch what {
	case colourBrightness:
		one(func(v int32) byte { return blend(0, v, f) })
	case colourContrast:
		grey := mean(px)
		one(func(v int32) byte { return blend(grey, v, f) })
	case colourPosterize:
		one(func(v int32) byte { return byte(v & ^(1<<(8-by) - 1)) })
	case colourSolarize:
		one(func(v int32) byte {
			if float32(v) < f {
				return byte(v)
			}
			return byte(255 - v)
		})
	case colourAutoContrast, colourEqualize:
		count := histogram(px)
		for c := range 3 {
			if what == colourEqualize {
				equalize(&z.table[c], &count[c])
			} else {
				stretch(&z.table[c], &count[c])
			}
		}
	default:
		return false
	}
	return true
}

// mean is that of the image in grey, rounded.
func mean(px []byte) int32 {
	sum, n := int64(0), int64(len(px)/3)
	for at := 0; at+3 <= len(px); at += 3 {
		sum += int64(luma(px[at : at+3]))
	}
	return int32((2*sum + n) / (2 * n))
}

func histogram(px []byte) (count [3][256]int32) {
	for len(px) >= 3 {
		count[0][px[0]]++
		count[1][px[1]]++
		count[2][px[2]]++
		px = px[3:]
	}
	return count
}

// equalize is ImageOps.equalize.
func equalize(table *[256]byte, count *[256]int32) {
	all, last := int32(0), int32(0)
	for _, n := range count {
		if all += n; n > 0 {
			last = n
		}
	}
	each := (all - last) / 255
	n := each / 2
	for v := range table {
		if each == 0 {
			table[v] = byte(v)
			continue
		}
		table[v] = byte(min(n/each, 255))
		n += count[v]
	}
}

// stretch is ImageOps.autocontrast.
func stretch(table *[256]byte, count *[256]int32) {
	lo, hi := int32(0), int32(255)
	for lo < 255 && count[lo] == 0 {
		lo++
	}
	for hi > 0 && count[hi] == 0 {
		hi--
	}
	for v := range table {
		table[v] = byte(v)
		if hi > lo {
			table[v] = byte(min(max(int32(v)-lo, 0)*255/(hi-lo), 255))
		}
	}
}

// turn shifts the hue, by way of Pillow's HSV, in integers: there and back each number is
// what Pillow's floats come to, but for their rounding.
func turn(px []byte, by int32) {
	r, g, b := int32(px[0]), int32(px[1]), int32(px[2])
	most, least := max(r, g, b), min(r, g, b)
	if most == least {
		return
	}
	d := most - least
	var at int32 // the hue, in sixths of d
	switch most {
	case r:
		at = g - b
	case g:
		at = 2*d + b - r
	default:
		at = 4*d + r - g
	}
	if at < 0 {
		at += 6 * d
	}
	h := (255*at/(6*d) + by) & 255
	s := 255 * d / most
	sixth, f := 6*h/255, 6*h%255
	p := byte((2*most*(255-s) + 255) / 510)
	q := byte((2*most*(65025-s*f) + 65025) / 130050)
	t := byte((2*most*(65025-s*(255-f)) + 65025) / 130050)
	v := byte(most)
	switch sixth % 6 {
	case 0:
		px[0], px[1], px[2] = v, t, p
	case 1:
		px[0], px[1], px[2] = q, v, p
	case 2:
		px[0], px[1], px[2] = p, v, t
	case 3:
		px[0], px[1], px[2] = p, q, v
	case 4:
		px[0], px[1], px[2] = t, p, v
	default:
		px[0], px[1], px[2] = v, p, q
	}
}

// sharpen goes from the image smoothed towards the image, or beyond it. Its border stays.
func sharpen(in *image, f float32, dst []byte, w, h int) {
	n := 3 * w
	for y := 1; y < h-1; y++ {
		a, b, c := in.row(0, y-1, w), in.row(0, y, w), in.row(0, y+1, w)
		out := dst[y*n : (y+1)*n]
		for x := 3; x < n-3; x++ {
			sum := int32(a[x-3]) + int32(a[x]) + int32(a[x+3]) + int32(b[x-3]) + 5*int32(b[x]) + int32(b[x+3]) +
				int32(c[x-3]) + int32(c[x]) + int32(c[x+3])
			out[x] = blend((2*sum+13)/26, int32(b[x]), f)
		}
	}
}

// affine looks each pixel up in the image, the nearest one, at coordinates in 65536ths;
// what lies outside is zero.
func affine(in *image, a []int32, dst []byte, w, h int) {
	at := 0
	for y := range int32(h) {
		x0, y0 := a[2]+y*a[1], a[5]+y*a[4]
		for range w {
			x, y := int(x0>>16), int(y0>>16)
			out := dst[at : at+3 : at+3]
			if uint(x) < uint(w) && uint(y) < uint(h) {
				i := (y*w + x) * 3
				px := in.pix[i : i+3 : i+3]
				out[0], out[1], out[2] = px[0], px[1], px[2]
			} else {
				out[0], out[1], out[2] = 0, 0, 0
			}
			at += 3
			x0 += a[0]
			y0 += a[3]
		}
	}
}
