package report

import (
	"bytes"
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

// looked returns lines as looks find them in a PyTorch training.
var looked = []trace.Line{
	{At: trace.Loading, File: "/u/aug.py", Number: 42, Func: "blur", Text: "img.filter(f)", Looks: 400, Time: 400e6,
		Stacks: "fetch (fetch.py:52);blur (aug.py:42);filter (ImageFilter.py:9) 300000\nfetch (fetch.py:52);blur (aug.py:42) 90000\n"},
	{At: trace.Loading, File: "/u/io.py", Number: 7, Func: "read", Text: "f.read()", Looks: 100, Time: 100e6},
	{At: trace.InStep, File: "/u/train.py", Number: 88, Func: "main", Text: "loss.backward()", Looks: 90, Time: 90e6, Stacks: "main (train.py:88) 90000\n"},
	{At: trace.Waiting, Looks: 300, Time: 300e6, Stacks: "main (train.py:80);wait (threading.py:3) 300000\n"},
	{At: trace.Idling, Looks: 9, Time: 900e6},
}

// TestFolded: all of the time that was looked at is in the stacks, except the time of idle workers. A
// stack that claims more than its line has is left out.
func TestFolded(t *testing.T) {
	s := &trace.Snapshot{Lines: append([]trace.Line{{At: trace.InStep, File: "/u/x;y z.py", Number: 1, Func: "f", Time: 5e6, Stacks: "f (x.py:1) 99999999\nbad\n"}}, looked...)}
	var b bytes.Buffer
	if err := Folded(&b, s, Options{}); err != nil {
		t.Fatal(err)
	}
	want := `loading;blur (aug.py:42) 10000
loading;fetch (fetch.py:52);blur (aug.py:42) 90000
loading;fetch (fetch.py:52);blur (aug.py:42);filter (ImageFilter.py:9) 300000
loading;read (io.py:7) 100000
script;f (x,y z.py:1) 5000
script;main (train.py:88) 90000
waiting;main (train.py:80);wait (threading.py:3) 300000
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

// TestCompareLines: lines are compared by their time for a sample. A difference within chance is not
// called a change. Nothing is said if a side has too few looks of the kind.
func TestCompareLines(t *testing.T) {
	for _, c := range []struct {
		name    string
		looks   int // of B at the slow line, of 500 there
		few     bool
		changed string // of the slow line
		row     string
	}{
		{"half of it", 200, false, "aug.py:42 sure", "%"},
		{"chance", 395, false, "aug.py:42", "not certain"},
		{"fixed", 0, false, "aug.py:42 sure", "gone"},
		{"too few looks", 1, true, "", ""},
	} {
		a, b := side(t, "tuned", "A"), side(t, "tuned", "A")
		a.Snapshot.Lines = looked[:2]
		slow := looked[0]
		slow.Number, slow.Looks, slow.Time = 43, c.looks, int64(c.looks)*1e6
		other := looked[1]
		other.Looks, other.Time = 500-c.looks, int64(500-c.looks)*1e6
		if b.Snapshot.Lines = []trace.Line{slow, other}; c.few {
			b.Snapshot.Lines = []trace.Line{{At: trace.Loading, File: "/u/aug.py", Func: "blur", Looks: 3, Time: 3e6}}
		} else if c.looks == 0 {
			b.Snapshot.Lines = []trace.Line{other}
		}
		got, err := Compare(a, b)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, l := range got.Lines {
			if l.Source == "img.filter(f)" {
				if text = l.Line; l.Sure {
					text += " sure"
				}
			}
		}
		if text != c.changed {
			t.Errorf("%s: %q, want %q: %+v", c.name, text, c.changed, got.Lines)
		}
		var md strings.Builder
		if err := got.Markdown(&md); err != nil {
			t.Fatal(err)
		}
		if _, row, found := strings.Cut(md.String(), "| aug.py:42"); found != (c.changed != "") || found && !strings.Contains(strings.SplitN(row, "\n", 2)[0], c.row) {
			t.Errorf("%s: the table has %q", c.name, row)
		}
	}
}
