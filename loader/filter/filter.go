// Package filter is the small language that chooses samples by their row in a table:
//
//	label < 10 and not (width < 64 or height < 64)
//	class in ('cat', 'dog') and split != 'val'
//
// Names are columns of a table. A column of truth values may stand alone. A missing value fits
// no comparison.
package filter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader/parquet"
)

// SyntaxError points at what is wrong with a text.
type SyntaxError struct {
	Text   string
	At     int // byte
	Reason string
	Hint   string
}

// Error returns one sentence.
func (e *SyntaxError) Error() string { return e.Fault().Error() }

// Fault returns the error as its parts.
func (e *SyntaxError) Fault() *errs.Error {
	return errs.New("read", fmt.Sprintf("the condition %q", e.Text), fmt.Sprintf("at character %d: %s", utf8.RuneCountInString(e.Text[:e.At])+1, e.Reason), e.Hint)
}

// Caret returns the text, and below it a caret under the character that the error is about.
func (e *SyntaxError) Caret() string {
	return e.Text + "\n" + strings.Repeat(" ", utf8.RuneCountInString(e.Text[:e.At])) + "^"
}

// test says whether a row fits.
type test func(row int) bool

// Rows returns, for each row of a table, whether it fits a condition.
func Rows(text string, t *parquet.Table) ([]bool, error) {
	fits, err := compile(text, t)
	if err != nil {
		return nil, err
	}
	out := make([]bool, t.Rows)
	for i := range out {
		out[i] = fits(i)
	}
	return out, nil
}

// Check parses a condition without a table, so without knowing its columns.
func Check(text string) error {
	_, err := compile(text, nil)
	return err
}

func compile(text string, t *parquet.Table) (test, error) {
	p := &parser{text: text, table: t}
	p.next()
	fits, err := p.or()
	if err == nil && p.tok != "" {
		err = p.fail(p.start, "there is "+strconv.Quote(p.tok)+" where it could end", "put and, or, or nothing there")
	}
	return fits, err
}

// parser reads from left to right; tok is the token that starts at start, empty at the end.
type parser struct {
	text       string
	table      *parquet.Table
	start, end int
	tok        string
	bad        error
	depth      int
}

func (p *parser) fail(at int, reason, hint string) error {
	if p.bad != nil {
		return p.bad
	}
	return &SyntaxError{p.text, at, reason, hint}
}

func letter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// next moves on to the next token.
func (p *parser) next() {
	at := p.end
	for at < len(p.text) && strings.IndexByte(" \t\n", p.text[at]) >= 0 {
		at++
	}
	p.start, p.end, p.tok = at, at, ""
	if at == len(p.text) {
		return
	}
	c := p.text[at]
	end := at + 1
	switch {
	case letter(c):
		for end < len(p.text) && (letter(p.text[end]) || digit(p.text[end])) {
			end++
		}
	case digit(c) || c == '-' || c == '.':
		for end < len(p.text) && (digit(p.text[end]) || strings.IndexByte(".eE", p.text[end]) >= 0 || strings.IndexByte("+-", p.text[end]) >= 0 && strings.IndexByte("eE", p.text[end-1]) >= 0) {
			end++
		}
	case c == '\'' || c == '"':
		n := strings.IndexByte(p.text[end:], c)
		if n < 0 {
			p.bad = p.fail(at, "a text begins and does not end", "put "+string(c)+" behind it")
			n = len(p.text) - end - 1
		}
		end += n + 1
	case strings.IndexByte("<>=!", c) >= 0:
		if end < len(p.text) && (p.text[end] == '=' || c == '<' && p.text[end] == '>') {
			end++
		}
	}
	p.end, p.tok = end, p.text[at:end]
}

// word reports whether the token is this word, and moves on if it is.
func (p *parser) word(w string) bool {
	if !strings.EqualFold(p.tok, w) {
		return false
	}
	p.next()
	return true
}

func (p *parser) or() (test, error) {
	left, err := p.and()
	for err == nil && p.word("or") {
		var right test
		if right, err = p.and(); err == nil {
			a, b := left, right
			left = func(i int) bool { return a(i) || b(i) }
		}
	}
	return left, err
}

func (p *parser) and() (test, error) {
	left, err := p.not()
	for err == nil && p.word("and") {
		var right test
		if right, err = p.not(); err == nil {
			a, b := left, right
			left = func(i int) bool { return a(i) && b(i) }
		}
	}
	return left, err
}

const maxDepth = 100

func (p *parser) not() (test, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(p.start, "it is nested too deeply", "leave brackets out")
	}
	defer func() { p.depth-- }()
	if p.word("not") {
		of, err := p.not()
		return func(i int) bool { return !of(i) }, err
	}
	if p.tok == "(" {
		open := p.start
		p.next()
		in, err := p.or()
		if err != nil {
			return nil, err
		}
		if p.tok != ")" {
			return nil, p.fail(open, "this bracket is not closed", "put ) behind what belongs together")
		}
		p.next()
		return in, nil
	}
	return p.comparison()
}

var operators = []string{"=", "==", "!=", "<>", "<", "<=", ">", ">="}

// reserved are the words that cannot be names.
var reserved = []string{"and", "or", "not", "in", "true", "false"}

