package jpeg

import "encoding/binary"

// lookBits is how many bits of the input select an entry of a table. Longer codes,
// which are rare, are found length by length.
const lookBits = 10

// codes is a table of canonical codes (T.81, C.2).
type codes struct {
	ok     bool
	look   [1 << lookBits]uint16 // length<<8 | symbol; 0 where the code is longer
	limit  [17]uint32            // the first code of 16 bits, left-aligned, that is longer than the index
	offset [17]int32             // symbols[code>>(16-length) + offset[length]]
	symbol [256]byte
}

type dcTable struct{ codes }

// acTable knows, where a code and the value after it fit in lookBits together, both:
// value<<16 | zeros before it<<8 | length of both. 0 stands for everything else.
type acTable struct {
	codes
	whole [1 << lookBits]int32
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
			if !d.dc[id].set(b[1:17], b[17:17+n]) {
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
	clear(t.look[:])
	copy(t.symbol[:], symbols)
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
	t.ok = true
	return true
}

func (t *acTable) set(counts, symbols []byte) bool {
	if !t.codes.set(counts, symbols) {
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

// extend is the value that size bits stand for (T.81, F.2.2.1): those that begin
// with 0 are negative.
func extend(v int32, size int) int32 {
	// All ones where the top bit is 0.
	low := (v>>(size-1) - 1)
	return v + low&(-1<<size+1)
}

// bits is the input, bit by bit: left-aligned in acc, n of them certain.
type bits struct {
	acc uint64
	n   int
	pad int // bits of n that were added past the end of the data
	b   []byte
	pos int
}

func (r *bits) reset(b []byte, pos int) { *r = bits{b: b, pos: pos} }

// fill makes n at least 48.
func (r *bits) fill() {
	if r.pos+8 <= len(r.b) {
		v := binary.BigEndian.Uint64(r.b[r.pos:])
		// No byte of 0xff, that is, no byte of 0 in its complement. What goes into acc
		// beyond the whole bytes will be put there once more.
		if (^v-0x0101010101010101)&v&0x8080808080808080 == 0 {
			r.acc |= v >> r.n
			k := (64 - r.n) >> 3
			r.pos += k
			r.n += 8 * k
			return
		}
	}
	r.fillSlowly()
}

// fillSlowly drops the 0 after each 0xff; at a marker it goes on with zeros.
func (r *bits) fillSlowly() {
	for r.n <= 56 {
		var c byte
		switch {
		case r.pos >= len(r.b):
			r.pad += 8
		case r.b[r.pos] != 0xff:
			c = r.b[r.pos]
			r.pos++
		case r.pos+1 < len(r.b) && r.b[r.pos+1] == 0:
			c = 0xff
			r.pos += 2
		default:
			r.pad += 8
		}
		r.acc |= uint64(c) << (56 - r.n)
		r.n += 8
	}
}

// overrun reports whether more was read than there was.
func (r *bits) overrun() bool { return r.pad > r.n }

// restart goes past a restart marker, which has to come next.
func (r *bits) restart(marker byte) bool {
	if r.overrun() || r.n-r.pad >= 8 {
		return false
	}
	for r.pos+1 < len(r.b) && r.b[r.pos] == 0xff && r.b[r.pos+1] == 0xff {
		r.pos++
	}
	if r.pos+1 >= len(r.b) || r.b[r.pos] != 0xff || r.b[r.pos+1] != marker {
		return false
	}
	r.reset(r.b, r.pos+2)
	return true
}

// long finds a symbol whose code has more than lookBits bits; length 0 is none.
func (t *codes) long(acc uint64) (symbol byte, length int) {
	code := uint32(acc >> 48)
	for length = lookBits + 1; length <= 16; length++ {
		if code < t.limit[length] {
			return t.symbol[byte(int32(code>>(16-length))+t.offset[length])], length
		}
	}
	return 0, 0
}

// decodeBlock decodes the next block of a component, dequantizes and transforms it
// to the pixels at offset at of its plane (T.81, F.2.2).
func (d *Decoder) decodeBlock(c *component, at int) bool {
	r := &d.bits
	if r.n < 48 {
		r.fill()
	}
	acc, n := r.acc, r.n
	dc, ac, q := &d.dc[c.dc&3], &d.ac[c.ac&3], &d.quant[c.q&3]

	e := dc.look[acc>>(64-lookBits)]
	size, length := int(e&255), int(e>>8)
	if e == 0 {
		s, l := dc.long(acc)
		size, length = int(s), l
	}
	if size > 11 || length == 0 {
		return false
	}
	acc <<= length & 63
	if n -= length + size; size > 0 {
		c.pred += extend(int32(acc>>((64-size)&63)), size)
		acc <<= size & 63
	}
	block := &d.block
	dcValue := c.pred * q[0]
	any, cols := false, uint32(1)
	for k := 1; k < 64; k++ {
		if n < 32 {
			r.acc, r.n = acc, n
			r.fill()
			acc, n = r.acc, r.n
		}
		i := acc >> (64 - lookBits)
		var value int32
		if e := ac.whole[i]; e != 0 {
			k += int(e >> 8 & 255)
			acc <<= e & 63
			n -= int(e & 63)
			value = e >> 16
		} else {
			e := ac.look[i]
			symbol, length := int(e&255), int(e>>8)
			if e == 0 {
				s, l := ac.long(acc)
				if symbol, length = int(s), l; l == 0 {
					return false
				}
			}
			acc <<= length & 63
			n -= length
			size := symbol & 15
			if k += symbol >> 4; size == 0 {
				if symbol == 0 { // the end of the block
					break
				}
				if symbol != 0xf0 { // sixteen zeros
					return false
				}
				continue
			}
			value = extend(int32(acc>>((64-size)&63)), size)
			acc <<= size & 63
			n -= size
		}
		if k > 63 {
			return false
		}
		if !any {
			any = true
			clear(block[:])
		}
		z := natural[k&63]
		block[z] = value * q[z]
		cols |= 1 << (z & 7)
	}
	r.acc, r.n = acc, n
	out := c.pix[at:]
	if !any {
		flat(out, c.stride, dcValue)
		return true
	}
	block[0] = dcValue
	inverse(block, cols, out, c.stride)
	return true
}
