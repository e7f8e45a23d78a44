package transform

import (
	"fmt"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/errs"
)

// A transform is written as its steps with bars between them: rrc(224)|hflip|normalize. Each
// step is a name of the table (table.go): the short form or torchvision's class. Its arguments
// stand in torchvision's order, or by name: rrc(224,scale=(0.2,1)).

// SyntaxError says what is wrong with a text, and where.
type SyntaxError struct {
	Text   string
	At     int // in bytes
	Reason string
	Hint   string
}

// Error returns one sentence.
func (e *SyntaxError) Error() string { return e.Fault().Error() }

// Fault returns the error as its parts.
func (e *SyntaxError) Fault() *errs.Error {
	return errs.New("read", fmt.Sprintf("the transform %q", e.Text), fmt.Sprintf("at character %d: %s", e.At+1, e.Reason), e.Hint)
}

// Caret returns the text, and below it a caret under the character that the error is about.
func (e *SyntaxError) Caret() string {
	return e.Text + "\n" + strings.Repeat(" ", e.At) + "^"
}

// value is an argument: numbers, or a word.
type value struct {
	at    int
	name  string // as in scale=
	nums  []float64
	word  string
	tuple bool // in parentheses
}

// call is one step as it was written.
type call struct {
	at   int
	end  int // of its name
	name string
	args []value
}

// reader reads a text; its methods panic with a *SyntaxError, which Compile recovers.
type reader struct {
	text string
	at   int
}

func (r *reader) fail(at int, hint, format string, args ...any) {
	panic(&SyntaxError{Text: r.text, At: at, Reason: fmt.Sprintf(format, args...), Hint: hint})
}

const hintText = "write it as in 'rrc(224)|hflip|normalize'"

// maxText bounds a text, so that an error fits on a screen.
const maxText = 1000

// calls parses the text.
func (r *reader) calls() (calls []call) {
	if len(r.text) > maxText || strings.ContainsFunc(r.text, func(c rune) bool { return c < ' ' || c > '~' }) {
		panic(&SyntaxError{Text: "…", Reason: fmt.Sprintf("it has more than %d characters, or others than printable ASCII", maxText), Hint: hintText})
	}
	for {
		calls = append(calls, r.call())
		if r.skip(); r.at == len(r.text) {
			return calls
		}
		if !r.take('|') {
			r.fail(r.at, hintText, "%q instead of | between two transforms", r.text[r.at])
		}
	}
}

func (r *reader) skip() {
	for r.at < len(r.text) && r.text[r.at] == ' ' {
		r.at++
	}
}

// take reads c if it comes next, and reports whether it does.
func (r *reader) take(c byte) bool {
	if r.skip(); r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

func (r *reader) ident() string {
	from := r.at
	for r.at < len(r.text) && (letter(r.text[r.at]) || r.at > from && digit(r.text[r.at])) {
		r.at++
	}
	return r.text[from:r.at]
}

func (r *reader) call() call {
	r.skip()
	c := call{at: r.at}
	c.name = r.ident()
	if c.end = r.at; c.name == "" {
		r.fail(r.at, hintText, "a transform's name is missing")
	}
	if !r.take('(') || r.take(')') {
		return c
	}
	for {
		c.args = append(c.args, r.argument())
		if r.take(')') {
			return c
		}
		if !r.take(',') {
			r.fail(r.at, "close it with )", "the arguments of %s do not end", c.name)
		}
	}
}

func (r *reader) argument() value {
	r.skip()
	v := value{at: r.at}
	if r.at < len(r.text) && letter(r.text[r.at]) {
		word := r.ident()
		if !r.take('=') {
			v.word = word
			return v
		}
		v.name = word
	}
	if !r.take('(') {
		v.nums = []float64{r.number()}
		return v
	}
	v.tuple = true
	for {
		v.nums = append(v.nums, r.number())
		if r.take(')') {
			return v
		}
		if !r.take(',') {
			r.fail(r.at, "close it with )", "the numbers in parentheses do not end")
		}
	}
}

func (r *reader) number() float64 {
	r.skip()
	from := r.at
	for r.at < len(r.text) && (digit(r.text[r.at]) || strings.IndexByte("+-.eE", r.text[r.at]) >= 0) {
		r.at++
	}
	n, err := strconv.ParseFloat(r.text[from:r.at], 64)
	if err != nil {
		r.at = from
		r.fail(from, hintText, "a number is missing")
	}
	return n
}
