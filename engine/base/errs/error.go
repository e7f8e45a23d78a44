// Package errs is how errors reach a person: as values that say what was being
// done, with what, why it failed and what to do about it. The place that knows
// makes the value; the sentence on the terminal and the object in the JSON summary
// are both views of it.
package errs

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"
)

// Error is a failure that a person can do something about. It prints as one
// sentence:
//
//	op object: reason; hint
//
// An Error with a Reason knows what failed. It speaks for all that it wraps: errors.Is
// and errors.As find its Err, but Err is not printed.
//
// An Error without a Reason is context: it says what was being done when Err came. It
// prints its operation and object, and then the text of Err. It leaves them out where the
// next Error has the same object. It also does where the next Error has the same operation
// and a part of the object. It prints its hint only where no Error inside has one.
type Error struct {
	Op     string `json:"operation"` // what was being done, as in "open session"
	Object string `json:"object"`    // with what: a file, a device, a flag and its value
	Reason string `json:"reason"`    // why it failed
	Hint   string `json:"hint"`      // what to do about it
	Err    error  `json:"-"`         // the cause
}

// New returns an error without a cause.
func New(op, object, reason, hint string) *Error {
	return &Error{Op: op, Object: Path(object), Reason: reason, Hint: hint}
}

// Reason returns an error about what the caller names: why it is wrong, and what to do about it.
func Reason(reason, hint string) *Error { return &Error{Reason: reason, Hint: hint} }

// Wrap says what was being done when err came. hint says what to do where err itself does not. Wrap
// of nil is nil.
func Wrap(err error, op, object, hint string) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Object: Path(object), Hint: hint, Err: err}
}

// Because returns e with a cause, which errors.Is and errors.As find.
func (e *Error) Because(err error) *Error {
	with := *e
	with.Err = err
	return &with
}

// Error returns the sentence.
func (e *Error) Error() string {
	head := between(e.Op, " ", e.Object)
	if e.Reason != "" {
		return between(between(head, ": ", e.Reason), "; ", e.Hint)
	}
	inner, ok := As(e.Err)
	if !ok {
		return between(between(head, ": ", text(e.Err, e.Object)), "; ", e.Hint)
	}
	if inner.Object == e.Object || inner.Op == e.Op && strings.HasPrefix(inner.Object, e.Object) {
		head = "" // the inner error names the same object, or a part of it
	}
	hint := e.Hint
	if Explain(e.Err).Hint != "" {
		hint = ""
	}
	return between(between(head, ": ", e.Err.Error()), "; ", hint)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Fault returns e. An error of another type that has this method counts as the
// Error it returns.
func (e *Error) Fault() *Error { return e }

// As finds the outermost Error in err's chain.
func As(err error) (*Error, bool) {
	var f interface{ Fault() *Error }
	if !errors.As(err, &f) {
		return nil, false
	}
	return f.Fault(), true
}

// Explain takes err apart. Each field is that of the innermost Error which has it, down to the
// first one with a Reason. Without any Reason, it is the text of the error that the innermost Error
// wraps.
func Explain(err error) Error {
	var out Error
	for e, ok := As(err); ok; e, ok = As(err) {
		out.Op, out.Object, out.Hint = cmp.Or(e.Op, out.Op), cmp.Or(e.Object, out.Object), cmp.Or(e.Hint, out.Hint)
		if err = e.Err; e.Reason != "" {
			out.Reason = e.Reason
			break
		}
	}
	if out.Err = err; out.Reason == "" {
		out.Reason = text(err, out.Object)
	}
	return out
}

// text returns what err says of object. Where the file system's error begins with the object's
// name, that is left out.
func text(err error, object string) string {
	if err == nil {
		return ""
	}
	if e, ok := err.(*fs.PathError); ok && Path(e.Path) == object { //nolint:errorlint // only the outermost error begins the text
		err = e.Err
	}
	return err.Error()
}

// between joins two texts by sep, where neither is empty.
func between(a, sep, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + sep + b
}

// Choice lists words to choose from, for a hint: "a, b or c".
func Choice(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " or " + words[n]
	}
	return strings.Join(words, "")
}
