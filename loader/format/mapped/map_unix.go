//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package mapped

import (
	"errors"
	"os"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// mapping is a file in memory.
type mapping struct {
	mem     []byte
	touched atomic.Int64 // bytes that were mapped in since they were given back, about
}

func mapFile(f *os.File, size int64) (*mapping, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &mapping{mem: b}, nil
}

// Pages that were read count as this process's memory until they are given back to the page
// cache, where they stay: resident is how many bytes of them are kept, around how many the
// system maps in for one.
const (
	resident = 64 << 20
	around   = 64 << 10
)

var errFault = errors.New("the system cannot read it")

// read copies. A page that cannot be had is an error: the file shrank, or the disk is broken.
func (m *mapping) read(dst []byte, off int64) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(interface{ Addr() uintptr }); !ok {
				panic(p)
			}
			err = errFault
		}
	}()
	copy(dst, m.mem[off:])
	if m.touched.Add(max(int64(len(dst)), around)) > resident {
		m.touched.Store(0)
		_ = unix.Madvise(m.mem, unix.MADV_DONTNEED) // else they stay where they are
	}
	return nil
}

func (m *mapping) unmap() {
	_ = unix.Munmap(m.mem) // fails only for memory that is not mapped
	m.mem = nil
}

// sizeOf is how long the file is now.
func sizeOf(f *os.File) (int64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return st.Size, err
}
