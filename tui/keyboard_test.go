//go:build unix

package tui

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"dev.gpustall/tui/panel"
)

// TestKeyboard: ctrl+c comes first and alone, and only a paste that is short and whole is handed on.
func TestKeyboard(t *testing.T) {
	long := strings.Repeat("j", 1000)
	for _, c := range []struct {
		name  string
		typed []string // each after a pause when it begins with a space, which is not typed
		want  string
	}{
		{"keys", []string{"jk", "q"}, "jkq"},
		{"ctrl+c behind many keys", []string{long + "\x03"}, "\x03"},
		{"ctrl+c in a paste", []string{"\x1b[200~abc\x03"}, "\x03"},
		{"a paste", []string{"a\x1b[200~qqq\x1b[201~b"}, "a\x1b[200~qqq\x1b[201~b"},
		{"a long paste", []string{"a\x1b[200~" + long + "\x1b[201~b"}, "ab"},
		{"a paste in pieces", []string{"\x1b[200~qq", "qq\x1b[201~b"}, "b"},
		{"a paste without its end", []string{"\x1b[200~abc", " q"}, "q"},
		{"an arrow", []string{"\x1b[A"}, "\x1b[A"},
		{"a light background", []string{"j\x1b]11;rgb:ffff/ffff/f0f0\x1b\\k"}, "jklight"},
		{"a dark background", []string{"\x1b]11;rgb:00/2b/36\aq"}, "qdark"},
		{"no colour", []string{"\x1b]11;?\aq", "\x1b]"}, "q\x1b]"},
		{"two pastes", []string{"\x1b[200~x\x1b[201~1\x1b[200~y\x1b[201~2"}, "\x1b[200~x\x1b[201~1\x1b[200~y\x1b[201~2"},
	} {
		k, now, got, background := &keyboard{}, time.Now(), "", ""
		k.background = func(light bool) { background = panel.Pick(light, "light", "dark") }
		for _, typed := range c.typed {
			if rest, ok := strings.CutPrefix(typed, " "); ok {
				now, typed = now.Add(2*pastePause), rest
			}
			now = now.Add(time.Millisecond)
			got += string(k.keys([]byte(typed), now))
		}
		if got += background; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestWhole: of too many keys no sequence is cut off.
func TestWhole(t *testing.T) {
	for typed, want := range map[string]string{
		"jkl": "jkl", "jklmnop": "jklmn", "j\x1b[A": "j\x1b[A", "jk\x1b[<65;1;1M": "jk", "\x1b[<6;1;1M": "", "j\x1b[Ajk": "j\x1b[Aj", "jklm\x1b[A": "jklm", "jk\x1bOPq": "jk\x1bOP",
	} {
		if got := string(whole([]byte(typed), 5)); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}

// TestKeyboardReads takes a megabyte of keys from a terminal. A ctrl+c behind them does not
// wait.
func TestKeyboardReads(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	defer tty.Close()
	defer master.Close()
	raw, err := rawMode(tty)
	if err != nil {
		t.Fatal(err)
	}
	defer raw()
	written := make(chan struct{})
	defer func() { <-written }()
	go func() {
		defer close(written)
		for range 1 << 10 {
			if _, err := master.WriteString(strings.Repeat("j", 1<<10)); err != nil {
				return
			}
		}
		_, _ = master.WriteString("\x03")
	}()
	k := &keyboard{File: tty}
	keys := make([]byte, 256)
	for reads := 0; ; reads++ {
		n, err := k.Read(keys)
		if err != nil {
			t.Fatal(err)
		}
		if string(keys[:n]) == "\x03" {
			return
		}
		if reads > 1<<13 {
			t.Fatalf("%d reads, and no ctrl+c", reads)
		}
	}
}

// rawMode hands on what is typed as it is.
func rawMode(tty *os.File) (restore func(), err error) {
	state, err := term.MakeRaw(int(tty.Fd()))
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(int(tty.Fd()), state) }, nil
}
