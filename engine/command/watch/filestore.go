//go:build linux

package watch

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// fileScheme begins the address of a FileStore, which is a file that ranks share.
const fileScheme = "file:"

// InFiles reports whether a store is a FileStore.
func InFiles(address string) bool { return strings.HasPrefix(address, fileScheme) }

// outdated is how long before it was opened rows may have been written last. What is older is of a job that had the same store.
const outdated = time.Minute

// files are rows in files of a folder beside a FileStore. In the store itself each would stay in each rank's memory.
type files struct {
	folder string
	opened time.Time
	own    map[string]bool // files that were written here
}

func openFiles(path string) (*files, error) {
	_, err := os.Stat(path)
	return &files{folder: path + ".gpustall", opened: time.Now(), own: map[string]bool{}}, err
}

func (s *files) file(key string) string { return filepath.Join(s.folder, url.PathEscape(key)) }

// Set writes a value.
func (s *files) Set(key string, value []byte) error {
	if err := os.MkdirAll(s.folder, 0o777); err != nil {
		return err
	}
	path := s.file(key)
	s.own[path] = true
	f, err := os.CreateTemp(s.folder, "part-")
	if err != nil {
		return err
	}
	_, err = f.Write(value)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Later writes a value, at once.
func (s *files) Later(key string, value []byte) error { return s.Set(key, value) }

// Get returns values; nil for those that are not there.
func (s *files) Get(keys []string) ([][]byte, error) {
	out := make([][]byte, len(keys))
	for i, key := range keys {
		path := s.file(key)
		info, err := os.Stat(path)
		if err == nil && info.ModTime().After(s.opened.Add(-outdated)) {
			out[i], err = os.ReadFile(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return out, nil
}

// Hurry does nothing, because reading a file waits for nobody.
func (s *files) Hurry(time.Duration) {}

// Close removes what was written here.
func (s *files) Close() error {
	for path := range s.own {
		_ = os.Remove(path)
	}
	_ = os.Remove(s.folder) // once it is empty
	return nil
}
