package ptxvm

import "fmt"

// token is a word, a number or a sign of PTX text ("Lexical Elements"). Words
// keep their dots and per cents: ".reg", "add.s32", "%tid.x".
type token struct {
	text string
	line int
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c == '%' || c == '.'
}

// scan splits text into tokens, without comments.
func scan(text string) ([]token, error) {
	tokens := make([]token, 0, len(text)/5)
	line := 1
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '/' && i+1 < len(text) && text[i+1] == '/':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '"':
			start := i
			for i++; i < len(text) && text[i] != '"' && text[i] != '\n'; i++ {
			}
			if i >= len(text) || text[i] != '"' {
				return nil, fmt.Errorf("line %d: a string without end", line)
			}
			i++
			tokens = append(tokens, token{text[start:i], line})
		case wordByte(c):
			start := i
			for i < len(text) && wordByte(text[i]) {
				i++
			}
			// "::" joins words of an opcode: .shared::cta.
			for i+2 < len(text) && text[i] == ':' && text[i+1] == ':' && wordByte(text[i+2]) {
				for i += 2; i < len(text) && wordByte(text[i]); i++ {
				}
			}
			tokens = append(tokens, token{text[start:i], line})
		case isSign(c):
			tokens = append(tokens, token{text[i : i+1], line})
			i++
		default:
			return nil, fmt.Errorf("line %d: character %q", line, c)
		}
	}
	return tokens, nil
}

func isSign(c byte) bool {
	switch c {
	case '{', '}', '[', ']', '(', ')', '<', '>', ',', ';', ':', '@', '!', '|', '+', '-', '=':
		return true
	}
	return false
}

// cursor walks over tokens; the first error sticks.
type cursor struct {
	tokens []token
	at     int
	err    error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("line %d: %w", c.line(), fmt.Errorf(format, args...))
	}
	c.at = len(c.tokens)
}

func (c *cursor) line() int {
	if len(c.tokens) == 0 {
		return 0
	}
	return c.tokens[min(c.at, len(c.tokens)-1)].line
}

func (c *cursor) more() bool { return c.at < len(c.tokens) }

// peek returns the next token's text; empty at the end.
func (c *cursor) peek() string {
	if c.more() {
		return c.tokens[c.at].text
	}
	return ""
}

func (c *cursor) next() string {
	t := c.peek()
	if t == "" {
		c.fail("the text ends early")
	}
	c.at++
	return t
}

// accept takes the next token if it is t.
func (c *cursor) accept(t string) bool {
	if c.peek() != t {
		return false
	}
	c.at++
	return true
}

func (c *cursor) expect(t string) {
	if !c.accept(t) {
		c.fail("%q where %q belongs", c.peek(), t)
	}
}
