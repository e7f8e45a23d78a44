package advice

import (
	"slices"
	"testing"

	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/trace"
)

// TestBrief: the line of code that a verdict names stays when its text is made shorter.
func TestBrief(t *testing.T) {
	s := &situation{
		lines: []lines.Cost{
			{Line: trace.Line{At: trace.InStep, File: "/a/train.py", Number: 7, Text: "log()"}, Part: 0.2},
			{Line: trace.Line{At: trace.Loading, File: "/a/data.py", Number: 42, Text: "blur(img); x = 1"}, Part: 0.81},
		},
	}
	v := Verdict{Group: trace.GroupData, Share: 0.36}
	v.Text = "input-bound: the device waits for data 36.0 % of the time" + s.where(trace.Loading) + "; 80 steps"
	got := s.brief(&v)
	want := []string{
		"36.0 % of the time; 81.0 % of loading is at data.py:42 (blur(img); x = 1)",
		"36.0 % of the time; data.py:42: 81.0 % of loading",
		"36.0 % of the time, mostly at data.py:42",
	}
	if got.At != "data.py:42" || !got.Line || !slices.Equal(got.Clause, want) {
		t.Errorf("%+v", got)
	}
	v.Text = "input-bound: the device waits for data 36.0 % of the time"
	if got := s.brief(&v); got.At != "" || got.Clause != nil {
		t.Errorf("of a text without a line: %+v", got)
	}
	v = Verdict{Locked: true, Share: 0.5, Text: "script-bound: the loop waits" + s.where(trace.InStep)}
	if got := s.brief(&v); got.At != "GIL" || got.Line || len(got.Clause) != 3 || got.Clause[2] != "50.0 % of the time waiting for the GIL" {
		t.Errorf("of a lock: %+v", got)
	}
	if got := s.brief(&Verdict{Aside: true, Share: 0.4}); got.At != "not training" || got.Line {
		t.Errorf("beside training: %+v", got)
	}
}
