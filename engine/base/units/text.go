package units

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLine bounds what Line returns, in characters: the longest sentences that gpustall
// writes itself are shorter.
const maxLine = 600

// Line is text from outside the program (the name of a file, a label, a note, a setting)
// as one line for people to read: line ends and tabs become spaces, what is not
// printable becomes '?', so that it does nothing to a terminal, and what is too long
// is cut.
func Line(s string) string {
	n := 0
	s = strings.Map(func(r rune) rune {
		if n++; n > maxLine {
			return -1
		}
		return printable(r)
	}, s)
	if n > maxLine {
		s += "…"
	}
	return s
}

// Tail is the end of a text of which only n characters have room, less two for a mark: of
// a path that is what tells it from others. cut says whether anything was left out.
func Tail(s string, n int) (end string, cut bool) {
	over := utf8.RuneCountInString(s) - n
	if over <= 0 || n < 3 {
		return s, false
	}
	for range over + len(CutMark) {
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
	return s, true
}

// CutMark stands where the beginning of a text was left out.
const CutMark = ".."

// Lines is text of several lines for a terminal or a log. Each stays a line, without
// anything that is not printable.
func Lines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return printable(r)
	}, s)
}

// NoBreak stands for a space at which no line breaks. It is no space to package strings.
const NoBreak = "\ue000"

// withUnit is a number and what it counts.
var withUnit = regexp.MustCompile(`(\d) (%|[nµm]?s\b|min\b|h\b|[kKMGT]?i?B\b|steps?\b)`)

// Bind makes words that no line break parts of each number and its unit; Unbind takes
// that back when the lines are broken.
func Bind(s string) string { return withUnit.ReplaceAllString(s, "${1}"+NoBreak+"${2}") }

// Unbind is the text that was bound.
func Unbind(s string) string { return strings.ReplaceAll(s, NoBreak, " ") }

// printable is r, or what stands for it.
func printable(r rune) rune {
	switch {
	case r == '\n' || r == '\r' || r == '\t' || r == '\u00a0':
		return ' '
	case r == unicode.ReplacementChar || !unicode.IsPrint(r):
		return '?'
	}
	return r
}
