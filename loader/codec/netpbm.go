package codec

import (
	"errors"
	"fmt"
	"io"
	"math"

	"dev.gpustall/loader"
)

// netpbm reads a PBM, PGM or PPM (https://netpbm.sourceforge.net/doc/ppm.html), plain
// or raw, with the pixels of PIL's convert("RGB"). Values are scaled to 255, except in
// a grey image of more than 8 bits (see grey16).
func netpbm(s *loader.Sample) error {
	p := pnm{b: s.Raw[2:], kind: s.Raw[1]}
	w, h := p.number(), p.number()
	p.most = 1
	if !p.bitmap() {
		p.most = p.number()
	}
	if p.err == nil && p.raw() && len(p.b) == 0 {
		p.err = io.ErrUnexpectedEOF
	}
	if p.err != nil {
		return p.err
	}
	if p.most < 1 || p.most > math.MaxUint16 {
		return fmt.Errorf("a greatest value of %d, where 1 to %d are possible", p.most, math.MaxUint16)
	}
	if p.raw() {
		p.b = p.b[1:] // one byte of white space
	}
	if err := checkSize(w, h); err != nil {
		return err
	}
	if len(p.b) < p.least(w, h) {
		return io.ErrUnexpectedEOF
	}
	prepare(s, w, h)
	p.read(s.Pixels, w)
	return p.err
}

// pnm is the unread part of a file.
type pnm struct {
	b    []byte
	kind byte // '1' to '6'
	most int  // the value that stands for white
	bits int  // of b[0] already read
	err  error
}

func (p *pnm) bitmap() bool { return p.kind == '1' || p.kind == '4' }
func (p *pnm) raw() bool    { return p.kind >= '4' }

func (p *pnm) channels() int {
	if p.kind == '3' || p.kind == '6' {
		return 3
	}
	return 1
}

// least returns how many bytes the values of an image need at least.
func (p *pnm) least(w, h int) int {
	switch n := w * h * p.channels(); {
	case p.kind == '4':
		return (w + 7) / 8 * h
	case p.raw() && p.most > 255:
		return 2 * n
	default:
		return n
	}
}

// read converts all rows to RGB.
func (p *pnm) read(dst []byte, w int) {
	var lut [256]byte
	for v := range lut {
		lut[v] = p.scale(v)
	}
	value := func() byte {
		v := p.value()
		if p.most > 255 {
			return p.scale(v)
		}
		return lut[v&255]
	}
	for len(dst) > 0 && p.err == nil {
		row := dst[:3*w]
		for len(row) > 0 {
			row[0] = value()
			if p.channels() == 3 {
				row[1], row[2] = value(), value()
			} else {
				row[1], row[2] = row[0], row[0]
			}
			row = row[3:]
		}
		if p.bits > 0 { // rows of a bitmap are whole bytes
			p.b, p.bits = p.b[1:], 0
		}
		dst = dst[3*w:]
	}
}

// scale converts a value to a byte. PIL rounds half to even.
func (p *pnm) scale(v int) byte {
	if p.bitmap() {
		return byte(255 * (1 - v&1)) // 1 is black
	}
	white := 255.0
	if p.channels() == 1 && p.most > 255 {
		white = math.MaxUint16
	}
	return byte(min(math.RoundToEven(float64(v)/float64(p.most)*white), 255))
}

// value reads the next value.
func (p *pnm) value() (v int) {
	switch {
	case p.kind == '4':
		v = int(p.b[0]>>(7-p.bits)) & 1
		if p.bits++; p.bits == 8 {
			p.b, p.bits = p.b[1:], 0
		}
		return v
	case p.raw() && p.most > 255:
		v, p.b = int(p.b[0])<<8|int(p.b[1]), p.b[2:]
	case p.raw():
		v, p.b = int(p.b[0]), p.b[1:]
	case p.kind == '1': // digits may stand without space between
		if p.skip(); p.err != nil {
			return 0
		}
		if v = int(p.b[0]) - '0'; v != 0 && v != 1 {
			p.err = fmt.Errorf("%q among the bits", p.b[0])
		}
		p.b = p.b[1:]
	default:
		if v = p.number(); v > p.most && p.err == nil {
			p.err = fmt.Errorf("a value of %d above the greatest, %d", v, p.most)
		}
	}
	return v
}

var errNumber = errors.New("something other than a number")

// number reads a decimal number, white space and comments before it.
func (p *pnm) number() int {
	if p.skip(); p.err != nil {
		return 0
	}
	n, digits := 0, 0
	for ; digits < len(p.b) && p.b[digits]-'0' < 10; digits++ {
		if n = n*10 + int(p.b[digits]-'0'); n > math.MaxInt32 {
			p.err = errNumber
			return 0
		}
	}
	if p.b = p.b[digits:]; digits == 0 {
		p.err = errNumber
	}
	return n
}

// skip goes to the next byte that is neither white space nor in a comment, which goes from # to
// the end of the line.
func (p *pnm) skip() {
	comment := false
	for i, c := range p.b {
		switch {
		case comment:
			comment = c != '\n' && c != '\r'
		case c == '#':
			comment = true
		case c != ' ' && (c < '\t' || c > '\r'):
			p.b = p.b[i:]
			return
		}
	}
	if p.b = nil; p.err == nil {
		p.err = io.ErrUnexpectedEOF
	}
}
