package markup

import "strings"

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
		case c == '*' && strings.HasPrefix(text[i:], "**"):
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
