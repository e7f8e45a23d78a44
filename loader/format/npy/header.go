// Package npy reads NumPy's .npy files (NEP 1, format versions 1.0 to 3.0). Each file is one
// sample: (C,T,H,W) is a clip, (C,H,W) an image of C channels, (H,W) an image of one channel,
// and (N) a row of numbers. Elements are uint8, float16 or float32, in C order and
// little-endian, as numpy.save writes them.
package npy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader"
)

// Type is the type of an array's elements, as NumPy spells it.
type Type string

// The types that are read.
const (
	Uint8   Type = "|u1"
	Float16 Type = "<f2"
	Float32 Type = "<f4"
)

// Size of an element in bytes.
func (t Type) Size() int {
	switch t {
	case Uint8:
		return 1
	case Float16:
		return 2
	}
	return 4
}

// name returns the type in NumPy's words.
func (t Type) name() string {
	return map[Type]string{Uint8: "uint8", Float16: "float16", Float32: "float32"}[t]
}

// Shape is an array's dimensions, the slowest first.
type Shape []int

// String returns the shape as NumPy writes it.
func (s Shape) String() string {
	var b strings.Builder
	b.WriteByte('(')
	for i, n := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n))
	}
	if len(s) == 1 {
		b.WriteByte(',')
	}
	b.WriteByte(')')
	return b.String()
}

// CTHW returns the shape's channels, frames, rows and columns. Without frames t is 0.
func (s Shape) CTHW() (c, t, h, w int) {
	switch len(s) {
	case 1:
		return 1, 0, 1, s[0]
	case 2:
		return 1, 0, s[0], s[1]
	case 3:
		return s[0], 0, s[1], s[2]
	}
	return s[0], s[1], s[2], s[3]
}

// axes are the meanings of an array's dimensions, by how many there are.
var axes = [...]string{1: "(N)", 2: "(H,W)", 3: "(C,H,W)", 4: "(C,T,H,W)"}

// Header is what a file says of its array.
type Header struct {
	Type  Type
	Shape Shape
	Start int // where the elements begin, in bytes
	Bytes int // of the elements

	stacked bool // the file holds several samples of that shape, one behind the other
}

// String returns the header in words: "float16 (3,16,112,112)".
func (h *Header) String() string { return h.Type.name() + " " + h.Shape.String() }

// Contents says what the samples are, and how their dimensions are read: "float16
// (3,16,112,112) arrays, read as (C,T,H,W)".
func (h *Header) Contents() string { return h.String() + " arrays, read as " + axes[len(h.Shape)] }

// Doubt says that the channels seem to be last, as image libraries have them, and how to put
// them first. It is empty if nothing suggests that.
func (h *Header) Doubt() string {
	n := len(h.Shape)
	if n < 3 || likeChannels(h.Shape[0]) || !likeChannels(h.Shape[n-1]) {
		return ""
	}
	last, first := strings.Replace(axes[n], "C,", "", 1), 0 // (H,W)
	if h.stacked {
		first = 1
	}
	return fmt.Sprintf("the arrays are %s: that is %d channels of images %d wide; if they are %s,C), put the channels first: save numpy.moveaxis(a, -1, %d)",
		h.Shape, h.Shape[0], h.Shape[n-1], strings.TrimSuffix(last, ")"), first)
}

// likeChannels reports whether n is a usual number of channels: grey, colours, or colours and
// opacity.
func likeChannels(n int) bool { return n == 1 || n == 3 || n == 4 }

// Bounds on what a header may say.
const (
	maxHeader = 1 << 16 // bytes of its text; numpy.load refuses more than 10,000 unless told
	maxDims   = 4
	maxBytes  = 1 << 30 // of an array
)

const (
	magic      = "\x93NUMPY"
	hintWrite  = "write it again with numpy.save"
	hintArrays = "save the sample as a C-ordered array of uint8, float16 or float32 with 1 to 4 dimensions"
)

