package pixels

import (
	"math"

	"dev.gpustall/kernels"
)

// Colours changes the colours of images. It holds the scratch memory of one image at a time.
type Colours struct{ table [3][256]byte }

// Image makes y of x, both of w x h pixels. Its numbers p are those of kernels.Colours.
func (z *Colours) Image(w, h int, p []int32, x, y []byte) {
	x, y = x[:3*w*h], y[:3*w*h]
	if p[0] == kernels.ColourAffine {
		affine(x, p[2:8], y, w, h)
		return
	}
	copy(y, x)
	for i := 0; i < kernels.ColourWords; i += 2 {
		f := math.Float32frombits(uint32(p[i+1]))
		switch p[i] {
		case kernels.ColourSaturation:
			for at := 0; at+3 <= len(y); at += 3 {
				px := y[at : at+3 : at+3]
				l := kernels.Luma(px)
				px[0], px[1], px[2] = kernels.Blend(l, int32(px[0]), f), kernels.Blend(l, int32(px[1]), f), kernels.Blend(l, int32(px[2]), f)
			}
		case kernels.ColourHue:
			for at := 0; at+3 <= len(y); at += 3 {
				kernels.TurnHue(y[at:at+3:at+3], p[i+1])
			}
		case kernels.ColourSharpness:
			sharpen(x, f, y, w, h)
		default:
			if z.lookUp(p[i], p[i+1], y) {
				look(y, &z.table)
			}
		}
	}
}

// look replaces all values by a table for each channel.
func look(px []byte, table *[3][256]byte) {
	r, g, b := &table[0], &table[1], &table[2]
	for len(px) >= 3 {
		px[0], px[1], px[2] = r[px[0]], g[px[1]], b[px[2]]
		px = px[3:]
	}
}

// lookUp makes the table of an operation. It returns false where the operation changes nothing.
func (z *Colours) lookUp(what, by int32, px []byte) bool {
	f := math.Float32frombits(uint32(by))
	one := func(of func(v int32) byte) {
		for v := range 256 {
			z.table[0][v] = of(int32(v))
		}
		z.table[1], z.table[2] = z.table[0], z.table[0]
	}
	switch what {
	case kernels.ColourBrightness:
		one(func(v int32) byte { return kernels.Blend(0, v, f) })
	case kernels.ColourContrast:
		grey := mean(px)
		one(func(v int32) byte { return kernels.Blend(grey, v, f) })
	case kernels.ColourPosterize:
		one(func(v int32) byte { return byte(v & ^(1<<(8-by) - 1)) })
	case kernels.ColourSolarize:
		one(func(v int32) byte {
			if float32(v) < f {
				return byte(v)
			}
			return byte(255 - v)
		})
	case kernels.ColourAutoContrast, kernels.ColourEqualize:
		count := histogram(px)
		for c := range 3 {
			if what == kernels.ColourEqualize {
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

// mean returns the rounded mean of the image in grey.
func mean(px []byte) int32 {
	sum, n := int64(0), int64(len(px)/3)
	for at := 0; at+3 <= len(px); at += 3 {
		sum += int64(kernels.Luma(px[at : at+3]))
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

// sharpen goes from the smoothed image towards the image, or beyond it. The border is not changed.
func sharpen(in []byte, f float32, dst []byte, w, h int) {
	n := 3 * w
	for y := 1; y < h-1; y++ {
		a, b, c := in[(y-1)*n:y*n], in[y*n:(y+1)*n], in[(y+1)*n:(y+2)*n]
		out := dst[y*n : (y+1)*n]
		for x := 3; x < n-3; x++ {
			sum := int32(a[x-3]) + int32(a[x]) + int32(a[x+3]) + int32(b[x-3]) + 5*int32(b[x]) + int32(b[x+3]) +
				int32(c[x-3]) + int32(c[x]) + int32(c[x+3])
			out[x] = kernels.Blend((2*sum+13)/26, int32(b[x]), f)
		}
	}
}

// affine takes the nearest pixel of the image for each pixel. Coordinates are in 65536ths; pixels
// outside are zero.
func affine(in []byte, a []int32, dst []byte, w, h int) {
	at := 0
	for y := range int32(h) {
		x0, y0 := a[2]+y*a[1], a[5]+y*a[4]
		for range w {
			x, y := int(x0>>16), int(y0>>16)
			out := dst[at : at+3 : at+3]
			if uint(x) < uint(w) && uint(y) < uint(h) {
				i := (y*w + x) * 3
				px := in[i : i+3 : i+3]
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
