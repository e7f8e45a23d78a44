package panel

import (
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// TestVerdictWraps: no line begins with a percent sign, and no name is changed.
func TestVerdictWraps(t *testing.T) {
	const text = "the device waits 7 % of 100 % for num_workers and 14 % for prefetch_factor"
	for w := 16; w < 80; w++ {
		lines := wrapWords(text, w)
		if got := strings.Join(lines, " "); got != text {
			t.Fatalf("%d columns: %q", w, got)
		}
		for _, l := range lines {
			if strings.HasPrefix(l, "%") {
				t.Errorf("%d columns: %q", w, lines)
			}
		}
	}
}

// TestVerdictNamesLine: the first line has the line of code at every width that has room for it, and so do the narrowest screens.
func TestVerdictNamesLine(t *testing.T) {
	const at = "train_mae.py:142"
	a := advice.Advice{Verdict: advice.Verdict{
		Class: "input-bound", Group: trace.GroupData, Dominant: trace.CauseTransform, Share: 0.885,
		Text: "input-bound: the device waits for data 88.5 % of the time; 97.8 % of loading is at " + at + " (blur(img)); most of the wait is for transforming",
		Brief: advice.Brief{At: at, Line: true, Clause: []string{
			"88.5 % of the time; 97.8 % of loading is at " + at + " (blur(img))",
			"88.5 % of the time; " + at + ": 97.8 % of loading",
			"88.5 % of the time, mostly at " + at,
		}},
	}}
	for w := 58; w < 220; w++ {
		var vd Verdict
		vd.wrap(&a, w)
		if first := vd.lines[0].text; !strings.Contains(first, at) || canvas.Width(first) > w {
			t.Errorf("%d columns: %q", w, first)
		}
	}
	for w, want := range map[int]string{
		28: "INPUT " + at, 34: "INPUT 88.5% " + at, 38: "INPUT-BOUND 88.5% " + at, 50: "INPUT-BOUND 88.5% transform " + at,
	} {
		c := &canvas.Canvas{}
		c.Resize(w, 1)
		c.Clear()
		drawNarrow(&View{C: c}, &a.Verdict, canvas.Rect(0, 0, w, 1))
		var row []rune
		for x := range w {
			r, _ := c.At(x, 0)
			row = append(row, r)
		}
		if got := strings.TrimSpace(string(row)); got != want {
			t.Errorf("%d columns: %q, want %q", w, got, want)
		}
	}
}
