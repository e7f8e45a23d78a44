//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package filemap

import "os"

func mapped(*os.File, int64) []byte { return nil }

func (f *File) read([]byte, int64) bool { return false }

func unmap([]byte) {}

func sizeOf(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
