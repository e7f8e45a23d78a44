package torch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep a trace's values may be nested. Profilers write three or four levels.
const maxDepth = 64

// lexer reads JSON as a stream, in memory that does not depend on the input. It also accepts what
// profilers write outside the standard: control characters and invalid UTF-8 in strings, and bare words
// such as N/A and NaN as values.
type lexer struct {
	r    *bufio.Reader
	at   int64 // bytes read
	word []byte
}

func newLexer(r io.Reader) *lexer { return &lexer{r: bufio.NewReaderSize(r, 1<<16)} }

// syntaxError is an error in a trace's text, and its place.
type syntaxError struct {
	at   int64
	what string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("byte %d: %s", e.at, e.what) }

func (l *lexer) fail(format string, args ...any) error {
	return &syntaxError{l.at, fmt.Sprintf(format, args...)}
}

// byte returns the next byte.
func (l *lexer) byte() (byte, error) {
	c, err := l.r.ReadByte()
	if err != nil {
		return 0, cut(err)
	}
	l.at++
	return c, nil
}

// next returns the next byte after white space.
func (l *lexer) next() (byte, error) {
	for {
		c, err := l.byte()
		if err != nil || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c, err
		}
	}
}

// mark skips the byte order mark that editors put before UTF-8.
func (l *lexer) mark() {
	const mark = "\ufeff"
	if head, _ := l.r.Peek(len(mark)); string(head) == mark {
		n, _ := l.r.Discard(len(mark))
		l.at += int64(n)
	}
}

// back unreads the last byte.
func (l *lexer) back() {
	_ = l.r.UnreadByte() // after a ReadByte it cannot fail
	l.at--
}

// cut returns the error of an input that ends within a value.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// object reads an object after its opening brace, and calls member to read each value. The key is valid
// until member reads.
func (l *lexer) object(member func(key []byte) error) error {
	var key [64]byte
	for first := true; ; first = false {
		c, err := l.next()
		switch {
		case err != nil:
			return err
		case c == '}' && first:
			return nil
		case c != '"':
			return l.fail("%q where the name of a member should be", c)
		}
		name, err := l.string(key[:0], len(key))
		if err != nil {
			return err
		}
		if c, err = l.next(); err != nil {
			return err
		} else if c != ':' {
			return l.fail("%q where a colon should be", c)
		}
		if err := member(name); err != nil {
			return err
		}
		if done, err := l.more('}'); done || err != nil {
			return err
		}
	}
}

// array reads an array after its opening bracket, and calls element to read each value.
func (l *lexer) array(element func() error) error {
	c, err := l.next()
	if err != nil || c == ']' {
		return err
	}
	l.back()
	for {
		if err := element(); err != nil {
			return err
		}
		if done, err := l.more(']'); done || err != nil {
			return err
		}
	}
}

// more reads what follows a value: a comma or the closing character.
func (l *lexer) more(end byte) (done bool, err error) {
	c, err := l.next()
	switch {
	case err != nil:
		return false, err
	case c == end:
		return true, nil
	case c != ',':
		return false, l.fail("%q where a comma or %q should be", c, end)
	}
	return false, nil
}

// string reads a string after its opening quotation mark, and keeps the first limit bytes in dst.
func (l *lexer) string(dst []byte, limit int) ([]byte, error) {
	for {
		part, err := l.r.ReadSlice('"') // or a full buffer
		l.at += int64(len(part))
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return dst, cut(err)
		}
		for i := 0; i < len(part); {
			c := part[i]
			i++
			switch c {
			case '"':
				return dst, nil
			case '\\':
				r, err := l.escape(func() (byte, error) {
					if i < len(part) {
						i++
						return part[i-1], nil
					}
					return l.byte()
				})
				if err != nil {
					return dst, err
				}
				if len(dst)+utf8.RuneLen(r) <= limit {
					dst = utf8.AppendRune(dst, r)
				}
				continue
			}
			if len(dst) < limit {
				dst = append(dst, c)
			}
		}
	}
}

// escape reads what follows a backslash. A surrogate pair is two escapes, and each becomes a replacement
// character, because no name that matters has one.
func (l *lexer) escape(next func() (byte, error)) (rune, error) {
	c, err := next()
	if err != nil {
		return 0, err
	}
	if c != 'u' {
		if i := strings.IndexByte("bfnrt", c); i >= 0 {
			return rune("\b\f\n\r\t"[i]), nil
		}
		return rune(c), nil
	}
	var r rune
	for range 4 {
		if c, err = next(); err != nil {
			return 0, err
		}
		digit, err := strconv.ParseUint(string(c), 16, 4)
		if err != nil {
			return 0, l.fail("%q where a hexadecimal digit should be", c)
		}
		r = r<<4 | rune(digit)
	}
	if !utf8.ValidRune(r) {
		return utf8.RuneError, nil
	}
	return r, nil
}

// scalar reads a string or a bare word, which is valid until the next call. It skips objects and arrays,
// and returns nothing for them.
func (l *lexer) scalar(depth int) (text []byte, err error) {
	c, err := l.next()
	if err != nil {
		return nil, err
	}
	switch c {
	case '"':
		l.word, err = l.string(l.word[:0], 1024)
		return l.word, err
	case '{', '[':
		return nil, l.pass(c, depth)
	}
	for l.word = l.word[:0]; isWord(c); {
		if len(l.word) == 64 {
			return nil, l.fail("a number or word that is longer than any should be")
		}
		l.word = append(l.word, c)
		if c, err = l.byte(); err != nil {
			return nil, err
		}
	}
	if len(l.word) == 0 {
		return nil, l.fail("%q where a value should be", c)
	}
	l.back()
	return l.word, nil
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.' || c == '/' || c >= utf8.RuneSelf
}

// skip reads past a value at some depth.
func (l *lexer) skip(depth int) error {
	c, err := l.next()
	switch {
	case err != nil:
		return err
	case c == '"':
		_, err = l.string(nil, 0)
		return err
	case c == '{' || c == '[':
		return l.pass(c, depth)
	}
	l.back()
	_, err = l.scalar(depth)
	return err
}

// pass reads past an object or array after its first byte.
func (l *lexer) pass(open byte, depth int) error {
	if depth >= maxDepth {
		return l.fail("values lie more than %d deep in each other", maxDepth)
	}
	if open == '[' {
		return l.array(func() error { return l.skip(depth + 1) })
	}
	return l.object(func([]byte) error { return l.skip(depth + 1) })
}
