package command

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
	if got := columnsOf(new(bytes.Buffer)); got != 0 {
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
