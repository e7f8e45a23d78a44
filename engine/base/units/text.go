package units

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLine limits what Line returns, in characters. The longest sentences that gpustall itself
// writes are shorter.
const maxLine = 600

// Line makes one line for people of text from outside the program (the name of a file, a label, a
// note, a setting). Line ends and tabs become spaces. What is not printable becomes '?', so that it
// does nothing to a terminal. What is too long is cut.
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

// Tail returns the end of a text in at most n characters, of which two are kept free for CutMark.
// The end is what tells one path from another. cut reports whether anything was left out. n must be
// at least 3: for a smaller one, Tail returns the whole of s.
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

// Lines makes text of several lines fit for a terminal or a log. Each stays a line, without
// anything that is not printable.
func Lines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return printable(r)
	}, s)
}

// NoBreak stands for a space at which no line breaks. Package strings does not count it as a space.
const NoBreak = "\ue000"

// withUnit is a number and what it counts.
var withUnit = regexp.MustCompile(`(\d) (%|[nµm]?s\b|min\b|h\b|[kKMGT]?i?B\b|steps?\b)`)

// Bind joins each number to its unit, so that no line breaks between them. Unbind undoes that once
// the lines are broken.
func Bind(s string) string { return withUnit.ReplaceAllString(s, "${1}"+NoBreak+"${2}") }

// Unbind returns the text that Bind was given.
func Unbind(s string) string { return strings.ReplaceAll(s, NoBreak, " ") }

// printable returns r, or what is written in its place.
func printable(r rune) rune {
	switch {
	case r == '\n' || r == '\r' || r == '\t' || r == '\u00a0':
		return ' '
	case r == unicode.ReplacementChar || !unicode.IsPrint(r):
		return '?'
	}
	return r
}

// Ranges writes numbers in rising order, with runs of them as their ends: 0-2,5 for 0, 1, 2 and 5, where
// between is a comma.
func Ranges(sorted []int, between string) string {
	var parts []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		part := strconv.Itoa(sorted[i])
		if j > i {
			part += "-" + strconv.Itoa(sorted[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, between)
}
