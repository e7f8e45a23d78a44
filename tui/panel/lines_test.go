package panel

import (
	"testing"

	code "dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/trace"
)

// TestLinesFilter: the filter looks at file, source and function. The cursor stays on its line, whatever
// the order. The callers of a line that is gone are closed.
func TestLinesFilter(t *testing.T) {
	at := func(file string, number int, text string) code.Cost {
		return code.Cost{Line: trace.Line{At: trace.Loading, File: file, Number: number, Func: "f", Text: text}}
	}
	a, b, c := at("/u/aug.py", 42, "blur(img)"), at("/u/io.py", 7, "f.read()"), at("/u/Train.py", 88, "loss.item()")
	l := NewLines(nil, nil)
	l.arrange([]code.Cost{a, b, c})
	l.move(1)
	if l.open = true; l.chosen != b {
		t.Fatalf("the cursor is on %+v", l.chosen)
	}
	l.arrange([]code.Cost{c, a, b})
	if l.chosen != b || l.table.Cursor != 2 || !l.open {
		t.Errorf("in another order the cursor is on row %d, %+v", l.table.Cursor, l.chosen)
	}
	for text, want := range map[string]int{"": 3, "BLUR": 1, "train.py": 1, "py": 3, "read()": 1, "nothing": 0} {
		l.filter = text
		if l.arrange([]code.Cost{a, b, c}); len(l.rows) != want {
			t.Errorf("%q: %d lines, want %d", text, len(l.rows), want)
		}
		l.move(5)
	}
	l.filter = ""
	l.arrange([]code.Cost{a, b})
	l.chosen, l.open = b, true
	if l.arrange([]code.Cost{a}); l.open || l.chosen != a {
		t.Errorf("callers of a line that is gone are shown: %+v", l.chosen)
	}
	if l.filter = "x"; !l.DropFilter() || l.DropFilter() {
		t.Error("the filter is not dropped once")
	}
}

// looking is a run that remembers the rate.
type looking struct{ rate string }

func (*looking) LookRates() []string    { return []string{"on", "off", "fast"} }
func (l *looking) Looks() string        { return l.rate }
func (l *looking) SetLooks(rate string) { l.rate = rate }

// TestLinesRate: the key goes through all rates; a replay has none.
func TestLinesRate(t *testing.T) {
	run := &looking{"on"}
	b := Pressed(NewLines(nil, run).Keys, "r")
	for _, want := range []string{"off", "fast", "on"} {
		if b("r"); run.rate != want {
			t.Errorf("%s, want %s", run.rate, want)
		}
	}
	if Pressed(NewLines(nil, nil).Keys, "r") != nil {
		t.Error("a replay has a rate")
	}
}
