package errs

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"syscall"
	"unicode/utf8"
)

// File returns an error of reading the file or folder at path. Its hint is err's, or Hint's;
// otherwise is the hint for reasons that Hint does not know.
func File(err error, op, path, otherwise string) error {
	if err == nil {
		return nil
	}
	if e, ok := As(err); ok && e.Reason != "" && e.Object != "" { // err says all of this already
		return Wrap(err, op, path, otherwise)
	}
	reason := err.Error()
	if e, ok := As(err); ok && e.Reason != "" {
		reason = e.Reason // Hint returns its hint
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		if reason = Explain(e.Err).Reason; e.Path != path {
			reason = fmt.Sprintf("%s %s: %s", e.Op, Path(e.Path), reason)
		}
	}
	return New(op, path, reason, Hint(err, otherwise)).Because(err)
}

// Path returns a path as errors show it. It is quoted where it has bytes that are not printable, so
// that an error is one line and does nothing to a terminal.
func Path(path string) string {
	for _, r := range path {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return strconv.Quote(path)
		}
	}
	return path
}

// Hint says what to do about an error of reading from the file system: what err itself says, or
// what is known of its kind. For other errors it returns otherwise.
func Hint(err error, otherwise string) string {
	known := Explain(err).Hint
	switch {
	case known != "":
		return known
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
