package jpeg

// pairBits is how many bits select an entry of a table for C.
const pairBits = 11

// slow, in the place of coefficients, leaves an entry to the other tables.
const slow = 127

// pairs fills the tables that C reads, in which an entry is what comes first in pairBits
// bits: up to two coefficients and the end of the block, or, where they are skipped, as
// many as there are. From the low bits on, an entry has
//
//	6 (of 8) bits: how many bits it takes
//	8 bits: how many coefficients must be left for it; slow where it is none
//	8 bits: how many coefficients it goes on; 64 more at the end of a block
//
// and one of pair as well, of 64 bits,
//
//	4 bits each: zeros before the first value and before the second
//	16 bits each: the second value, the first
//
// A value that there is not is 0, behind the others.
func (t *acTable) pairs() {
	for i := range t.pair {
		t.pair[i] = t.two(uint64(i) << (64 - pairBits))
		t.skip[i] = t.many(uint64(i) << (64 - pairBits))
	}
	t.paired = true
}

// next reads a code: how many zeros, and the size of the value after them; bits is of
// the code. last is the end of the block. All is 0 where the code is longer than left.
func (t *codes) next(acc uint64, left int) (zeros, size, bits int, last bool) {
	e := t.look[acc>>(64-lookBits)]
	symbol, length := byte(e), int(e>>8)
	if e == 0 {
		symbol, length = t.long(acc)
	}
	if length > left {
		return 0, 0, 0, false
	}
	return int(symbol >> 4), int(symbol & 15), length, symbol&15 == 0 && symbol != 0xf0
}

// two makes an entry of pair.
func (t *acTable) two(acc uint64) uint64 {
	taken, on, most := 0, 0, 0
	var zeros [2]int
	var values [2]int32
	n := 0
	for n <= len(values) {
		z, size, bits, last := t.next(acc<<taken, pairBits-taken)
		if last {
			taken += bits
			if most = on; on > 0 {
				most++ // a block that is full has no end
			}
			return entry(taken, most, on+64) | packed(zeros, values)
		}
		if size == 0 || taken+bits+size > pairBits || n == len(values) {
			break
		}
		zeros[n], values[n] = z, extend(int32(acc<<(taken+bits)>>(64-size)), size)
		taken += bits + size
		on += z + 1
		n++
	}
	if n == 0 {
		return entry(0, slow, 0)
	}
	return entry(taken, on, on) | packed(zeros, values)
}

func packed(zeros [2]int, values [2]int32) uint64 {
	return uint64(zeros[0])<<24 | uint64(zeros[1])<<28 | uint64(uint16(values[1]))<<32 | uint64(uint16(values[0]))<<48
}

func entry(bits, most, on int) uint64 { return uint64(bits) | uint64(most)<<8 | uint64(on)<<16 }

// skipBits is what four entries of skip may take of 56 bits. Of the last value nothing
// needs to be known but its size.
const skipBits = 14

// many makes an entry of skip.
func (t *acTable) many(acc uint64) uint32 {
	taken, on := 0, 0
	for taken < pairBits {
		z, size, bits, last := t.next(acc<<taken, pairBits-taken)
		if last {
			most := on
			if on > 0 {
				most++
			}
			return uint32(entry(taken+bits, most, on+64))
		}
		if bits == 0 || taken+bits+size > skipBits {
			break
		}
		taken += bits + size
		on += z + 1
	}
	if on == 0 {
		return uint32(entry(0, slow, 0))
	}
	return uint32(entry(taken, on, on))
}
