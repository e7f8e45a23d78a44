package kernels

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// Type is the element type of activations and weights in an operation.
type Type uint8

const (
	F32  Type = iota
	TF32      // float32 in memory, 10-bit mantissa products
	F16
	BF16
	I32 // labels and augmentation, in Arg only
	U8  // pixels, pooling indices and raw bytes, in Arg only
)

// Size returns the bytes of one element.
func (t Type) Size() int {
	switch t {
	case F16, BF16:
		return 2
	case U8:
		return 1
	}
	return 4
}

func (t Type) String() string {
	return [...]string{"fp32", "tf32", "fp16", "bf16", "int32", "uint8"}[t]
}

// Floats views b as float32. b must be aligned to 4 bytes.
func Floats(b []byte) []float32 { return view[float32](b) }

// Ints views b as int32. b must be aligned to 4 bytes.
func Ints(b []byte) []int32 { return view[int32](b) }

func view[T float32 | int32](b []byte) []T {
	if len(b) < 4 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// Load returns b's elements of type t as float32: a view of b when they are
// float32 already, else a converted copy.
func Load(b []byte, t Type) []float32 {
	if t.Size() == 4 {
		return Floats(b)
	}
	v := make([]float32, len(b)/2)
	for i := range v {
		h := binary.NativeEndian.Uint16(b[2*i:])
		if t == F16 {
			v[i] = F16Float(h)
		} else {
			v[i] = BF16Float(h)
		}
	}
	return v
}

// Store writes v into b as elements of type t. What Load returned as a view is
// in place already.
func Store(b []byte, t Type, v []float32) {
	if t.Size() == 4 {
		copy(Floats(b), v)
		return
	}
	for i, x := range v {
		h := BF16Bits(x)
		if t == F16 {
			h = F16Bits(x)
		}
		binary.NativeEndian.PutUint16(b[2*i:], h)
	}
}

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
