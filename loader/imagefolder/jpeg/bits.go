package jpeg

import "encoding/binary"

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

// take reads up to 16 bits.
func (r *bits) take(n int) int32 {
	if n == 0 {
		return 0
	}
	if r.n < n {
		r.fill()
	}
	v := int32(r.acc >> ((64 - n) & 63))
	r.acc <<= n & 63
	r.n -= n
	return v
}

// value reads a value of so many bits.
func (r *bits) value(size int) int32 {
	if size == 0 {
		return 0
	}
	return extend(r.take(size), size)
}

// symbol reads a code.
func (r *bits) symbol(t *codes) (byte, bool) {
	if r.n < 16 {
		r.fill()
	}
	e := t.look[r.acc>>(64-lookBits)]
	symbol, length := byte(e), int(e>>8)
	if e == 0 {
		if symbol, length = t.long(r.acc); length == 0 {
			return 0, false
		}
	}
	r.acc <<= length & 63
	r.n -= length
	return symbol, true
}
