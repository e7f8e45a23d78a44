package ptxvm

import (
	"math"
	"math/bits"
)

// "Floating Point Instructions" and "Half Precision Floating Point
// Instructions". float32 operations round once, to nearest even. Without .ftz
// subnormal numbers count.
var floats = map[string]func(*builder){
	"fma": fused,
	"rcp": func(b *builder) { b.rounded(); b.unaryFloat(func(x float32) float32 { return 1 / x }) },
	"sqrt": func(b *builder) {
		b.rounded()
		b.unaryFloat(func(x float32) float32 { return float32(math.Sqrt(float64(x))) })
	},
	"ex2": func(b *builder) { b.approximate(math.Exp2) },
	"lg2": func(b *builder) { b.approximate(math.Log2) },
}

// nan32 is the NaN that arithmetic gives ("Floating Point Instructions").
const nan32 = 0x7fffffff

func canonical(f float32) uint32 {
	if f != f {
		return nan32
	}
	return math.Float32bits(f)
}

// floatType takes [.rn].f32 or [.rn].f16, if that is what the modifiers say.
func (b *builder) floatType() (string, bool) {
	last := ""
	if len(b.mods) > 0 {
		last = b.mods[len(b.mods)-1]
	}
	if last != "f32" && last != "f16" {
		return "", false
	}
	b.has("rn")
	b.must(last)
	return last, true
}

func (b *builder) rounded() { b.must("rn", "f32") }

func (b *builder) unaryFloat(f func(float32) float32) {
	d, x := b.dst(4), b.src(4)
	b.in.run = unary32(d, x, func(x uint32) uint32 { return canonical(f(float32of(x))) })
}

func (b *builder) binaryFloat(t string, f func(x, y float32) float32) {
	size := typeSize(t)
	d, x, y := b.dst(size), b.src(size), b.src(size)
	if t == "f16" {
		// float32 holds sums and products of two float16 well enough that the second
		// rounding does no harm: 24 >= 2*11 + 2 bits.
		b.in.run = binary32(d, x, y, func(x, y uint32) uint32 { return uint32(toHalf(f(halfFloat(uint16(x)), halfFloat(uint16(y))))) })
		return
	}
	b.in.run = binary32(d, x, y, func(x, y uint32) uint32 { return canonical(f(float32of(x), float32of(y))) })
}

func addFloat(b *builder, t string) {
	b.binaryFloat(t, func(x, y float32) float32 { return x + y })
}
func subFloat(b *builder, t string) {
	b.binaryFloat(t, func(x, y float32) float32 { return x - y })
}
func mulFloat(b *builder, t string) {
	b.binaryFloat(t, func(x, y float32) float32 { return x * y })
}
func divFloat(b *builder) {
	b.rounded()
	b.binaryFloat("f32", func(x, y float32) float32 { return x / y })
}

func (b *builder) signBit(t string, f func(x, sign uint32) uint32) {
	size := typeSize(t)
	d, x := b.dst(size), b.src(size)
	sign := uint32(1) << (8*size - 1)
	b.in.run = unary32(d, x, func(x uint32) uint32 { return f(x, sign) })
}

// extremeFloat: a NaN loses against a number; +0 is above -0.
func (b *builder) extremeFloat(t string, least bool) {
	if t != "f32" {
		b.fail("min and max of .%s", t)
	}
	b.binaryFloat(t, func(x, y float32) float32 {
		switch {
		case x != x:
			return y
		case y != y:
			return x
		case x == y && math.Signbit(float64(x)) == least, x < y == least && x != y:
			return x
		}
		return y
	})
}

// fused is the multiply-add, the instruction that most time goes to.
func fused(b *builder) {
	b.must("rn", "f32")
	d, x, y, z := b.dst(4), b.src(4), b.src(4), b.src(4)
	b.in.run = func(w *warp, m uint32) {
		D, X, Y, Z := &w.r32[d.slot], &w.r32[x.slot], &w.r32[y.slot], &w.r32[z.slot]
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			D[l] = fma32(X[l], Y[l], Z[l])
		}
	}
}

// fma32 is x*y + z, rounded once. The product is exact in float64. The sum is rounded
// to odd there. So rounding it again to float32 is as good as rounding the exact value
// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms
// using rounding to odd").
func fma32(x, y, z uint32) uint32 {
	p := float64(float32of(x)) * float64(float32of(y))
	a := float64(float32of(z))
	s := p + a
	u := math.Float64bits(s)
	if u>>52&0x7ff == 0x7ff {
		return canonical(float32(s))
	}
	// The error of the sum (Knuth's TwoSum).
	back := float64(s - p)
	rest := float64(p-float64(s-back)) + float64(a-back)
	if rest != 0 && u&1 == 0 {
		if (rest > 0) == (s > 0) {
			u++
		} else {
			u--
		}
	}
	return math.Float32bits(float32(math.Float64frombits(u)))
}

// approximate is ex2 and lg2 with .approx.ftz: subnormal arguments and results
// are zeros of their sign. The result here is exact to float32's rounding; the
// hardware's differs by up to 2^-22.
func (b *builder) approximate(f func(float64) float64) {
	b.must("approx", "ftz", "f32")
	b.unaryFloat(func(x float32) float32 { return flush(float32(f(float64(flush(x))))) })
}

func flush(x float32) float32 {
	if math.Float32bits(x)&0x7f800000 == 0 {
		return float32of(math.Float32bits(x) & 0x80000000)
	}
	return x
}
