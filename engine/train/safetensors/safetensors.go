// Package safetensors reads and writes named tensors in Hugging Face's format
// (https://github.com/huggingface/safetensors). A file begins with the length of its header, as a
// little-endian uint64. The header is JSON and says the type, shape and place of each tensor. The
// tensors' bytes follow, little-endian, one tensor after the other.
package safetensors

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/errs"
)

// Ext is the extension of such files.
const Ext = ".safetensors"

// maxHeader is the largest header that the format's own reader takes, in bytes.
const maxHeader = 100 << 20

// metadata is the header's key for text about the whole file.
const metadata = "__metadata__"

// place is a tensor's type, shape and place, as the header has them.
type place struct {
	Type  string   `json:"dtype"`
	Shape []int64  `json:"shape"`
	At    [2]int64 `json:"data_offsets"` // from the end of the header
}

// sizes has the bytes of an element, by type.
var sizes = map[string]int64{
	"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}

// File is an open file of tensors.
type File struct {
	Metadata map[string]string

	path string
	file interface { // *os.File
		io.ReaderAt
		io.Closer
	}
	data   int64 // where the tensors begin
	places map[string]place
	names  []string
}

const hintFile = "make the file again, or name another one"

// Open reads the header of a file.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errs.File(err, "open weights", path, "check the path")
	}
	x := &File{path: path, file: f}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errs.Reason("it is no regular file", "name a "+Ext+" file")
	}
	if err == nil {
		err = x.header(st.Size())
	}
	if err != nil {
		_ = f.Close() // it was only read
		why := errs.Explain(err)
		return nil, errs.New("open weights", path, why.Reason, cmp.Or(why.Hint, hintFile)).Because(err)
	}
	return x, nil
}

// header reads and checks the header of a file of size bytes. Each tensor must lie in the
// file, have the bytes that its shape takes, and share none with another.
func (x *File) header(size int64) error {
	var head [8]byte
	if _, err := io.ReadFull(io.NewSectionReader(x.file, 0, size), head[:]); err != nil {
		return errs.Reason("it is no "+Ext+" file: it is too short", "")
	}
	n := binary.LittleEndian.Uint64(head[:])
	if n < 2 || n > maxHeader || int64(n) > size-8 {
		return errs.Reason(fmt.Sprintf("it is no %s file, or truncated: a header of %d bytes in %d", Ext, n, size), "")
	}
	text := make([]byte, n)
	if _, err := x.file.ReadAt(text, 8); err != nil {
		return err
	}
	x.data = 8 + int64(n)
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return errs.Reason("its header is damaged: "+err.Error(), "")
	}
	x.places = make(map[string]place, len(all))
	for name, raw := range all {
		if name == metadata {
			if err := json.Unmarshal(raw, &x.Metadata); err != nil {
				return errs.Reason("its header is damaged: "+metadata+": "+err.Error(), "")
			}
			continue
		}
		var p place
		if err := json.Unmarshal(raw, &p); err != nil {
			return errs.Reason(fmt.Sprintf("its header is damaged: tensor %s: %v", strconv.Quote(name), err), "")
		}
		if err := p.check(size - x.data); err != nil {
			return errs.Reason(fmt.Sprintf("its header is damaged, or the file is truncated: tensor %s %v", strconv.Quote(name), err), "")
		}
		x.places[name] = p
		x.names = append(x.names, name)
	}
	slices.SortFunc(x.names, func(a, b string) int {
		return cmp.Or(cmp.Compare(x.places[a].At[0], x.places[b].At[0]), strings.Compare(a, b))
	})
	end := int64(0)
	for _, name := range x.names {
		p := x.places[name]
		if p.At[0] < end {
			return errs.Reason(fmt.Sprintf("its header is damaged: tensor %s lies in another one", strconv.Quote(name)), "")
		}
		end = max(end, p.At[1])
	}
	return nil
}

// check refuses a place outside of the file's bytes, or of another size than its shape.
func (p *place) check(bytes int64) error {
	elem, known := sizes[p.Type]
	if p.At[0] < 0 || p.At[1] < p.At[0] || p.At[1] > bytes {
		return fmt.Errorf("lies at bytes %d to %d of %d", p.At[0], p.At[1], bytes)
	}
	if !known {
		return nil // an unknown type is no error until the tensor is read
	}
	n := int64(1)
	for _, d := range p.Shape {
		if d < 0 || d > 0 && n > math.MaxInt64/8/d {
			return fmt.Errorf("has the shape %s", Shape(p.Shape))
		}
		n *= d
	}
	if n*elem != p.At[1]-p.At[0] {
		return fmt.Errorf("has %d bytes where %s of %s takes %d", p.At[1]-p.At[0], Shape(p.Shape), p.Type, n*elem)
	}
	return nil
}

// Names lists the tensors in the order in which they lie.
func (x *File) Names() []string { return x.names }

// Shape returns the shape of a tensor, or false if there is none of that name.
func (x *File) Shape(name string) ([]int64, bool) {
	p, ok := x.places[name]
	return p.Shape, ok
}

// Floats reads a tensor of floating point numbers of any width.
func (x *File) Floats(name string) ([]float32, error) {
	p, ok := x.places[name]
	if !ok {
		return nil, errs.New("read weights", x.path, fmt.Sprintf("there is no tensor %s", strconv.Quote(name)), hintFile)
	}
	decode := decoders[p.Type]
	if decode == nil {
		return nil, errs.New("read weights", x.path, fmt.Sprintf("tensor %s is of type %s", strconv.Quote(name), p.Type), "convert it to F32, F16, BF16 or F64")
	}
	b := make([]byte, p.At[1]-p.At[0])
	if _, err := x.file.ReadAt(b, x.data+p.At[0]); err != nil {
		return nil, errs.File(err, "read weights", x.path, hintFile)
	}
	v := make([]float32, int64(len(b))/sizes[p.Type])
	decode(v, b)
	return v, nil
}

// Close closes the file.
func (x *File) Close() error { return x.file.Close() }

// decoders turn bytes into numbers, by type.
var decoders = map[string]func(v []float32, b []byte){
	"F32": func(v []float32, b []byte) {
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	},
	"F64": func(v []float32, b []byte) {
		for i := range v {
			v[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
		}
	},
	"BF16": func(v []float32, b []byte) {
		for i := range v {
			v[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		}
	},
	"F16": func(v []float32, b []byte) {
		for i := range v {
			v[i] = half(binary.LittleEndian.Uint16(b[2*i:]))
		}
	},
}

// half converts an IEEE 754 binary16 number.
func half(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch exp {
	case 0: // subnormal, in units of 2^-24
		v := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 255<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// Shape writes a shape in words: "64x3x7x7", or "one number" without dimensions.
func Shape[T int | int64](shape []T) string {
	if len(shape) == 0 {
		return "one number"
	}
	words := make([]string, len(shape))
	for i, d := range shape {
		words[i] = strconv.FormatInt(int64(d), 10)
	}
	return strings.Join(words, "x")
}
