package report

import (
	"strings"
	"testing"
	"unicode/utf8"

	"dev.gpustall/engine/report/markup"
)

// TestTableWidth: if a table would be too wide, texts are cut, and numbers never are.
func TestTableWidth(t *testing.T) {
	s := scripts()["tuned"].run(t)
	s.Segments[1].Reason = strings.Repeat("long | ", 40)
	var b strings.Builder
	if err := Markdown(&b, s, Options{}); err != nil {
		t.Fatal(err)
	}
	cut := false
	for _, l := range strings.Split(b.String(), "\n") {
		if n := utf8.RuneCountInString(l); strings.HasPrefix(l, "|") && n > markup.Width {
			t.Errorf("%d columns: %s", n, l)
		}
		cut = cut || strings.HasPrefix(l, "| #1") && strings.Contains(l, "…") && strings.Contains(l, "12,439")
	}
	if !cut {
		t.Error("the change of segment #1 is not cut, or its throughput is")
	}
}
