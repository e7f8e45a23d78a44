// Package python is what runs inside a user's training: the Python package that watches
// PyTorch's DataLoaders, and the sitecustomize that puts it in place.
package python

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"

	"dev.gpustall/engine/base/errs"
)

//go:embed sitecustomize.py gpustall/*.py
var files embed.FS

// Unpack writes the package into a folder, which PYTHONPATH has to name.
func Unpack(dir string) error {
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, path)
		if entry.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
	return errs.Wrap(err, "unpack", dir, "free some space, or set TMPDIR to a folder that can be written to")
}
