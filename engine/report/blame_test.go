package report

import (
	"bytes"
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

// TestBlameTable: the paths of samples come from outside. They stand whole below the tables,
// and none acts as markup.
func TestBlameTable(t *testing.T) {
	const ms = int64(1e6)
	s := scripts()["tuned"].run(t)
	for i := range 5 {
		st := s.Recent[40+i]
		st.Epoch += 1 // the first is the worker's first of its epoch
		st.Flags &^= trace.FlagTransition
		st.Load = 200 * ms
		st.Built = trace.Built{Worker: trace.Worker(3), Slowest: trace.Piece{
			Sample: int32(i - 1), Kind: trace.KindDecode, Took: 118 * ms, Split: trace.Split{Core: 87 * ms, Waiting: 31 * ms}}}
		s.Worst.Add(&st)
	}
	s.Files = map[int32]string{
		0: "train/a/very/long/folder/of/cats/00231.jpg", 1: "=cmd|' /C calc'!A0.png", 2: "[click](http://x)\x1b[2J.jpg",
		3: strings.Repeat("a", 40) + "*" + strings.Repeat("b", 23),
	}
	var b bytes.Buffer
	if err := Markdown(&b, s, Options{}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	text = text[strings.Index(text, "Appendix F"):]
	for _, want := range []string{
		"| w3 decode", "| 118 ms |", "| 31.0 ms |", "- step 41: train/a/very/long/folder/of/cats/00231.jpg\n",
		`=cmd\|' /C calc'!A0.png`, `[click\](http://x)?[2J.jpg`, `a\*bbb`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
