package report

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWrap(t *testing.T) {
	word := strings.Repeat("x", 94)
	for _, tt := range [][2]string{
		{"short", "short"},
		{word + " and more", word + " and\nmore"},
		{"- " + word + "x and more", "- " + word + "x\n  and more"},
		{"  - " + word + " and more", "  - " + word + "\n    and more"},
		{word + " 4.0 % of it", word + " 4.0 %\nof it"},
		{word + "x 4.0 % of it", word + "x\n4.0 % of it"},   // a number and its unit stay together
		{word + "xxxxx - a dash", word + "xxxxx -\na dash"}, // which would begin a list
		{word + "xxxxx 1. first", word + "xxxxx 1.\nfirst"},
		{word + "xxxx > quoted", word + "xxxx >\nquoted"},
		{word + word, word + word},
		{"a\nb", "a b"},
	} {
		if got := wrap(tt[0]); got != tt[1] {
			t.Errorf("%q\nwraps as %q\nwant %q", tt[0], got, tt[1])
		}
	}
}

// TestTableWidth: text is cut where a table would be too wide, numbers never.
func TestTableWidth(t *testing.T) {
	s := scripts()["tuned"].run(t)
	s.Segments[1].Reason = strings.Repeat("long | ", 40)
	var b strings.Builder
	if err := Markdown(&b, s, Options{}); err != nil {
		t.Fatal(err)
	}
	cut := false
	for _, l := range strings.Split(b.String(), "\n") {
		if n := utf8.RuneCountInString(l); strings.HasPrefix(l, "|") && n > width {
			t.Errorf("%d columns: %s", n, l)
		}
		cut = cut || strings.HasPrefix(l, "| #1") && strings.Contains(l, "…") && strings.Contains(l, "12,439")
	}
	if !cut {
		t.Error("the change of segment #1 is not cut, or its throughput is")
	}
}
