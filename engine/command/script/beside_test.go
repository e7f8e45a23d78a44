package script

import (
	"os"
	"path/filepath"
	"testing"

	"dev.gpustall/engine/command/cli"
)

// TestBeside: on a terminal a line begins on a line of its own, also behind a progress bar. A
// line to a file is unchanged.
func TestBeside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := cli.Say(Beside{f}, "step %d\n", 7); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "step 7\n" {
		t.Errorf("%q, %v", text, err)
	}
	const columns = 20
	for _, c := range []struct{ before, want string }{
		{"", "step 7|"},
		{"line\n", "line|step 7|"},
		{"45% ####", "45% ####|step 7|"},
		{"12345678901234567890", "12345678901234567890|step 7|"},
		{"loss 0.3\r", "step 7|"},
	} {
		if got := onScreen(c.before+fresh(columns)+"step 7\n", columns); got != c.want {
			t.Errorf("after %q there is %q, want %q", c.before, got, c.want)
		}
	}
}

// onScreen returns what a terminal of that width shows of a text: a bar between lines, and no
// spaces at their ends.
func onScreen(text string, columns int) (all string) {
	var line []byte
	at := 0
	end := func() {
		for len(line) > 0 && line[len(line)-1] == ' ' {
			line = line[:len(line)-1]
		}
		all, line, at = all+string(line)+"|", nil, 0
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\n':
			end()
		case c == '\r':
			at = 0
		default:
			if at == columns {
				end()
			}
			line = append(line[:min(at, len(line))], append([]byte{c}, line[min(at+1, len(line)):]...)...)
			at++
		}
	}
	return all
}
