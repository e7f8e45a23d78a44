package host

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const seesPageCache = true

// resident returns how many bytes of a file are in the page cache. It asks cachestat, which exists
// from Linux 6.5 on, or else mincore.
func resident(f *os.File, size int64) (int64, error) {
	if size == 0 {
		return 0, nil
	}
	page := int64(os.Getpagesize())
	var s unix.Cachestat_t
	switch err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &s, 0); {
	case err == nil:
		return int64(s.Cache) * page, nil
	case !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EOPNOTSUPP):
		return 0, os.NewSyscallError("cachestat", err)
	}
	return mincore(f, size)
}

// mincore counts the pages of a file that are in memory.
func mincore(f *os.File, size int64) (int64, error) {
	page := int64(os.Getpagesize())
	m, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, os.NewSyscallError("mmap", err)
	}
	defer func() { _ = unix.Munmap(m) }() // it fails only where there is no mapping
	in := make([]byte, (size+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(size), uintptr(unsafe.Pointer(&in[0]))); errno != 0 {
		return 0, os.NewSyscallError("mincore", errno)
	}
	var pages int64
	for _, b := range in {
		pages += int64(b & 1)
	}
	return pages * page, nil
}

// drop writes a file to the disk before it drops the file, because only what is on the disk can be
// dropped.
func drop(f *os.File) error {
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EROFS) {
		return err
	}
	return os.NewSyscallError("posix_fadvise", unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}
