//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filemap

import (
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// mapped maps f into memory; it returns nil if that is impossible.
func mapped(f *os.File, size int64) []byte {
	mem, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return mem
}

const (
	piece  = 1 << 10  // bytes that are copied at a time; above 2 KiB Go uses an instruction that waits for each line of memory
	around = 64 << 10 // bytes that the system maps in for a missing one
)

// read fills b and reports whether the file has all of it.
func (f *File) read(b []byte, off int64) (whole bool) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			if _, fault := p.(interface{ Addr() uintptr }); !fault {
				panic(p)
			}
		}
	}()
	from := f.mem[off : off+int64(len(b))]
	for i := 0; i < len(b); i += piece {
		copy(b[i:min(i+piece, len(b))], from[i:])
	}
	if f.resident > 0 && f.touched.Add(max(int64(len(b)), around)) > f.resident {
		f.touched.Store(0)
		_ = unix.Madvise(f.mem, unix.MADV_DONTNEED) // if this fails they stay in memory
	}
	if b[len(b)-1] != 0 {
		return true
	}
	size, err := f.Size()
	return err == nil && size >= off+int64(len(b))
}

func unmap(mem []byte) {
	if mem != nil {
		_ = unix.Munmap(mem) // it can only fail if mem is not a map
	}
}

func sizeOf(f *os.File) (int64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return st.Size, err
}
