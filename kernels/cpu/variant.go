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

// misaligned returns how many bytes of b come before the next cache line.
func misaligned(b []byte) int {
	return int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
}

func best() variant { return pureGo }
