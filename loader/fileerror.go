package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"unicode/utf8"
)

// FileError makes a sentence of an error of the file system: the operation, the path,
// the reason, and what to do about it. otherwise is what to do where Mend does not know
// the reason.
func FileError(op, path string, err error, otherwise string) error {
	mend := Mend(err, otherwise)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		if err = e.Err; e.Path != path {
			err = fmt.Errorf("%s %s: %w", e.Op, Path(e.Path), e.Err)
		}
	}
	return fmt.Errorf("%s %s: %w: %s", op, Path(path), err, mend)
}

// ErrNotFile is wrapped by Open's error.
var ErrNotFile = errors.New("it is no regular file but a pipe, a device, a socket or a folder")

// Open opens a regular file for reading and refuses everything else, because reading a
// pipe or a device may block or never end. A named pipe without a writer does not hold
// it up.
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: ErrNotFile}
	}
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotFile}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// Path is a path as errors show it: quoted where it has bytes that are not
// printable text, so that an error is one line and does nothing to a terminal.
func Path(path string) string {
	for _, r := range path {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return strconv.Quote(path)
		}
	}
	return path
}

// Mend says what to do about an error of the file system, and otherwise for one that
// it does not know. Data sets end their errors with it.
func Mend(err error, otherwise string) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "make it readable for this user (chmod -R u+rX), or run as its owner"
	case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
		return "raise the limit of open files (ulimit -n) or lower num_workers"
	case errors.Is(err, syscall.ELOOP):
		return "remove the link, which leads back to itself"
	case errors.Is(err, ErrNotFile):
		return "remove it, or name a file"
	case errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ESTALE):
		return "check the disk or the network file system, which failed"
	}
	return otherwise
}
