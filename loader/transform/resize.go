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
	top        int    // the first row of the crop that is needed
	mid        []byte // the crop's rows from top on, resized horizontally
	stride     int    // of mid
	last       []byte // the image's last rows, with room to read on
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

// job is what a resize does: c is cut out of the image and resized to w x h, of which
// the window is wanted, mirrored left to right or not.
type job struct {
	c        rect
	w, h     int
	window   rect
	mirrored bool
}

// resize writes the window to dst: first along rows, then along columns, rounding to
// bytes after each.
func (z *resizer) resize(s *loader.Sample, j *job, dst []byte) {
	n := j.window.w * 3
	if z.set(j); z.narrow() {
		z.nativeRows(s, j)
		z.verticalRows(n, dst)
		return
	}
	z.goRows(s, j)
	for i := range j.window.h {
		z.vertical(dst[i*n:(i+1)*n], i)
	}
}

// normalised is resize with its result normalised.
func (z *resizer) normalised(s *loader.Sample, j *job, norm *Norm, dst []float32) {
	n := j.window.w * 3
	if z.set(j); z.narrow() && norm.divides {
		z.nativeRows(s, j)
		z.normalisedRows(n, norm, dst)
		return
	}
	z.goRows(s, j)
	z.out = grow(z.out, n)
	for i := range j.window.h {
		z.vertical(z.out, i)
		norm.row(dst[i*n:(i+1)*n], z.out)
	}
}

// set computes the filters.
func (z *resizer) set(j *job) {
	z.cols.set(j.c.w, j.w, j.window.x, j.window.w)
	z.rows.set(j.c.h, j.h, j.window.y, j.window.h)
}

// narrow reports whether C makes the result: there is some, and the filters are such
// that nothing has to be clipped.
func (z *resizer) narrow() bool { return native && max(z.cols.size, z.rows.size) <= wide }

// ahead is how many bytes C may read past the end of a row, of the image or of mid.
const ahead = 32

// nativeRows is the first pass in C.
func (z *resizer) nativeRows(s *loader.Sample, j *job) {
	z.cols.splitWeights()
	z.rows.splitWeights()
	top, bottom := z.rows.span()
	z.top, z.stride = top, j.window.w*3+ahead
	z.mid = grow(z.mid, (bottom-top)*z.stride+ahead)
	c, stride := j.c, s.W*3
	at := func(r int) int { return ((c.y+r)*s.W + c.x) * 3 } // a row's first byte
	r := top
	if over := at(bottom-1) + c.w*3 + ahead - len(s.Pixels); over <= 0 {
		r = bottom
	} else if over < (bottom-top)*stride {
		r = bottom - (over+stride-1)/stride
	}
	if r > top {
		z.horizontalRows(s.Pixels[at(top):], stride, r-top, j.mirrored, z.mid)
	}
	// The rest is copied to where there is something to read after it.
	for ; r < bottom; r++ {
		z.last = grow(z.last, c.w*3+ahead)
		copy(z.last, s.Pixels[at(r):at(r)+c.w*3])
		z.horizontalRows(z.last, stride, 1, j.mirrored, z.mid[(r-top)*z.stride:])
	}
}

// goRows is the first pass in Go. It needs only the rows that the second pass reads.
func (z *resizer) goRows(s *loader.Sample, j *job) {
	top, bottom := z.rows.span()
	n := j.window.w * 3
	z.top, z.stride = top, n
	z.mid = grow(z.mid, (bottom-top)*n)
	for r := top; r < bottom; r += 2 {
		q := min(r+1, bottom-1) // the last one may be alone
		a, b := z.mid[(r-top)*n:(r-top+1)*n], z.mid[(q-top)*n:(q-top+1)*n]
		z.horizontal(a, b, z.source(s, j.c, r), z.source(s, j.c, q))
		if j.mirrored {
			mirror(a)
			if q > r {
				mirror(b)
			}
		}
	}
}

// mirror turns a row of RGB around.
func mirror(row []byte) {
	for l, r := 0, len(row)-3; l < r; l, r = l+3, r-3 {
		row[l], row[r] = row[r], row[l]
		row[l+1], row[r+1] = row[r+1], row[l+1]
		row[l+2], row[r+2] = row[r+2], row[l+2]
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
		at := 3 * int(lo)
		for _, w := range t.weights(i) {
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
			for k, w := range t.weights(i) {
				sum += int32(in[(int(lo)+k)*3+c]) * w
			}
			out[3*i+c] = clip(sum)
		}
	}
}

// vertical makes row i of the result of rows of mid, eight bytes at a time.
func (z *resizer) vertical(dst []byte, i int) {
	t, stride := &z.rows, z.stride
	weights := t.weights(i)
	from := (int(t.first[i]) - z.top) * stride
	x := 0
	if t.size <= wide {
		for ; x+8 <= len(dst); x += 8 {
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
	for ; x < len(dst); x++ {
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

// divides has C normalise every value of every channel.
func divides(n *Norm) bool {
	var z resizer
	z.rows.set(1, 1, 0, 1)
	z.rows.splitWeights()
	z.stride = 3*256 + ahead
	z.mid = make([]byte, z.stride)
	for i := range 3 * 256 {
		z.mid[i] = byte(i / 3)
	}
	got := make([]float32, 3*256)
	z.normalisedRows(len(got), n, got)
	for i, v := range got {
		if v != n.table[i%3][i/3] {
			return false
		}
	}
	return true
}
