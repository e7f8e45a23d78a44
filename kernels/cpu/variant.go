package cpu

import "unsafe"

// variant is an instruction set that the kernels are compiled for.
type variant int32

const (
	pureGo variant = iota
	generic
	avx2
	avx512
)

func (v variant) String() string { return [...]string{"go", "generic", "avx2", "avx512"}[v] }

// Flags of the matrix kernels, as in native.h.
const (
	accumulate = 1
	relu       = 2
	stream     = 4
	cold       = 8
)

// streamFloats is the size from which a result is written past the caches: 2 MiB. A larger one
// would be evicted before it is read again.
const streamFloats = 1 << 19

// streams returns the flag for a result of n floats.
func streams(n int) int {
	if n >= streamFloats {
		return stream
	}
	return 0
}

func flags(acc, rectify bool) int {
	f := 0
	if acc {
		f |= accumulate
	}
	if rectify {
		f |= relu
	}
	return f
}

// window is a convolution's geometry for gather, as in native.h.
type window struct {
	h, w, c           int
	oh, ow            int
	r, s, stride, pad int
	dr, ds            int // the first tap: rows and columns past the window's corner
}

// grid is how the tiles of minimal filtering cover a tensor of h*w*c, as struct tiles in native.h.
// stride is the convolution's. half is which half of the positions is meant, 1 or 2, or 0 for all.
type grid struct {
	h, w, c, pad, th, tw, stride, half int
}

// misaligned returns how many bytes of b lie before the first cache line that begins in it.
func misaligned(b []byte) int {
	return int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
}

// ceil divides, rounding up; align rounds n up to a multiple of m.
func ceil(n, m int) int  { return (n + m - 1) / m }
func align(n, m int) int { return ceil(n, m) * m }
