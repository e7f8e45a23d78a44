package jpeg

import (
	"bytes"
	"encoding/binary"
)

// bits reads the input bit by bit. acc holds the next bits, left-aligned; n of them are valid.
type bits struct {
	acc uint64
	n   int
	pad int // bits of n, and of those before, that were added at a marker
	b   []byte
	pos int
	end bool // the file ended
}

func (r *bits) reset(b []byte, pos int) { *r = bits{b: b, pos: pos} }

// fill makes n at least 48.
func (r *bits) fill() {
	if r.pos+8 <= len(r.b) {
		v := binary.BigEndian.Uint64(r.b[r.pos:])
		// No byte is 0xff, which means that no byte of the complement is 0. acc also gets
		// bits beyond the whole bytes, which are put there again later.
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

// fillSlowly drops the 0 after each 0xff. At a marker it continues with zeros.
func (r *bits) fillSlowly() {
	for r.n <= 56 {
		var c byte
		switch {
		case r.pos+1 >= len(r.b): // not even a marker
			r.pad += 8
			r.end = true
		case r.b[r.pos] != 0xff:
			c = r.b[r.pos]
			r.pos++
		case r.b[r.pos+1] == 0:
			c = 0xff
			r.pos += 2
		case r.b[r.pos+1] == 0xff: // a fill byte
			r.pos++
			continue
		default:
			r.pad += 8
		}
		r.acc |= uint64(c) << (56 - r.n)
		r.n += 8
	}
}

// overrun reports whether more bits were read than the input has.
func (r *bits) overrun() bool { return r.pad > r.n }

// restart goes past the restart marker want, which should come next. If it does not, restart
// does what libjpeg does by default (jpeg_resync_to_restart in jdmarker.c). Earlier markers are
// skipped. One of the next two markers is left unread, so this interval has no data. Any other
// restart marker counts as the right one. restart reports whether data follows; end tells
// whether the file ended.
func (r *bits) restart(want byte) bool {
	for ; ; r.pos += 2 {
		i := r.pos
		for i+1 < len(r.b) && (r.b[i] != 0xff || r.b[i+1] == 0 || r.b[i+1] == 0xff) {
			i++
		}
		r.reset(r.b, i)
		if i+1 >= len(r.b) {
			r.end = true
			return false
		}
		switch m := r.b[i+1]; {
		case m < sof0: // no marker at all
		case m < rst0 || m > rst7, m == after(want, 1), m == after(want, 2):
			return false
		case m == after(want, 6), m == after(want, 7):
		default:
			r.pos += 2
			return true
		}
	}
}

// trailer reports whether libjpeg knows the next marker, or there is none. If data end too
// early with an unknown marker, libjpeg fails.
func (r *bits) trailer() bool {
	for i := r.pos; i+1 < len(r.b); i++ {
		if r.b[i] != 0xff {
			continue
		}
		switch m := r.b[i+1]; {
		case m == 0, m == 0xff, m >= rst0 && m <= rst7: // and go on
		default:
			return known(m)
		}
	}
	return true
}

// known reports whether libjpeg accepts a marker that comes after the data.
func known(m byte) bool {
	return m == eoi || m == sos || m == dht || m == dqt || m == dri || m == com || m >= app0 && m < app0+16
}

// ends reports whether the following data end at a marker that libjpeg knows. Then this
// package accepts the file whatever the data are.
func (r *bits) ends() bool {
	for i := r.pos; ; {
		n := bytes.IndexByte(r.b[i:], 0xff)
		if n < 0 || i+n+1 >= len(r.b) {
			return false
		}
		i += n + 1
		switch m := r.b[i]; {
		case m == 0xff: // its second byte may be the marker's first
		case m == 0, m >= rst0 && m <= rst7:
			i++
		default:
			return known(m)
		}
	}
}

// after returns the restart marker n places after another.
func after(marker byte, n byte) byte { return rst0 + (marker+n)&7 }

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
		symbol, length = t.long(r.acc)
	}
	r.acc <<= length & 63
	r.n -= length
	return symbol, length != badCode
}
