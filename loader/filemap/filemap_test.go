package filemap

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// numbered is a file of size bytes, of which every fourth is zero.
func numbered(t *testing.T, size int) (path string, f *File, body []byte) {
	t.Helper()
	body = make([]byte, size)
	for i := range body {
		if i%4 != 3 {
			body[i] = byte(i/7) | 1
		}
	}
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, body, 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f = New(file, int64(size), 4<<10)
	t.Cleanup(func() { f.Close() })
	return path, f, body
}

// TestReadAt: bytes and errors are those of os.File.ReadAt, before and after the file shrank,
// in its last page and in lost pages.
func TestReadAt(t *testing.T) {
	page := os.Getpagesize()
	path, f, body := numbered(t, 5*page)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, size := range []int{5 * page, 2*page + 101} {
		if err := os.Truncate(path, int64(size)); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 3, 4, 100, page, 3 * page} {
			for off := 0; off <= 5*page; off += 37 {
				got, want := make([]byte, n), make([]byte, n)
				gn, gerr := f.ReadAt(got, int64(off))
				wn, werr := file.ReadAt(want, int64(off))
				if gn != wn || !errors.Is(gerr, werr) || !bytes.Equal(got[:gn], body[off:off+wn]) {
					t.Fatalf("%d bytes at %d of %d: %d, %v; want %d, %v", n, off, size, gn, gerr, wn, werr)
				}
			}
		}
		if now, err := f.Size(); err != nil || now != int64(size) {
			t.Errorf("size %d, %v; want %d", now, err, size)
		}
	}
	if _, err := f.ReadAt(make([]byte, 1), -1); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("before the beginning: %v", err)
	}
}

// TestClose: a read during Close returns the right bytes or os.ErrClosed.
func TestClose(t *testing.T) {
	for range 20 {
		_, f, body := numbered(t, 64<<10)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				b := make([]byte, 32<<10)
				for {
					n, err := f.ReadAt(b, 1000)
					if errors.Is(err, os.ErrClosed) {
						return
					}
					if err != nil || !bytes.Equal(b[:n], body[1000:1000+len(b)]) {
						t.Errorf("%d bytes, %v", n, err)
						return
					}
				}
			})
		}
		for range 2 {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		group.Wait()
	}
}