// Parse reads the header of a file that begins with b.
func Parse(b []byte) (Header, error) {
	d, start, err := parse(b)
	if err != nil {
		return Header{}, err
	}
	return d.header(d.shape, start)
}

// parse returns what a header says, and where the elements begin.
func parse(b []byte) (d dict, start int, err error) {
	text, start, err := preamble(b)
	if err != nil {
		return d, 0, err
	}
	if d, err = parseDict(text); err != nil {
		return d, 0, errs.Reason("its npy header is damaged: "+err.Error(), hintWrite)
	}
	return d, start, nil
}

// header returns the header of a sample of that shape, which is the file's shape or a part of
// it.
func (d *dict) header(shape Shape, start int) (Header, error) {
	h := Header{Type: Type(d.descr), Shape: shape, Start: start}
	switch {
	case h.Type == "=u1" || h.Type == "<u1" || h.Type == ">u1": // one byte has no order
		h.Type = Uint8
	case h.Type != Uint8 && h.Type != Float16 && h.Type != Float32:
		return Header{}, errs.Reason(fmt.Sprintf("its elements are %q, which is none of |u1 (uint8), <f2 (float16) and <f4 (float32)", d.descr), hintArrays)
	}
	if d.fortran && len(d.shape) > 1 {
		return Header{}, errs.Reason("its array is in Fortran order", "save numpy.ascontiguousarray of it")
	}
	if len(shape) < 1 || len(shape) > maxDims {
		return Header{}, errs.Reason(fmt.Sprintf("its array has %d dimensions", len(d.shape)), hintArrays)
	}
	h.Bytes = h.Type.Size()
	for _, n := range shape {
		if n < 1 || n > maxBytes/h.Bytes {
			return Header{}, errs.Reason(fmt.Sprintf("its shape %s is not one of 1 to %d bytes", shape, maxBytes), hintArrays)
		}
		h.Bytes *= n
	}
	return h, nil
}

// preamble returns the header's text, and where the elements begin.
func preamble(b []byte) (text []byte, start int, err error) {
	short := errs.Reason(fmt.Sprintf("it is truncated in its npy header, after %d bytes", len(b)), hintWrite)
	if !bytes.HasPrefix(b, []byte(magic)[:min(len(b), len(magic))]) {
		return nil, 0, errs.Reason("it does not begin as a .npy file does", hintWrite)
	}
	if len(b) < len(magic)+4 {
		return nil, 0, short
	}
	var n uint64
	switch major := b[len(magic)]; major {
	case 1:
		start = len(magic) + 4
		n = uint64(binary.LittleEndian.Uint16(b[len(magic)+2:]))
	case 2, 3:
		if start = len(magic) + 6; len(b) < start {
			return nil, 0, short
		}
		n = uint64(binary.LittleEndian.Uint32(b[len(magic)+2:]))
	default:
		return nil, 0, errs.Reason(fmt.Sprintf("it is of version %d of the npy format, and 1 to 3 are known", major), hintWrite)
	}
	if n > maxHeader {
		return nil, 0, errs.Reason(fmt.Sprintf("its npy header claims %d bytes, more than the %d that it may have", n, maxHeader), hintWrite)
	}
	if uint64(len(b)-start) < n {
		return nil, 0, short
	}
	return b[start : start+int(n)], start + int(n), nil
}

// dict is the header's text, a Python dictionary.
type dict struct {
	descr   string
	fortran bool
	shape   Shape
}

