package kernels

import (
	"encoding/binary"
	"unsafe"
)

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
