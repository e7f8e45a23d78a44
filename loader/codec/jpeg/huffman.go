package jpeg

import (
	"bytes"
	"slices"
)

// lookBits is how many bits of the input select an entry of a table. Longer codes,
// which are rare, are found length by length.
const lookBits = 10

// codes is a table of canonical codes (T.81, C.2). It is kept from one image to the next, which
// nearly always has the same codes. C reads it (scan_amd64.h).
type codes struct {
	look   [1 << lookBits]uint16 // length<<8 | symbol; 0 if the code is longer
	limit  [17]uint32            // the first code of 16 bits, left-aligned, that is longer than the index
	offset [17]int32             // symbols[code>>(16-length) + offset[length]]
	symbol [256]byte
	counts [16]byte
	built  bool // of counts and symbol
	ok     bool // this image has it
}

type dcTable struct{ codes }

// acTable decodes a code and the value after it in one step, if both fit into lookBits.
// An entry is value<<16 | zeros before it<<8 | length of both. 0 stands for everything
// else.
type acTable struct {
	codes
	whole [1 << lookBits]int32

	pair   [1 << pairBits]uint64
	skip   [1 << pairBits]uint32
	paired bool
}

// huffman reads tables of codes (T.81, B.2.4.2).
func (d *Decoder) huffman(b []byte) bool {
	for len(b) > 0 {
		if len(b) < 17 || b[0]&15 > 3 || b[0]>>4 > 1 {
			return false
		}
		class, id := b[0]>>4, b[0]&15
		n := 0
		for _, c := range b[1:17] {
			n += int(c)
		}
		if n == 0 || n > 256 || len(b) < 17+n {
			return false
		}
		if class == 0 {
			if !d.dc[id].set(b[1:17], b[17:17+n]) || slices.Max(b[17:17+n]) > 15 {
				return false
			}
		} else if !d.ac[id].set(b[1:17], b[17:17+n]) {
			return false
		}
		b = b[17+n:]
	}
	return true
}

// set builds the table of counts[i] codes of i+1 bits for symbols, in their order.
func (t *codes) set(counts, symbols []byte) bool {
	if t.same(counts, symbols) {
		t.ok = true
		return true
	}
	t.built = false
	clear(t.look[:])
	copy(t.symbol[:], symbols)
	copy(t.counts[:], counts)
	code, k := uint32(0), int32(0)
	for length := 1; length <= 16; length++ {
		n := uint32(counts[length-1])
		t.offset[length] = k - int32(code)
		if code+n > 1<<length {
			return false // more codes than there are
		}
		if length <= lookBits {
			for i := range n << (lookBits - length) {
				t.look[code<<(lookBits-length)+i] = uint16(length)<<8 | uint16(symbols[k+int32(i>>(lookBits-length))])
			}
		}
		code += n
		k += int32(n)
		t.limit[length] = code << (16 - length)
		code <<= 1
	}
	t.built, t.ok = true, true
	return true
}

// same reports whether the table already holds these codes.
func (t *codes) same(counts, symbols []byte) bool {
	return t.built && bytes.Equal(t.counts[:], counts) && bytes.Equal(t.symbol[:len(symbols)], symbols)
}

func (t *acTable) set(counts, symbols []byte) bool {
	if t.same(counts, symbols) {
		t.ok = true
		return true
	}
	if t.paired = false; !t.codes.set(counts, symbols) {
		return false
	}
	for i, e := range t.look {
		length, run, size := int(e>>8), int32(e>>4&15), int(e&15)
		if t.whole[i] = 0; length == 0 || size == 0 || length+size > lookBits {
			continue
		}
		v := extend(int32(i>>(lookBits-length-size))&(1<<size-1), size)
		t.whole[i] = v<<16 | run<<8 | int32(length+size)
	}
	return true
}

// extend returns the value that size bits stand for (T.81, F.2.2.1): if the first bit is 0 it
// is negative.
func extend(v int32, size int) int32 {
	// All bits are 1 if the top bit is 0.
	low := (v>>(size-1) - 1)
	return v + low&(-1<<size+1)
}

// long finds a symbol whose code has more than lookBits bits. If there is none, it returns 0
// with the length badCode.
func (t *codes) long(acc uint64) (symbol byte, length int) {
	code := uint32(acc >> 48)
	for length = lookBits + 1; length <= 16; length++ {
		if code < t.limit[length] {
			return t.symbol[byte(int32(code>>(16-length))+t.offset[length])], length
		}
	}
	return 0, badCode
}

// badCode is how many bits libjpeg takes before it gives up.
const badCode = 17
