package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
)

func TestFold(t *testing.T) {
	text := "verdict  input-bound: the device waits for data 43 % of the time\nadvice   try num_workers 2 -> 4\nsession  /a/very/long/path/that/nobody/can/break/into/two.gpustall\n0:01  epoch 1/3  step 20/40  276 samples/s\n"
	want := `verdict  input-bound: the
         device waits for
         data 43 % of the
         time
advice   try num_workers 2
         -> 4
session  /a/very/long/path/that/nobody/can/break/into/two.gpustall
0:01  epoch 1/3  step 20/40
  276 samples/s
`
	if got := fold(text, 28); got != want {
		t.Errorf("got\n%s", got)
	}
	if fold(text, 0) != text || fold(text, 400) != text {
		t.Error("lines that fit are changed")
	}
	if got := ColumnsOf(new(bytes.Buffer)); got != 0 {
		t.Errorf("a buffer is %d columns wide", got)
	}
	for columns := 8; columns < 120; columns++ {
		got := fold(text, columns)
		if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(text), " ") {
			t.Fatalf("at %d columns words are lost or broken:\n%s", columns, got)
		}
		for _, l := range strings.Split(got, "\n") {
			if strings.HasPrefix(strings.TrimSpace(l), "%") {
				t.Errorf("at %d columns a number and its sign part: %q", columns, l)
			}
			if runewidth.StringWidth(l) > columns && !strings.HasPrefix(l, "session") && strings.Contains(strings.TrimSpace(l), " ") {
				t.Errorf("at %d columns: %q", columns, l)
			}
		}
	}
}

// TestBarOf: a bar fits into its line, which the terminal would break otherwise.
func TestBarOf(t *testing.T) {
	for _, what := range []string{"making shards", "making synthetic CIFAR-10 in /home/somebody/.cache/gpustall/synthetic-cifar10 (once)"} {
		for columns := 40; columns < 200; columns++ {
			shown, width := barOf(what, columns)
			if full := runewidth.StringWidth(shown + " 100% ||  [59m59s:59m59s] "); full+width > columns || width < 10 {
				t.Errorf("at %d columns %q and a bar of %d", columns, shown, width)
			}
		}
	}
}