// parseDict reads {'descr': '<f2', 'fortran_order': False, 'shape': (3, 16), }: the three keys
// in any order, each once.
func parseDict(text []byte) (d dict, err error) {
	p := parser{text}
	seen := map[string]bool{}
	if !p.take("{") {
		return d, fmt.Errorf("no dictionary")
	}
	for !p.take("}") {
		key, ok := p.str()
		if !ok || seen[key] || !p.take(":") {
			return d, fmt.Errorf("a key is missing or there twice")
		}
		seen[key] = true
		switch key {
		case "descr":
			if d.descr, ok = p.str(); !ok {
				return d, fmt.Errorf("its descr is no plain type")
			}
		case "fortran_order":
			if d.fortran = p.take("True"); !d.fortran && !p.take("False") {
				return d, fmt.Errorf("its fortran_order is neither True nor False")
			}
		case "shape":
			if d.shape, ok = p.tuple(); !ok {
				return d, fmt.Errorf("its shape is no tuple of whole numbers")
			}
		default:
			return d, fmt.Errorf("it has a key %q", key)
		}
		if !p.take(",") {
			if p.take("}") {
				break
			}
			return d, fmt.Errorf("no comma after %s", key)
		}
	}
	if len(seen) != 3 {
		return d, fmt.Errorf("it has %d of the keys descr, fortran_order and shape", len(seen))
	}
	return d, nil
}

// parser walks over a Python literal.
type parser struct{ rest []byte }

func (p *parser) take(token string) bool {
	p.rest = bytes.TrimLeft(p.rest, " \t\n")
	rest, ok := bytes.CutPrefix(p.rest, []byte(token))
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *parser) str() (string, bool) {
	for _, quote := range []string{"'", `"`} {
		if p.take(quote) {
			s, rest, ok := bytes.Cut(p.rest, []byte(quote))
			if p.rest = rest; len(s) > 64 {
				return "", false
			}
			return string(s), ok
		}
	}
	return "", false
}

func (p *parser) tuple() (s Shape, ok bool) {
	if !p.take("(") {
		return nil, false
	}
	for !p.take(")") {
		n := 0
		for n < len(p.rest) && '0' <= p.rest[n] && p.rest[n] <= '9' {
			n++
		}
		v, err := strconv.Atoi(string(p.rest[:n]))
		if err != nil || v > math.MaxInt32 || len(s) > 32 {
			return nil, false
		}
		s = append(s, v)
		p.rest = p.rest[n:]
		p.take("L") // Python 2's long
		if comma := p.take(","); !comma && (len(s) == 1 || !bytes.HasPrefix(p.rest, []byte(")"))) {
			return nil, false
		}
		p.rest = bytes.TrimLeft(p.rest, " ")
	}
	return s, true
}

// check refuses an array, in a file of so many bytes, that differs from h.
func (h *Header) check(got *Header, size int) error {
	if size-got.Start < got.Bytes {
		return errs.Reason(fmt.Sprintf("it is truncated: its array of %s takes %d bytes, and there are %d", got, got.Bytes, size-got.Start), hintWrite)
	}
	if size-got.Start > got.Bytes {
		return errs.Reason(fmt.Sprintf("%d bytes follow its array of %s", size-got.Start-got.Bytes, got), hintWrite)
	}
	if got.Type != h.Type {
		return errs.Reason(fmt.Sprintf("its array is %s where the data set's first is %s", got, h), "save all samples with one dtype")
	}
	if len(got.Shape) == len(h.Shape) {
		same := true
		for i := range h.Shape {
			same = same && got.Shape[i] == h.Shape[i]
		}
		if same {
			return nil
		}
	}
	return errs.Reason(fmt.Sprintf("its array is %s where the data set's first is %s", got, h), "save all samples with one shape: a batch is one array")
}

// Info writes into i what h says about a data set of such samples.
func (h *Header) Info(i *loader.Info) {
	i.C, i.T, i.H, i.W = h.Shape.CTHW()
	i.Float = h.Type != Uint8
	i.Doubt = h.Doubt()
}

// AppendHeader appends the header of a file of that type and shape, as numpy.save writes it:
// the elements begin at a multiple of 64 bytes.
func AppendHeader(b []byte, t Type, s Shape) []byte {
	shape := strings.ReplaceAll(s.String(), ",", ", ")
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", t, strings.Replace(shape, ", )", ",)", 1))
	const before = len(magic) + 4
	pad := (64 - (before+len(text)+1)%64) % 64
	b = append(b, magic+"\x01\x00"...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)+pad+1))
	b = append(b, text...)
	b = append(b, strings.Repeat(" ", pad)...)
	return append(b, '\n')
}
