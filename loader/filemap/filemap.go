// Package filemap reads a file through a map of it in memory. A small read by pread takes 1.7
// us, of which copying is the smaller part. If the system cannot bring in a page (the file
// shrank, or the disk is broken), the read goes to the file instead. The last page is zero
// after the file's end, so a read that ends with a zero checks the file's size. So errors are
// those of os.File.ReadAt.
package filemap

import (
	"os"
	"sync"
	"sync/atomic"
)

// File is a mapped file. It is safe for concurrent use. It may be closed during a read, because
// the map stays until that read ends.
type File struct {
	file     *os.File
	mem      []byte // nil if the file could not be mapped
	resident int64  // bytes of the map that are kept; 0 keeps all
	touched  atomic.Int64
	state    atomic.Int64 // who reads, and closed
	dropped  sync.Once
}

// closed is in File.state beside the number of readers.
const closed = 1 << 62

// New takes over f, which has size bytes. Pages that were read count as this process's memory.
// After about resident bytes, the pages are given back to the page cache, where they stay; 0
// keeps them all.
func New(f *os.File, size, resident int64) *File {
	return &File{file: f, mem: mapped(f, size), resident: resident}
}

// ReadAt implements io.ReaderAt. After Close it returns os.ErrClosed.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	defer f.leave()
	if f.state.Add(1)&closed != 0 {
		return 0, os.ErrClosed
	}
	if off >= 0 && len(b) > 0 && off <= int64(len(f.mem)-len(b)) && f.read(b, off) {
		return len(b), nil
	}
	return f.file.ReadAt(b, off)
}

// Resident returns how many bytes of the map may count as this process's memory.
func (f *File) Resident() int64 {
	if all := int64(len(f.mem)); f.resident == 0 || all < f.resident {
		return all
	}
	return f.resident
}

// Mapped returns the n bytes from off on in memory, or nil. They must not be read, because
// only ReadAt does that safely. The processor may prefetch them, because it then ignores
// missing pages.
func (f *File) Mapped(off int64, n int) []byte {
	if off < 0 || off > int64(len(f.mem)-n) {
		return nil
	}
	return f.mem[off : off+int64(n)]
}

// Size returns how long the file is now.
func (f *File) Size() (int64, error) { return sizeOf(f.file) }

func (f *File) leave() {
	if f.state.Add(-1) == closed {
		f.drop()
	}
}

func (f *File) drop() {
	f.dropped.Do(func() {
		unmap(f.mem)
		_ = f.file.Close() // it was only read
	})
}

// Close unmaps and closes the file.
func (f *File) Close() error {
	if f.state.Or(closed) == 0 {
		f.drop()
	}
	return nil
}
