package kernels

import "math"

// F16Bits rounds x to IEEE 754 binary16, to nearest even.
func F16Bits(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	exp := int32(b>>23&0xff) - 127
	man := b & 0x7fffff
	switch {
	case exp == 128: // infinity, or a NaN, kept quiet
		if man != 0 {
			return sign | 0x7e00
		}
		return sign | 0x7c00
	case exp > 15:
		return sign | 0x7c00
	case exp >= -14: // normal; a carry out of the mantissa raises the exponent
		return sign | uint16(roundEven(uint32(exp+15)<<23|man, 13))
	case exp >= -25: // subnormal in binary16: units of 2^-24
		return sign | uint16(roundEven(man|0x800000, uint(-1-exp)))
	}
	return sign
}

// F16Float widens binary16 bits.
func F16Float(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h >> 10 & 0x1f)
	man := uint32(h & 0x3ff)
	switch {
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	case exp == 0: // zero or subnormal
		f := float32(man) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}

// BF16Bits rounds x to bfloat16, to nearest even.
func BF16Bits(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 { // NaN, kept quiet
		return uint16(b>>16) | 0x40
	}
	return uint16(roundEven(b, 16))
}

// BF16Float widens bfloat16 bits.
func BF16Float(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// roundEven shifts v right by n bits, rounding to nearest, ties to even.
func roundEven(v uint32, n uint) uint32 {
	half := uint64(1) << (n - 1)
	return uint32((uint64(v) + half - 1 + uint64(v>>n&1)) >> n)
}