func (p *parser) comparison() (test, error) {
	at, name := p.start, p.tok
	if name == "" || !letter(name[0]) || slices.ContainsFunc(reserved, func(w string) bool { return strings.EqualFold(w, name) }) {
		what := "there is " + strconv.Quote(name)
		if name == "" {
			what = "it ends"
		}
		return nil, p.fail(at, what+" where a column's name should be", "write it as label < 10")
	}
	c, err := p.column(at, name)
	if err != nil {
		return nil, err
	}
	p.next()
	negate := p.word("not")
	switch {
	case p.word("in"):
		fits, err := p.in(c)
		if negate && err == nil {
			of := fits
			fits = func(i int) bool { return c.Has(i) && !of(i) }
		}
		return fits, err
	case negate:
		return nil, p.fail(p.start, "not stands without in", "write not before the column, or not in (…)")
	case slices.Contains(operators, p.tok):
		op := p.tok
		p.next()
		v, err := p.literal(c)
		if err != nil {
			return nil, err
		}
		return compare(c, op, v), nil
	case p.table == nil || c.Kind == parquet.Bool:
		return func(i int) bool { return c.Has(i) && c.Ints[i] != 0 }, nil
	}
	return nil, p.fail(p.start, "there is no comparison", "choose one of "+strings.Join(operators, " ")+" or in (…)")
}

// column finds a column by its name.
func (p *parser) column(at int, name string) (*parquet.Column, error) {
	if p.table == nil {
		return &parquet.Column{Name: name}, nil
	}
	if c := p.table.Column(name); c != nil {
		return c, nil
	}
	if why, ok := p.table.Unread[name]; ok {
		reason, hint, _ := strings.Cut(why, "; ")
		return nil, p.fail(at, "column "+name+" cannot be read: "+reason, hint)
	}
	var names []string
	for i := range p.table.Columns {
		names = append(names, p.table.Columns[i].Name)
	}
	return nil, p.fail(at, "there is no column "+strconv.Quote(name), "choose one of "+strings.Join(names, ", "))
}

// in reads a list in brackets.
func (p *parser) in(c *parquet.Column) (test, error) {
	open := p.start
	if p.tok != "(" {
		return nil, p.fail(open, "in has no list behind it", "write in (1, 2, 3)")
	}
	p.next()
	var any []test
	for {
		v, err := p.literal(c)
		if err != nil {
			return nil, err
		}
		any = append(any, compare(c, "=", v))
		if p.tok == ")" {
			p.next()
			return func(i int) bool {
				for _, fits := range any {
					if fits(i) {
						return true
					}
				}
				return false
			}, nil
		}
		if p.tok != "," {
			return nil, p.fail(open, "this list does not end", "put commas between its values and ) behind them")
		}
		p.next()
	}
}

// value is a literal.
type value struct {
	text   string
	number float64
	whole  int64
	isInt  bool
}

// literal reads a value that a column can be compared with.
func (p *parser) literal(c *parquet.Column) (value, error) {
	at, tok := p.start, p.tok
	p.next()
	var v value
	kind := parquet.Text
	switch {
	case tok == "":
		return v, p.fail(at, "it ends where a value should be", "give a number, or a text in quotes")
	case tok[0] == '\'' || tok[0] == '"':
		v.text = strings.Trim(tok, tok[:1])
	case strings.EqualFold(tok, "true") || strings.EqualFold(tok, "false"):
		kind = parquet.Bool
		v.isInt = true
		if strings.EqualFold(tok, "true") {
			v.whole, v.number = 1, 1
		}
	default:
		kind = parquet.Int
		var err error
		if v.whole, err = strconv.ParseInt(tok, 10, 64); err == nil {
			v.isInt, v.number = true, float64(v.whole)
		} else if v.number, err = strconv.ParseFloat(tok, 64); err != nil {
			return v, p.fail(at, strconv.Quote(tok)+" is no value", "give a number, or a text in quotes")
		}
	}
	if p.bad != nil {
		return v, p.bad
	}
	has := c.Kind
	if has == parquet.Float {
		has = parquet.Int
	}
	if p.table != nil && has != kind {
		return v, p.fail(at, fmt.Sprintf("column %s holds %s", c.Name, c.Kind), map[parquet.Kind]string{
			parquet.Text: "put what it is compared with in quotes", parquet.Int: "compare it with a number", parquet.Bool: "compare it with true or false",
		}[has])
	}
	return v, nil
}

// compare compares a column with a value.
func compare(c *parquet.Column, op string, v value) test {
	order := func(i int) int { return strings.Compare(c.Texts[i], v.text) }
	switch {
	case c.Kind == parquet.Float:
		order = func(i int) int { return sign(c.Floats[i], v.number) }
	case c.Kind != parquet.Text && v.isInt:
		order = func(i int) int { return sign(c.Ints[i], v.whole) }
	case c.Kind != parquet.Text:
		order = func(i int) int { return sign(float64(c.Ints[i]), v.number) }
	}
	fits := map[string]func(order int) bool{
		"=": func(o int) bool { return o == 0 }, "==": func(o int) bool { return o == 0 },
		"!=": func(o int) bool { return o != 0 }, "<>": func(o int) bool { return o != 0 },
		"<": func(o int) bool { return o == -1 }, "<=": func(o int) bool { return o == -1 || o == 0 },
		">": func(o int) bool { return o == 1 }, ">=": func(o int) bool { return o == 1 || o == 0 },
	}[op]
	return func(i int) bool { return c.Has(i) && fits(order(i)) }
}

// sign returns -1, 0 or 1, or 2 if either is not a number.
func sign[T int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	}
	return 2
}
