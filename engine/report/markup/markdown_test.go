package markup

import (
	"strings"
	"testing"
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
	} {
		if got := wrap(tt[0]); got != tt[1] {
			t.Errorf("%q\nwraps as %q\nwant %q", tt[0], got, tt[1])
		}
	}
}
