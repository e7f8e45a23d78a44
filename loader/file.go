package loader

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"dev.gpustall/engine/base/errs"
)

// ErrNotFile is what Open's error wraps if the path is no regular file.
var ErrNotFile = errs.Reason("it is no regular file but a pipe, a device, a socket or a folder", "remove it, or name a file")

// Open opens a regular file for reading and refuses everything else, because reading a pipe or
// a device may block or never end. It does not wait for the writer of a named pipe.
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
