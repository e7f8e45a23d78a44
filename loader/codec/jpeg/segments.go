package jpeg

import (
	"encoding/binary"
	"image"
)

// peek returns the next marker, or 0 if there is none.
func (d *Decoder) peek() byte {
	for d.pos+1 < len(d.b) && d.b[d.pos] == 0xff && d.b[d.pos+1] == 0xff {
		d.pos++ // fill bytes
	}
	if d.pos+1 >= len(d.b) || d.b[d.pos] != 0xff {
		return 0
	}
	return d.b[d.pos+1]
}

// segment reads the next segment: its marker and its data. The marker is 0 at a damaged place.
func (d *Decoder) segment() (marker byte, data []byte) {
	marker = d.peek()
	if marker < sof0 || marker >= rst0 && marker <= soi || d.pos+4 > len(d.b) {
		return 0, nil
	}
	n := int(binary.BigEndian.Uint16(d.b[d.pos+2:]))
	if n < 2 || d.pos+2+n > len(d.b) {
		return 0, nil
	}
	data = d.b[d.pos+4 : d.pos+2+n]
	d.pos += 2 + n
	return marker, data
}

// segments reads segments before the scan until enough returns true.
func (d *Decoder) segments(enough func() bool) error {
	for !enough() {
		marker, data := d.segment()
		ok := true
		switch marker {
		case sof0, sof1, sof2:
			d.prog = marker == sof2
			ok = d.frame(data)
		case dht:
			ok = d.huffman(data)
		case dqt:
			ok = !d.begun && d.quantization(data) // between scans it is unclear what a table applies to
		case dri:
			if ok = len(data) == 2; ok {
				d.every = int(binary.BigEndian.Uint16(data))
			}
		case app0:
			d.jfif = d.jfif || len(data) >= 5 && string(data[:5]) == "JFIF\x00"
		case app14:
			if len(data) >= 12 && string(data[:5]) == "Adobe" {
				d.adobe = int(data[11])
			}
		default:
			ok = marker > app0 || marker == com // skip the rest of the APPn
		}
		if !ok {
			return ErrUnsupported
		}
	}
	return nil
}

// frame reads the frame's header (T.81, B.2.2). In each direction luma has one, two or four
// blocks for one block of chroma.
func (d *Decoder) frame(b []byte) bool {
	if d.comps > 0 || len(b) < 6 || b[0] != 8 || len(b) != 6+3*int(b[5]) {
		return false
	}
	d.Height, d.Width = int(binary.BigEndian.Uint16(b[1:])), int(binary.BigEndian.Uint16(b[3:]))
	n := int(b[5])
	if n != 1 && n != 3 && n != 4 || d.Width == 0 || d.Height == 0 {
		return false
	}
	for i := range n {
		c := b[6+3*i:]
		d.comp[i] = component{id: c[0], h: int(c[1] >> 4), v: int(c[1] & 15), q: c[2]}
		if c[2] > 3 {
			return false
		}
	}
	if n == 1 {
		d.comp[0].h, d.comp[0].v = 1, 1 // a scan of one component has MCUs of one block
		d.comps = n
		return true
	}
	// libjpeg guesses whether colours are coded as YCbCr. This is the same guess.
	if n == 3 {
		rgb := d.comp[0].id == 'R' && d.comp[1].id == 'G' && d.comp[2].id == 'B'
		d.Direct = !d.jfif && (d.adobe == 0 || d.adobe < 0 && rgb)
	} else {
		d.Direct = d.adobe <= 0
		if d.comp[3].h != d.comp[0].h || d.comp[3].v != d.comp[0].v {
			return false
		}
	}
	if d.Direct && (d.comp[0].h != 1 || d.comp[0].v != 1) {
		return false
	}
	if d.comp[1].h != 1 || d.comp[1].v != 1 || d.comp[2].h != 1 || d.comp[2].v != 1 {
		return false
	}
	switch [2]int{d.comp[0].h, d.comp[0].v} {
	case [2]int{1, 1}:
		d.ratio = image.YCbCrSubsampleRatio444
	case [2]int{2, 1}:
		d.ratio = image.YCbCrSubsampleRatio422
	case [2]int{2, 2}:
		d.ratio = image.YCbCrSubsampleRatio420
	case [2]int{1, 2}:
		d.ratio = image.YCbCrSubsampleRatio440
	case [2]int{4, 1}:
		d.ratio = image.YCbCrSubsampleRatio411
	case [2]int{4, 2}:
		d.ratio = image.YCbCrSubsampleRatio410
	default:
		return false
	}
	d.comps = n
	return true
}

// scanHeader reads a scan's header (T.81, B.2.3). It must name all components, in the frame's
// order.
func (d *Decoder) scanHeader(b []byte) bool {
	n := d.comps
	if len(b) != 4+2*n || int(b[0]) != n || b[1+2*n] != 0 || b[2+2*n] != 63 || b[3+2*n] != 0 {
		return false
	}
	for i := range n {
		c := &d.comp[i]
		c.dc, c.ac, c.pred = b[2+2*i]>>4, b[2+2*i]&15, 0
		if b[1+2*i] != c.id || c.dc > 3 || c.ac > 3 || !d.dc[c.dc].ok || !d.ac[c.ac].ok || d.quant[c.q][0] == 0 {
			return false
		}
	}
	return true
}

// quantization reads tables of divisors (T.81, B.2.4.1).
func (d *Decoder) quantization(b []byte) bool {
	for len(b) > 0 {
		size, id := 1+int(b[0]>>4), b[0]&15
		if size > 2 || id > 3 || len(b) < 1+64*size {
			return false
		}
		for i := range 64 {
			v := int32(b[1+size*i])
			if size == 2 {
				v = v<<8 | int32(b[2+2*i])
			}
			if v == 0 {
				return false
			}
			d.quant[id][natural[i]] = v
		}
		b = b[1+64*size:]
	}
	return true
}

// natural is the place in a block, row by row, of the i-th coefficient in zigzag order (T.81,
// figure A.6).
var natural = [128]byte{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
	// A run of zeros may lead past the end.
	63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
}
