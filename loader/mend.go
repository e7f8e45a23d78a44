package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// FileError is an error of the file system at path: what was done, to what, why it
// failed and what to do about it; otherwise is for reasons that Mend does not know.
func FileError(op, path string, err error, otherwise string) error {
	mend := Mend(err, otherwise)
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Path == path {
		err = e.Err // says the path a second time
	}
	return fmt.Errorf("%s %s: %w: %s", op, path, err, mend)
}

// Mend says what to do about an error of the file system; otherwise is for those
// that are not known here. Data sets end their errors with it.
func Mend(err error, otherwise string) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "make it readable for this user (chmod -R u+rX), or run as its owner"
	case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
		return "raise the limit of open files (ulimit -n) or lower num_workers"
	case errors.Is(err, syscall.ELOOP):
		return "remove the link, which leads back to itself"
	case errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ESTALE):
		return "check the disk or the network file system, which failed"
	}
	return otherwise
}
