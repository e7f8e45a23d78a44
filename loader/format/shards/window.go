package shards

import (
	"errors"
	"io"
)

// window reads a file a few KiB at a time, and only where asked. So a walk over the headers of
// a tar costs about one read a sample. archive/tar skips the samples themselves with Seek.
type window struct {
	r    io.ReaderAt
	size int64
	pos  int64 // of the next byte read
	from int64 // of buf[0]
	n    int   // bytes in buf
	err  error // of the last read of r, except the end of the file
	buf  [4096]byte
}

func (w *window) Read(p []byte) (int, error) {
	if w.pos >= w.size {
		w.pos = w.size
		return 0, io.EOF
	}
	if w.pos < w.from || w.pos >= w.from+int64(w.n) {
		n, err := w.r.ReadAt(w.buf[:min(int64(len(w.buf)), w.size-w.pos)], w.pos)
		if w.from, w.n = w.pos, n; n == 0 {
			if !errors.Is(err, io.EOF) {
				w.err = err
			}
			return 0, err
		}
	}
	n := copy(p, w.buf[w.pos-w.from:w.n])
	w.pos += int64(n)
	return n, nil
}

// Seek reads nothing.
func (w *window) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += w.pos
	case io.SeekEnd:
		offset += w.size
	}
	if offset < 0 {
		return w.pos, errors.New("seek before the start")
	}
	w.pos = offset
	return offset, nil
}

func (w *window) at() int64 { return w.pos }

func (w *window) stuck() error { return w.err }

// rest requires a tar to end with empty blocks. archive/tar also accepts a tar that ends
// between two files.
func (w *window) rest() error {
	var last [512]byte
	n, _ := w.r.ReadAt(last[:], max(0, w.size-int64(len(last))))
	if w.pos >= w.size && (n < len(last) || last != [512]byte{}) {
		return errors.New("the shard ends without the two empty blocks that end a tar: it is truncated")
	}
	return nil
}

// magic reports whether the first header has the magic of a tar (POSIX.1-1988).
func (w *window) magic() bool {
	var b [5]byte
	n, _ := w.r.ReadAt(b[:], 257)
	return n == len(b) && string(b[:]) == "ustar"
}
