package ptxvm

import "math/bits"

// "Integer Arithmetic Instructions", and the shifts of "Logic and Shift
// Instructions". Some names serve floats too; those are in float.go.
var integers = map[string]func(*builder){
	"add": func(b *builder) {
		b.arithmetic(addFloat, func(x, y uint64) uint64 { return x + y }, "u16", "s16", "u32", "s32", "u64", "s64")
	},
	"sub": func(b *builder) {
		b.arithmetic(subFloat, func(x, y uint64) uint64 { return x - y }, "u16", "s16", "u32", "s32", "u64", "s64")
	},
	"mul": multiply,
	"mad": multiplyAdd,
	"div": divide,
	"rem": func(b *builder) {
		b.division(b.one("u16", "s16", "u32", "s32", "u64", "s64"), func(x, y int64) int64 { return x % y }, func(x, y uint64) uint64 { return x % y })
	},
	"neg": negate,
	"abs": absolute,
	"min": func(b *builder) { b.extreme(true) },
	"max": func(b *builder) { b.extreme(false) },
	"bfe": extract,
	"shl": shiftLeft,
	"shr": shiftRight,
}

// arithmetic is d = a op c, of integers of any sign, or of floats.
func (b *builder) arithmetic(floats func(*builder, string), f func(x, y uint64) uint64, types ...string) {
	if t, ok := b.floatType(); ok {
		floats(b, t)
		return
	}
	size := typeSize(b.one(types...))
	d, x, y := b.dst(size), b.src(size), b.src(size)
	b.integer2(size, d, x, y, f)
}

// integer2 runs f in 64 bits and keeps the lower ones.
func (b *builder) integer2(size int, d, x, y register, f func(x, y uint64) uint64) {
	switch size {
	case 8:
		b.in.run = binary64(d, x, y, f)
	case 4:
		b.in.run = binary32(d, x, y, func(x, y uint32) uint32 { return uint32(f(uint64(x), uint64(y))) })
	default:
		b.in.run = binary32(d, x, y, func(x, y uint32) uint32 { return uint32(uint16(f(uint64(x), uint64(y)))) })
	}
}

// product is mul's and mad's: the lower half, the upper half, or all of it.
func product(mode, t string) (size, out int, f func(x, y uint64) uint64) {
	size = typeSize(t)
	sign := t[0] == 's'
	switch {
	case mode == "lo":
		return size, size, func(x, y uint64) uint64 { return x * y }
	case mode == "wide" && sign:
		return size, 2 * size, func(x, y uint64) uint64 { return uint64(signed(x, size) * signed(y, size)) }
	case mode == "wide":
		return size, 2 * size, func(x, y uint64) uint64 { return x * y }
	case sign && size == 8:
		return size, size, func(x, y uint64) uint64 {
			hi, _ := bits.Mul64(x, y)
			return hi - uint64(int64(x)>>63)&y - uint64(int64(y)>>63)&x
		}
	case sign:
		return size, size, func(x, y uint64) uint64 { return uint64(signed(x, size) * signed(y, size) >> (8 * size)) }
	case size == 8:
		return size, size, func(x, y uint64) uint64 { hi, _ := bits.Mul64(x, y); return hi }
	}
	return size, size, func(x, y uint64) uint64 { return x * y >> (8 * size) }
}

func (b *builder) productType() (size, out int, f func(x, y uint64) uint64) {
	mode := b.one("lo", "hi", "wide")
	types := []string{"u16", "s16", "u32", "s32", "u64", "s64"}
	if mode == "wide" {
		types = types[:4]
	}
	return product(mode, b.one(types...))
}

func multiply(b *builder) {
	if t, ok := b.floatType(); ok {
		mulFloat(b, t)
		return
	}
	size, out, f := b.productType()
	d, x, y := b.dst(out), b.src(size), b.src(size)
	b.in.run = b.lanes(func(w *warp, l int) { w.set(d, l, f(w.value(x, l), w.value(y, l))) })
}

func multiplyAdd(b *builder) {
	size, out, f := b.productType()
	d, x, y, z := b.dst(out), b.src(size), b.src(size), b.src(out)
	b.in.run = b.lanes(func(w *warp, l int) { w.set(d, l, f(w.value(x, l), w.value(y, l))+w.value(z, l)) })
}

