package jpeg

// pairBits is how many bits select an entry of a table for C.
const pairBits = 10

// slow stands in the place of the number of coefficients. It leaves the entry to the other
// tables.
const slow = 127

// pairs fills the tables that C reads. An entry says what the first pairBits bits begin with:
// up to two coefficients and the end of the block. In the table for skipped blocks these are
// as many coefficients as the bits hold. The last value may lie beyond these bits. Only its
// size must lie within them. From the low bits on, an entry has
//
//	6 (of 8) bits: how many bits it takes, at most 26, or 18 if skipped
//	8 bits: how many coefficients must be left for it; slow where it is none
//	8 bits: how many coefficients it goes on; 64 more at the end of a block
//
// and one of pair as well, of 64 bits,
//
//	4 bits: where its first value is, from the next coefficient on
//	5 (of 8) bits: where its second value is
//	4 bits: the size of the second value
//	4 (of 8) bits: how many bits come before the second value
//	16 bits: the first value
//
// A missing first value is 0 and has the place of the second, which is written after it. A
// missing second value has no bits and the place after the first.
func (t *acTable) pairs() {
	for i := range t.pair {
		t.pair[i] = t.two(uint64(i) << (64 - pairBits))
		t.skip[i] = t.many(uint64(i) << (64 - pairBits))
	}
	t.paired = true
}

// next reads a code: how many zeros, the size of the value after them, and how many bits the
// code has. last means the end of the block. All is 0 if the code is longer than left.
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
	zeros, size, taken, last := t.next(acc, pairBits)
	switch {
	case last:
		return entry(taken, 0, 64) | values(0, 0, 1, 0, 0)
	case size == 0: // or sixteen zeros
		return entry(0, slow, 0)
	case taken+size > pairBits:
		return entry(taken+size, zeros+1, zeros+1) | values(0, zeros, zeros, size, taken)
	}
	value := extend(int32(acc<<taken>>(64-size)), size)
	taken += size
	at, on := zeros, zeros+1
	zeros, size, bits, last := t.next(acc<<taken, pairBits-taken)
	switch {
	case last: // a block that is full has no end
		return entry(taken+bits, on+1, on+64) | values(value, at, at+1, 0, 0)
	case size == 0:
		return entry(taken, on, on) | values(value, at, at+1, 0, 0)
	}
	second := on + zeros
	shift := taken + bits
	taken, on = shift+size, second+1
	most, next := on, on
	if taken < pairBits {
		if _, _, bits, last := t.next(acc<<taken, pairBits-taken); last {
			taken, most, next = taken+bits, on+1, on+64
		}
	}
	return entry(taken, most, next) | values(value, at, second, size, shift)
}

func values(first int32, at, second, size, shift int) uint64 {
	return uint64(at)<<24 | uint64(second)<<28 | uint64(size)<<36 | uint64(shift)<<40 | uint64(uint16(first))<<48
}

func entry(bits, most, on int) uint64 { return uint64(bits) | uint64(most)<<8 | uint64(on)<<16 }

// skipBits is how many of 56 bits each of three entries of skip may use.
const skipBits = 18

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
