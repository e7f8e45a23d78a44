package codec

import "image"

// Chroma upsampling as libjpeg does it by default ("fancy upsampling"; see jdsample.c of
// libjpeg-turbo). It is a triangle filter over chroma samples, which lie at the centres of the
// pixels they stand for. In each halved direction an output is 3/4 of the nearer sample and 1/4
// of the farther one. The integers' rounding alternates between neighbours. Upsampling and
// conversion are one pass, so upsampled planes are never stored.

// fromYCbCr converts a part of a JPEG's planes. row is scratch for one row of it, and
// is returned for the next image.
func fromYCbCr(dst []byte, img *image.YCbCr, part image.Rectangle, scratch []byte) []byte {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	cw, ch, shift := w, h, 0
	var halfW, halfH bool
	switch img.SubsampleRatio {
	case image.YCbCrSubsampleRatio420:
		cw, ch, halfW, halfH, shift = (w+1)/2, (h+1)/2, true, true, 1
	case image.YCbCrSubsampleRatio422:
		cw, halfW, shift = (w+1)/2, true, 1
	case image.YCbCrSubsampleRatio440:
		ch, halfH = (h+1)/2, true
	case image.YCbCrSubsampleRatio411:
		cw, shift = (w+3)/4, 2
	case image.YCbCrSubsampleRatio410:
		cw, ch, shift = (w+3)/4, (h+1)/2, 2
	}
	// These columns are converted: whole chroma samples, and one more on each side. Of the
	// latter only the pixels next to the part are made.
	from, to := part.Min.X>>shift, (part.Max.X+1<<shift-1)>>shift
	if halfW {
		from, to = max(from-1, 0), min(to+1, cw)
	}
	left, right := from<<shift, min(to<<shift, w)
	row := func(y int) (cb, cr []byte) {
		at := y * img.CStride
		return img.Cb[at+from : at+to], img.Cr[at+from : at+to]
	}
	n := 3 * part.Dx()
	if 3*(right-left) > n {
		scratch = append(scratch[:0], make([]byte, 3*(right-left))...)
	}
	for y := part.Min.Y; y < part.Max.Y; y++ {
		line, luma := dst[(y-part.Min.Y)*n:(y-part.Min.Y+1)*n], img.Y[y*img.YStride+left:y*img.YStride+right]
		out := line
		if len(luma)*3 > n {
			out = scratch
		}
		cy := y * ch / max(h, 1)
		if ch < h {
			cy = y / 2
		}
		cb, cr := row(cy)
		far := min(max(cy-1+y%2*2, 0), ch-1)
		switch {
		case halfW && cw <= 2: // as libjpeg: too narrow to interpolate
			repeated(out, luma, cb, cr, shift)
		case halfW && halfH:
			fb, fr := row(far)
			halved2(out, luma, cb, cr, fb, fr)
		case halfW:
			halved(out, luma, cb, cr)
		case halfH:
			fb, fr := row(far)
			between(out, luma, cb, cr, fb, fr, uint32(1+y%2))
		default: // in full, or a quarter, which libjpeg repeats
			repeated(out, luma, cb, cr, shift)
		}
		if len(out) > n {
			copy(line, out[3*(part.Min.X-left):])
		}
	}
	return scratch
}

// Both chroma values are in one word, Cr 16 bits above Cb, because no sum here exceeds
// 12 bits.
const both = 1 | 1<<16

func pack(cb, cr byte) uint32 { return uint32(cb) | uint32(cr)<<16 }

// halved converts a row with half the chroma columns.
func halved(out, luma, cb, cr []byte) {
	cr = cr[:len(cb)]
	last := pack(cb[0], cr[0])
	this := last
	for i := range cb[1:] {
		next := pack(cb[i+1], cr[i+1])
		pair(out[6*i:], luma[2*i:], (3*this+last+both)>>2, (3*this+next+2*both)>>2)
		last, this = this, next
	}
	end(out, luma, len(cb)-1, (3*this+last+both)>>2, this)
}

