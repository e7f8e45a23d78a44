package pixels

import (
	"encoding/binary"
	"fmt"
)

// Rect is a rectangle of pixels.
type Rect struct{ X, Y, W, H int }

// Job describes a resize. Part is cut out of the image and resized to W x H. Window is the part of the
// result that is wanted; it may be mirrored left to right.
type Job struct {
	Part     Rect
	W, H     int
	Window   Rect
	Mirrored bool
}

// Resizer resizes images, bilinear with antialiasing, as Pillow does: first along rows, then along
// columns, rounding to bytes after each. It holds the scratch memory of one image at a time.
type Resizer struct {
	cols, rows taps
	src        Rect   // what the filters need of the image
	pix        []byte // src's pixels, from the first on, in rows of pitch bytes
	pitch      int
	mid        []byte // src's rows, resized horizontally, stride bytes apart
	stride     int
	last       []byte // the image's last rows, with room to read on
	width      int    // of a row of the result, in bytes
}

// halves masks the lower byte of each half of a word. The sums of a filter need 30 bits, so one
// multiplication of a word computes two bytes. The loops below read 4 or 8 bytes at a time and spread
// them over such words.
const halves = 0x000000ff_000000ff

// half rounds both halves.
const half = 1<<(weightBits-1) | 1<<(weightBits-1+32)

// wide is the number of taps up to which rounded weights cannot carry a sum of bytes to 256. Each weight
// is off by half a unit at the most.
const wide = 1 << (weightBits - 8)

// Image does a job on an image, of which pix holds a part, and writes the result to dst.
func (z *Resizer) Image(held Rect, pix []byte, j *Job, dst []byte) {
	z.Begin(held, pix, j)
	z.Rows(0, j.Window.H, dst)
}

// Begin is the first pass of a job, after which Rows makes the result.
func (z *Resizer) Begin(held Rect, pix []byte, j *Job) {
	z.width = j.Window.W * 3
	if z.set(held, pix, j); z.narrow() {
		z.nativeRows(j)
	} else {
		z.goRows(j)
	}
}

// Rows writes n rows of the result, from one on.
func (z *Resizer) Rows(from, n int, dst []byte) {
	if n == 0 {
		return
	}
	_ = dst[z.width*n-1] // C writes without looking
	if z.narrow() {
		z.verticalRows(from, n, dst)
		return
	}
	for i := range n {
		z.vertical(dst[i*z.width:(i+1)*z.width], from+i)
	}
}

// Release forgets the image. Busy reports whether there is one.
func (z *Resizer) Release()   { z.pix = nil }
func (z *Resizer) Busy() bool { return z.pix != nil }

// set computes the filters, and finds what they need of the image.
func (z *Resizer) set(held Rect, pix []byte, j *Job) {
	z.cols.set(j.Part.W, j.W, j.Window.X, j.Window.W)
	z.rows.set(j.Part.H, j.H, j.Window.Y, j.Window.H)
	left, right := z.cols.span()
	top, bottom := z.rows.span()
	z.src = Rect{j.Part.X + left, j.Part.Y + top, right - left, bottom - top}
	x, y := z.src.X-held.X, z.src.Y-held.Y
	if x < 0 || y < 0 || x+z.src.W > held.W || y+z.src.H > held.H || len(pix) < 3*held.W*held.H {
		panic(fmt.Sprintf("of an image %+v was decoded, and %+v is to be read", held, z.src))
	}
	z.pitch = 3 * held.W
	z.pix = pix[y*z.pitch+3*x:]
}

// narrow reports whether C can make the result: there is C code, and the filters are such that nothing
// has to be clipped.
func (z *Resizer) narrow() bool { return native && max(z.cols.size, z.rows.size) <= wide }

// ahead is how many bytes C may read past the end of mid's rows.
const ahead = 32

// nativeRows is the first pass in C.
func (z *Resizer) nativeRows(j *Job) {
	z.cols.splitWeights()
	z.rows.splitWeights()
	z.stride = z.width + ahead
	z.mid = sized(z.mid, z.src.H*z.stride+ahead)
	n := 3 * z.src.W
	// Where an output has fewer taps than others, C reads on past the row's end.
	beyond := 12*((z.cols.pairs+1)/2) + 4
	safe := 0 // rows that have enough after them
	if room := len(z.pix) - n - beyond; room >= 0 {
		safe = min(room/z.pitch+1, z.src.H)
		z.horizontalRows(z.pix, z.pitch, safe, j.Mirrored, z.mid)
	}
	for r := safe; r < z.src.H; r++ {
		z.last = sized(z.last, n+beyond)
		copy(z.last, z.pix[r*z.pitch:r*z.pitch+n])
		z.horizontalRows(z.last, 0, 1, j.Mirrored, z.mid[r*z.stride:])
	}
}

// goRows is the first pass in Go.
func (z *Resizer) goRows(j *Job) {
	n := z.width
	z.stride = n
	z.mid = sized(z.mid, z.src.H*n)
	for r := 0; r < z.src.H; r += 2 {
		q := min(r+1, z.src.H-1) // the last one may be alone
		a, b := z.mid[r*n:(r+1)*n], z.mid[q*n:(q+1)*n]
		z.horizontal(a, b, z.source(r), z.source(q))
		if j.Mirrored {
			Mirror(a)
			if q > r {
				Mirror(b)
			}
		}
	}
}

// source returns a row of what is needed, and one byte more to be read with its last
// pixel.
func (z *Resizer) source(r int) []byte {
	at := r * z.pitch
	end := at + 3*z.src.W
	if end < len(z.pix) {
		return z.pix[at : end+1]
	}
	z.last = append(append(z.last[:0], z.pix[at:end]...), 0)
	return z.last
}

// horizontal resizes two rows, whose pixels share the words: red of both, green of
// both, blue of both.
func (z *Resizer) horizontal(out, out2, in, in2 []byte) {
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
func (z *Resizer) vertical(dst []byte, i int) {
	t, stride := &z.rows, z.stride
	weights := t.weights(i)
	from := int(t.first[i]) * stride
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

// clip rounds down to a byte. Weights and so sums are never negative, but rounded weights may carry a sum
// past 255.
func clip(v int32) byte { return byte(min(v>>weightBits, 255)) }
