package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/errs"
)

// Output is where a command writes: the file of --output, or standard output.
type Output struct{ Path string }

// Add adds --output.
func (o *Output) Add(fs *pflag.FlagSet) {
	fs.StringVarP(&o.Path, "output", "o", "", "file to write to (default: standard output)")
}

// Write writes something to the output; what names it in errors. Write refuses to overwrite one
// of the sessions that it is made from.
func (o *Output) Write(what string, write func(io.Writer) error, sessions ...string) error {
	op := "write " + what + " to"
	if o.Path == "" {
		return errs.Wrap(write(os.Stdout), op, "standard output", "name a file with --output")
	}
	for _, s := range sessions {
		if sameFile(o.Path, s) {
			return Refuse("--output "+o.Path, "it is the session itself", "name another file")
		}
	}
	err := WriteFile(o.Path, true, write)
	return errs.Wrap(err, op, o.Path, FileHint(err, "name another file with --output"))
}

// FileHint says what to do about a file that could not be written. or names another place for it.
func FileHint(err error, or string) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "make its folder, or " + or
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free some space, or " + or
	}
	return or
}

func sameFile(a, b string) bool {
	x, errx := os.Stat(a)
	y, erry := os.Stat(b)
	return errx == nil && erry == nil && os.SameFile(x, y)
}

// WriteFile writes a whole file or none. write fills a file beside path, which takes its name
// once the disk has all of it. If the name is taken, replace says whether the old file is
// replaced or kept; keeping it is an error. A device or a pipe is written to directly.
func WriteFile(path string, replace bool, write func(io.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil && replace {
		path = target // replace the file, not the link to it
	}
	info, statErr := os.Lstat(path)
	if statErr == nil && replace && !info.Mode().IsRegular() {
		return writeThrough(path, write)
	}
	part := fmt.Sprintf("%s.%d.part", path, os.Getpid())
	defer func() {
		if e := (*fs.PathError)(nil); errors.As(err, &e) && e.Path == part { // readers of the error know path, not part
			err = &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
		}
	}()
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done { // after an error or a panic
			_ = f.Close()
			_ = os.Remove(part)
		}
	}()
	if info != nil && info.Mode().IsRegular() {
		if err := f.Chmod(info.Mode().Perm()); err != nil {
			return err
		}
	}
	b := bufio.NewWriter(f)
	if err := write(b); err != nil { // Flush would return the same error
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if !replace {
		if _, err := os.Lstat(path); err == nil {
			return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
		}
	}
	if err := errors.Join(f.Close(), os.Rename(part, path)); err != nil {
		return err
	}
	done = true
	return nil
}

// writeThrough writes to a file that exists, such as a device.
func writeThrough(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// ReplaceFile calls WriteFile, and replaces an existing file.
func ReplaceFile(path string, content func(io.Writer) error) error {
	return WriteFile(path, true, content)
}
