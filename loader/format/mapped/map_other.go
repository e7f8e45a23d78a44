//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package mapped

import "os"

// mapping is a file that is read where it cannot be mapped.
type mapping struct{ f *os.File }

func mapFile(f *os.File, _ int64) (*mapping, error) { return &mapping{f}, nil }

func (m *mapping) read(dst []byte, off int64) error {
	_, err := m.f.ReadAt(dst, off)
	return err
}

func (m *mapping) unmap() {}

func sizeOf(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
