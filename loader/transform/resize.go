package transform

import (
	"encoding/binary"

	"dev.gpustall/loader"
)

// rect is a rectangle of pixels.
type rect struct{ x, y, w, h int }

// resizer is the scratch of one resize; its slices are reused.
type resizer struct {
	cols, rows taps
	mid        []byte // the crop's rows, resized horizontally
	last       []byte // the image's last row, with room to read on
	out        []byte
}

// halves are the two halves of a word, a byte in each: the sums of a filter need 30
// bits, so that one multiplication does for two bytes. The loops below read 4 or 8
// bytes at a time and spread them over such words.
const halves = 0x000000ff_000000ff

// half rounds both halves.
const half = 1<<(weightBits-1) | 1<<(weightBits-1+32)

// wide is the number of taps up to which rounding of the weights cannot carry a sum
// of bytes to 256: each is off by half at the most.
const wide = 1 << (weightBits - 8)

// resize cuts c out of the RGB image s, resizes it to w x h, and writes the
// window of the result to dst: first along rows, then along columns, rounding to
// bytes after each.
func (z *resizer) resize(s *loader.Sample, c rect, w, h int, window rect, dst []byte) {
	z.cols.set(c.w, w, window.x, window.w)
	z.rows.set(c.h, h, window.y, window.h)
	// Only the rows that the second pass reads.
	top, bottom := z.rows.span()
	stride := window.w * 3
	z.mid = grow(z.mid, (bottom-top)*stride)
	for r := top; r < bottom; r += 2 {
		q := min(r+1, bottom-1) // the last one may be alone
		z.horizontal(z.mid[(r-top)*stride:(r-top+1)*stride], z.mid[(q-top)*stride:(q-top+1)*stride],
			z.source(s, c, r), z.source(s, c, q))
	}
	for i := range window.h {
		z.vertical(dst[i*stride:(i+1)*stride], i, top, stride)
	}
}

// source returns row r of the crop, and one byte more to be read with its last pixel.
func (z *resizer) source(s *loader.Sample, c rect, r int) []byte {
	at := ((c.y+r)*s.W + c.x) * 3
	end := at + c.w*3
	if end < len(s.Pixels) {
		return s.Pixels[at : end+1]
	}
	z.last = append(append(z.last[:0], s.Pixels[at:end]...), 0)
	return z.last
}

// horizontal resizes two rows, whose pixels share the words: red of both, green of
// both, blue of both.
func (z *resizer) horizontal(out, out2, in, in2 []byte) {
	t := &z.cols
	if t.size > wide {
		t.plain(out, in)
		t.plain(out2, in2)
		return
	}
	for i, lo := range t.first {
		r, g, b := uint64(half), uint64(half), uint64(half)
		at := 3 * lo
		for _, w := range t.weight[i*t.size : i*t.size+t.width[i]] {
			v := uint64(binary.LittleEndian.Uint32(in[at:])) | uint64(binary.LittleEndian.Uint32(in2[at:]))<<32
			r += v & halves * uint64(w)
			g += v >> 8 & halves * uint64(w)
			b += v >> 16 & halves * uint64(w)
			at += 3
		}
		v := r>>weightBits&halves | g>>weightBits&halves<<8 | b>>weightBits&halves<<16
		o, o2 := out[3*i:3*i+3:3*i+3], out2[3*i:3*i+3:3*i+3]
		o[0], o[1], o[2] = byte(v), byte(v>>8), byte(v>>16)
		o2[0], o2[1], o2[2] = byte(v>>32), byte(v>>40), byte(v>>48)
	}
}

// plain is horizontal for one row and any number of taps.
func (t *taps) plain(out, in []byte) {
	for i, lo := range t.first {
		for c := range 3 {
			sum := int32(1) << (weightBits - 1)
			for k, w := range t.weight[i*t.size : i*t.size+t.width[i]] {
				sum += int32(in[(lo+k)*3+c]) * w
			}
			out[3*i+c] = clip(sum)
		}
	}
}

// vertical makes row i of the result of rows of mid, eight bytes at a time.
func (z *resizer) vertical(dst []byte, i, top, stride int) {
	t := &z.rows
	weights := t.weight[i*t.size : i*t.size+t.width[i]]
	from := (t.first[i] - top) * stride
	x := 0
	if t.size <= wide {
		for ; x+8 <= stride; x += 8 {
			a, b, c, d := uint64(half), uint64(half), uint64(half), uint64(half)
			at := from + x
			for _, w := range weights {
				v := binary.LittleEndian.Uint64(z.mid[at:])
				a += v & halves * uint64(w)
				b += v >> 8 & halves * uint64(w)
				c += v >> 16 & halves * uint64(w)
				d += v >> 24 & halves * uint64(w)
				at += stride
			}
			binary.LittleEndian.PutUint64(dst[x:], a>>weightBits&halves|b>>weightBits&halves<<8|
				c>>weightBits&halves<<16|d>>weightBits&halves<<24)
		}
	}
	for ; x < stride; x++ {
		sum := int32(1) << (weightBits - 1)
		for k, w := range weights {
			sum += int32(z.mid[from+k*stride+x]) * w
		}
		dst[x] = clip(sum)
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
