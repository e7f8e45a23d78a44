package ptxvm

import "math"

// halves are the values of all float16.
var halves = func() *[1 << 16]float32 {
	var values [1 << 16]float32
	for i := range values {
		exponent, fraction := i>>10&31, float64(i&0x3ff)
		v := math.Ldexp(1024+fraction, exponent-25)
		switch {
		case exponent == 0:
			v = math.Ldexp(fraction, -24)
		case exponent == 31 && fraction == 0:
			v = math.Inf(1)
		case exponent == 31:
			v = math.NaN()
		}
		if i&0x8000 != 0 {
			v = -v
		}
		values[i] = float32(v)
	}
	return &values
}()

// halfFloat widens float16 (IEEE 754 binary16).
func halfFloat(h uint16) float32 { return halves[h] }

// toHalf rounds to float16, to nearest even; a NaN becomes 0x7fff.
func toHalf(f float32) uint16 {
	x := float64(f)
	sign := uint16(0)
	if math.Signbit(x) {
		sign = 0x8000
	}
	switch {
	case x != x:
		return 0x7fff
	case math.Abs(x) >= 65520: // half a step over the largest
		return sign | 0x7c00
	}
	_, e := math.Frexp(x)
	unit := math.Ldexp(1, max(e-11, -24)) // the last bit's worth
	n := math.RoundToEven(math.Abs(x) / unit)
	if e = max(e-11, -24); n == 0 {
		return sign
	} else if n < 1024 { // subnormal
		return sign | uint16(n)
	}
	// 1024 to 2048 units: the carry into the exponent adds itself.
	return sign + uint16(e+25-1)<<10 + uint16(n)
}

// toBfloat rounds to bfloat16, to nearest even; a NaN becomes 0x7fff.
func toBfloat(f float32) uint16 {
	if f != f {
		return 0x7fff
	}
	u := math.Float32bits(f)
	kept, rest := u>>16, u&0xffff
	if rest > 0x8000 || rest == 0x8000 && kept&1 == 1 {
		kept++
	}
	return uint16(kept)
}

// toTF32 rounds to 10 bits of fraction, to nearest, ties away from zero. The
// lower 13 bits are zero here; the manual leaves them open.
func toTF32(f float32) uint32 {
	u := math.Float32bits(f)
	if f != f {
		return nan32 &^ 0x1fff
	}
	if u&0x7f800000 == 0x7f800000 {
		return u
	}
	return (u + 0x1000) &^ 0x1fff
}

// convert is "cvt". Of .f16x2 and .bf16x2 the first source becomes the upper half.
func convert(b *builder) {
	rounding := ""
	for _, r := range []string{"rn", "rna", "rzi"} {
		if b.has(r) {
			rounding = r
		}
	}
	to := b.one("u16", "s16", "u32", "s32", "u64", "s64", "f16", "f32", "bf16", "f16x2", "bf16x2", "tf32")
	from := b.one("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "f32")
	out := typeSize(to)
	type rule struct{ rounding, to, from string }
	r := rule{rounding, to, from}
	if r == (rule{"rn", "f16x2", "f32"}) || r == (rule{"rn", "bf16x2", "f32"}) {
		narrow := toHalf
		if to == "bf16x2" {
			narrow = toBfloat
		}
		d, hi, lo := b.dst(4), b.src(4), b.src(4)
		b.in.run = binary32(d, hi, lo, func(hi, lo uint32) uint32 {
			return uint32(narrow(float32of(hi)))<<16 | uint32(narrow(float32of(lo)))
		})
		return
	}
	var f func(v uint64) uint64
	integers := isInteger(to) && isInteger(from)
	switch {
	case integers && rounding == "":
		in, sign := typeSize(from), from[0] == 's'
		f = func(v uint64) uint64 {
			if sign {
				return uint64(signed(v, in))
			}
			return v & (1<<(8*in-1)<<1 - 1)
		}
	case r == rule{"", "f32", "f16"}:
		f = func(v uint64) uint64 { return uint64(canonical(halfFloat(uint16(v)))) }
	case r == rule{"rn", "f16", "f32"}:
		f = func(v uint64) uint64 { return uint64(toHalf(float32of(uint32(v)))) }
	case r == rule{"rn", "bf16", "f32"}:
		f = func(v uint64) uint64 { return uint64(toBfloat(float32of(uint32(v)))) }
	case r == rule{"rna", "tf32", "f32"}:
		f = func(v uint64) uint64 { return uint64(toTF32(float32of(uint32(v)))) }
	case rounding == "rn" && to == "f32" && isInteger(from):
		in, sign := typeSize(from), from[0] == 's'
		f = func(v uint64) uint64 {
			if sign {
				return uint64(math.Float32bits(float32(signed(v, in))))
			}
			return uint64(math.Float32bits(float32(v)))
		}
	case r == rule{"rzi", "s32", "f32"}:
		// Toward zero; what does not fit becomes the nearest that does, a NaN zero.
		f = func(v uint64) uint64 {
			x := math.Trunc(float64(float32of(uint32(v))))
			switch {
			case x != x:
				return 0
			case x > math.MaxInt32:
				return math.MaxInt32
			case x < math.MinInt32:
				x = math.MinInt32
			}
			return uint64(uint32(int32(x)))
		}
	default:
		b.fail("no conversion .%s.%s.%s", rounding, to, from)
		return
	}
	d := b.dst(out)
	in := typeSize(from)
	o := b.operand()
	// An integer source may lie in a wider register ("Operand Size Exceeding
	// Instruction-Type Size").
	if isInteger(from) && o.kind == isRegister && o.reg.size > in {
		in = o.reg.size
	}
	x := b.read(o, max(in, 2))
	b.in.run = b.lanes(func(w *warp, l int) { w.set(d, l, f(w.value(x, l))) })
}

func isInteger(t string) bool { return t[0] == 'u' || t[0] == 's' }
