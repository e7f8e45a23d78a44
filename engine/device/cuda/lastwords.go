package cuda

import (
	"bytes"
	"strings"
)

// LastWords keeps the end of what a process writes. It also keeps the first line of a Go program's
// panic, which a dump of many goroutines would push out of that end.
type LastWords struct {
	b     []byte
	line  []byte // not ended yet
	fatal string
}

const lastBytes = 128 << 10

func (t *LastWords) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - lastBytes; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	for _, piece := range bytes.SplitAfter(p, []byte("\n")) {
		t.line = append(t.line, piece...)
		if !bytes.HasSuffix(piece, []byte("\n")) {
			continue
		}
		if line := strings.TrimSpace(string(t.line)); t.fatal == "" && isFatal(line) {
			t.fatal = line
		}
		t.line = t.line[:0]
	}
	return len(p), nil
}

func isFatal(line string) bool {
	return strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "SIG")
}

// Bytes returns the end of all that was written.
func (t *LastWords) Bytes() []byte { return t.b }

// Last returns the line that most likely says what went wrong: the first of a Go panic, else the
// last one.
func (t *LastWords) Last() string {
	if t.fatal != "" {
		return t.fatal
	}
	lines := strings.Split(strings.TrimSpace(string(t.b)), "\n")
	return lines[len(lines)-1]
}
