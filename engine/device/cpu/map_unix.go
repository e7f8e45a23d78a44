//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package cpu

import "syscall"

// mapping is memory from the system, zeroed and page-aligned.
type mapping struct{ mem []byte }

func mapMemory(n int) (*mapping, error) {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, err
	}
	adviseHuge(b)
	return &mapping{b}, nil
}

func (m *mapping) unmap() {
	if m.mem != nil {
		_ = syscall.Munmap(m.mem) // fails only for memory that is not mapped
		m.mem = nil
	}
}
