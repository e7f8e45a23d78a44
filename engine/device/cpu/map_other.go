//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package cpu

import "unsafe"

// mapping is memory from the Go heap, where the system offers no plain mmap.
type mapping struct{ mem []byte }

func mapMemory(n int) (*mapping, error) {
	b := make([]byte, n+4096)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 4095)
	return &mapping{b[off : off+n : off+n]}, nil
}

func (m *mapping) unmap() { m.mem = nil }