// lanes calls f for each lane.
func (b *builder) lanes(f func(w *warp, l int)) func(*warp, uint32) {
	return func(w *warp, m uint32) {
		for ; m != 0; m &= m - 1 {
			f(w, bits.TrailingZeros32(m)&31)
		}
	}
}

func divide(b *builder) {
	if len(b.mods) > 1 { // a rounding: floats
		divFloat(b)
		return
	}
	b.division(b.one("u16", "s16", "u32", "s32", "u64", "s64"), func(x, y int64) int64 { return x / y }, func(x, y uint64) uint64 { return x / y })
}

// division refuses to divide by zero, whose result is unspecified.
func (b *builder) division(t string, s func(x, y int64) int64, u func(x, y uint64) uint64) {
	size := typeSize(t)
	b.in.passes = false
	d, x, y := b.dst(size), b.src(size), b.src(size)
	b.in.run = b.lanes(func(w *warp, l int) {
		n, v := w.value(x, l), w.value(y, l)
		switch {
		case v == 0:
			w.fail(l, "division by zero")
		case t[0] == 's':
			w.set(d, l, uint64(s(signed(n, size), signed(v, size))))
		default:
			w.set(d, l, u(n, v))
		}
	})
}

func negate(b *builder) {
	if t, ok := b.floatType(); ok {
		b.signBit(t, func(x, sign uint32) uint32 { return x ^ sign })
		return
	}
	size := typeSize(b.one("s16", "s32", "s64"))
	d, x := b.dst(size), b.src(size)
	b.in.run = b.lanes(func(w *warp, l int) { w.set(d, l, -w.value(x, l)) })
}

func absolute(b *builder) {
	if t, ok := b.floatType(); ok {
		b.signBit(t, func(x, sign uint32) uint32 { return x &^ sign })
		return
	}
	size := typeSize(b.one("s16", "s32", "s64"))
	d, x := b.dst(size), b.src(size)
	b.in.run = b.lanes(func(w *warp, l int) {
		v := signed(w.value(x, l), size)
		w.set(d, l, uint64(max(v, -v)))
	})
}

func (b *builder) extreme(least bool) {
	if t, ok := b.floatType(); ok {
		b.extremeFloat(t, least)
		return
	}
	t := b.one("u16", "s16", "u32", "s32", "u64", "s64")
	size := typeSize(t)
	d, x, y := b.dst(size), b.src(size), b.src(size)
	b.integer2(size, d, x, y, func(x, y uint64) uint64 {
		less := x < y
		if t[0] == 's' {
			less = signed(x, size) < signed(y, size)
		}
		if less == least {
			return x
		}
		return y
	})
}

// extract is "bfe": len bits of a from bit pos on, by the lower 8 bits of each.
// The result is extended by zeros, or by the sign: the field's upper bit, or a's
// where the field reaches past it.
func extract(b *builder) {
	t := b.one("u32", "s32", "u64", "s64")
	size := typeSize(t)
	d, x, p, n := b.dst(size), b.src(size), b.src(4), b.src(4)
	b.in.run = b.lanes(func(w *warp, l int) {
		v, pos, count := w.value(x, l), uint(w.value(p, l)&0xff), uint(w.value(n, l)&0xff)
		msb := uint(8*size - 1)
		var sign uint64
		if t[0] == 's' && count != 0 {
			sign = v >> min(pos+count-1, msb) & 1
		}
		var out uint64
		for i := uint(0); i <= msb; i++ {
			bit := sign
			if i < count && pos+i <= msb {
				bit = v >> (pos + i) & 1
			}
			out |= bit << i
		}
		w.set(d, l, out)
	})
}

// Shifts by more than the register's bits count as by that many.
func shiftLeft(b *builder) {
	size := typeSize(b.one("b16", "b32", "b64"))
	d, x, n := b.dst(size), b.src(size), b.src(4)
	b.in.run = b.lanes(func(w *warp, l int) { w.set(d, l, w.value(x, l)<<w.value(n, l)) })
}

func shiftRight(b *builder) {
	t := b.one("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64")
	size := typeSize(t)
	d, x, n := b.dst(size), b.src(size), b.src(4)
	b.in.run = b.lanes(func(w *warp, l int) {
		if t[0] == 's' {
			w.set(d, l, uint64(signed(w.value(x, l), size)>>w.value(n, l)))
		} else {
			w.set(d, l, w.value(x, l)>>w.value(n, l))
		}
	})
}