// halved2 converts a row with half the chroma columns, between two chroma rows.
func halved2(out, luma, cb, cr, fb, fr []byte) {
	cr, fb, fr = cr[:len(cb)], fb[:len(cb)], fr[:len(cb)]
	last := 3*pack(cb[0], cr[0]) + pack(fb[0], fr[0])
	this := last
	for i := range cb[1:] {
		next := 3*pack(cb[i+1], cr[i+1]) + pack(fb[i+1], fr[i+1])
		pair(out[6*i:], luma[2*i:], (3*this+last+8*both)>>4, (3*this+next+7*both)>>4)
		last, this = this, next
	}
	end(out, luma, len(cb)-1, (3*this+last+8*both)>>4, (4*this+7*both)>>4)
}

// between converts a row with all chroma columns, between two chroma rows.
func between(out, luma, cb, cr, fb, fr []byte, bias uint32) {
	for i, y := range luma {
		put(out[3*i:], y, (3*pack(cb[i], cr[i])+pack(fb[i], fr[i])+bias*both)>>2)
	}
}

// repeated converts a row whose chroma samples stand for 1<<shift pixels each.
func repeated(out, luma, cb, cr []byte, shift int) {
	for i, y := range luma {
		put(out[3*i:], y, pack(cb[i>>shift], cr[i>>shift]))
	}
}

// put writes the RGB of a pixel. c holds Cb and Cr in the low bytes of its halves.
//
// JFIF's equations, as libjpeg rounds them: with FIX(x) = round(x * 65536),
//
//	R = Y + (FIX(1.402) Cr + 32768 >> 16)
//	G = Y + (32768 - FIX(0.34414) Cb - FIX(0.71414) Cr >> 16)
//	B = Y + (FIX(1.772) Cb + 32768 >> 16)
//
// where 128 is subtracted from Cb and Cr. The three sums are done at once, in three bit
// fields of one word (see redAt).
func put(out []byte, y byte, c uint32) {
	s := uint64(y)*(1<<redAt|1<<greenAt|1<<blueAt) + cbSums[byte(c)] + crSums[byte(c>>16)]
	o := out[:3:3]
	o[0], o[1], o[2] = clip[s>>redAt&1023], clip[s>>greenAt&1023], clip[s>>blueAt&1023]
}

// pair does what put does for two pixels.
func pair(out, luma []byte, c, d uint32) {
	o, l := out[:6:6], luma[:2:2]
	s := uint64(l[0])*(1<<redAt|1<<greenAt|1<<blueAt) + cbSums[byte(c)] + crSums[byte(c>>16)]
	t := uint64(l[1])*(1<<redAt|1<<greenAt|1<<blueAt) + cbSums[byte(d)] + crSums[byte(d>>16)]
	o[0], o[1], o[2] = clip[s>>redAt&1023], clip[s>>greenAt&1023], clip[s>>blueAt&1023]
	o[3], o[4], o[5] = clip[t>>redAt&1023], clip[t>>greenAt&1023], clip[t>>blueAt&1023]
}

// end converts the pixels of a row's last chroma sample i: two, or one if the width is odd.
func end(out, luma []byte, i int, c, d uint32) {
	put(out[6*i:], luma[2*i], c)
	if 2*i+1 < len(luma) {
		put(out[6*i+3:], luma[2*i+1], d)
	}
}

// The offsets of three bit fields in one word. Each is 10 bits wide and holds a colour
// plus 256, which keeps it from going negative: R and B lie in [-227, 482]. Green has
// 16 bits more below for its fraction, because its two products are rounded together.
const (
	redAt   = 0
	blueAt  = 10
	greenAt = 36
)

// cbSums and crSums are what Cb and Cr add, including the offsets of the fields. clip
// turns a field into a byte.
var (
	cbSums, crSums [256]uint64
	clip           [1024]byte
)

func init() {
	for i := range 256 {
		v := int64(i - 128)
		cbSums[i] = uint64(((116130*v+1<<15)>>16+256)<<blueAt + (256<<16+1<<15-22554*v)<<(greenAt-16))
		crSums[i] = uint64((91881*v+1<<15)>>16 + 256 - 46802*v<<(greenAt-16))
	}
	for i := range clip {
		clip[i] = byte(min(max(i-256, 0), 255))
	}
}
