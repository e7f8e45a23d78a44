package cuda

import (
	"bytes"
	"strings"
)

// LastWords keeps the end of what a process says, and the line that a Go program's end
// begins with, which a dump of many goroutines pushes out of the end.
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

// Bytes are the end of all that was said.
func (t *LastWords) Bytes() []byte { return t.b }

// Last is the line that most likely says what went wrong: the first of a Go panic,
// else the last one.
func (t *LastWords) Last() string {
	if t.fatal != "" {
		return t.fatal
	}
	lines := strings.Split(strings.TrimSpace(string(t.b)), "\n")
	return lines[len(lines)-1]
}
