package markup

import (
	"strings"
	"unicode"
)

// span is a stretch of text in one style.
type span struct {
	Text         string
	Strong, Code bool
}

// spans splits a text into its styles.
func spans(text string) (out []span) {
	var b strings.Builder
	strong := false
	end := func() {
		if b.Len() > 0 {
			out = append(out, span{Text: b.String(), Strong: strong})
			b.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && punctuation(text[i+1]):
			i++
			b.WriteByte(text[i])
		case strong && closes(text, i), !strong && opens(text, i):
			end()
			strong = !strong
			i++
		case c == '`':
			fence := text[i : i+len(text[i:])-len(strings.TrimLeft(text[i:], "`"))]
			code, _, closed := strings.Cut(text[i+len(fence):], fence)
			if !closed {
				b.WriteString(fence)
				i += len(fence) - 1
				continue
			}
			end()
			i += 2*len(fence) + len(code) - 1
			if len(fence) > 1 {
				code = strings.TrimSuffix(strings.TrimPrefix(code, " "), " ")
			}
			out = append(out, span{Text: code, Strong: strong, Code: true})
		default:
			b.WriteByte(c)
		}
	}
	end()
	return out
}

// opens reports whether ** at i begins what is strong: at the beginning of a word, and with an end. In a line of
// code it is an operator.
func opens(text string, i int) bool {
	rest, found := strings.CutPrefix(text[i:], "**")
	if !found || rest == "" || rest[0] == ' ' || i > 0 && text[i-1] != ' ' {
		return false
	}
	for at := 1; at < len(rest); at++ {
		if closes(rest, at) {
			return true
		}
	}
	return false
}

// closes reports whether ** at i ends what is strong: it is the end of a word.
func closes(text string, i int) bool {
	rest, found := strings.CutPrefix(text[i:], "**")
	return found && i > 0 && text[i-1] != ' ' && (rest == "" || !unicode.IsLetter(rune(rest[0])) && !unicode.IsDigit(rune(rest[0])))
}

// punctuation reports whether c is a character that a backslash may stand before.
func punctuation(c byte) bool {
	return c >= '!' && c <= '/' || c >= ':' && c <= '@' || c >= '[' && c <= '`' || c >= '{' && c <= '~'
}

// bare returns a text without its markup.
func bare(text string) string {
	var b strings.Builder
	for _, s := range spans(text) {
		b.WriteString(s.Text)
	}
	return b.String()
}
