package source

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

func entryOf(st fs.FileInfo) Entry {
	return Entry{Name: st.Name(), Dir: st.IsDir(), Size: st.Size(), Changed: st.ModTime()}
}

func listLocal(dir string) ([]Entry, error) {
	entries, err := os.ReadDir(dir) // by name
	if err != nil {
		return nil, err
	}
	out := make([]Entry, len(entries))
	for i, e := range entries {
		out[i] = Entry{Name: e.Name(), Dir: e.IsDir(), Link: e.Type()&fs.ModeSymlink != 0}
	}
	return out, nil
}

// localFile is a file of this machine.
type localFile struct {
	file  *os.File
	entry Entry
}

func (f *localFile) Entry() Entry { return f.entry }
func (f *localFile) Close() error { return f.file.Close() }

func (f *localFile) ReadAt(_ context.Context, p []byte, off int64) (int, int64, error) {
	n, err := f.file.ReadAt(p, off)
	return n, 0, err
}

func (f *localFile) Stream(_ context.Context, off int64) Stream {
	return &localStream{io.NewSectionReader(f.file, off, 1<<63-1-off)}
}

// localStream leaves reading ahead to the operating system.
type localStream struct{ r *io.SectionReader }

func (s *localStream) Read(p []byte) (int, error) { return s.r.Read(p) }
func (s *localStream) Ahead(int)                  {}
func (s *localStream) Waited() int64              { return 0 }
func (s *localStream) Close() error               { return nil }

func (s *localStream) Skip(n int64) error {
	_, err := s.r.Seek(n, io.SeekCurrent)
	return err
}

// createLocal writes a file that gets its name when it is complete and on the disk. Until then
// it is a hidden file beside that name.
func createLocal(path string) (*localWriter, error) {
	f, err := os.CreateTemp(filepath.Dir(path), Unfinished(filepath.Base(path)))
	if err != nil {
		return nil, err
	}
	return &localWriter{f, path}, nil
}

// Unfinished returns the pattern of the names that a local file has until it is complete.
func Unfinished(name string) string { return "." + name + ".tmp-*" }

type localWriter struct {
	file *os.File
	path string
}

func (w *localWriter) Write(p []byte) (int, error) { return w.file.Write(p) }

func (w *localWriter) Commit() error {
	err := errors.Join(w.file.Chmod(0o644), w.file.Sync())
	if err = errors.Join(err, w.file.Close()); err == nil {
		err = os.Rename(w.file.Name(), w.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(w.file.Name()))
	}
	return nil
}

func (w *localWriter) Abort() {
	_ = w.file.Close() // the file is removed next
	_ = os.Remove(w.file.Name())
}
