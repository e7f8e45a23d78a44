//go:build linux

package script

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// mostOutput is how much of a script's output is kept in memory.
const mostOutput = 64 << 10

// Output follows the file that a script's output goes to.
type Output struct {
	mu   sync.Mutex
	file *os.File
	kept []byte
	last []string // of it, as a terminal shows them
}

func OpenOutput(path string) *Output {
	f, err := os.Open(path)
	if err != nil {
		return &Output{}
	}
	return &Output{file: f}
}

// Read returns what is new.
func (o *Output) Read() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return nil
	}
	b, _ := io.ReadAll(o.file)
	if len(b) == 0 {
		return nil
	}
	o.kept = append(o.kept, b...)
	if over := len(o.kept) - mostOutput; over > 0 {
		o.kept = append(o.kept[:0], o.kept[over:]...)
	}
	o.last = shown(o.kept)
	return b
}

// Follow reads what is new now and then, until done.
func (o *Output) Follow(done <-chan struct{}) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			o.Read()
			return
		case <-tick.C:
			o.Read()
		}
	}
}

// Tail is the last lines.
func (o *Output) Tail() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// shown are the lines of text as a terminal would show them: of a line that was written
// over (a progress bar's) what was written last.
func shown(text []byte) []string {
	text = bytes.TrimRight(text, "\n")
	if len(text) == 0 {
		return nil
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		if at := strings.LastIndexByte(line, '\r'); at >= 0 {
			line = line[at+1:]
		}
		lines[i] = plainText(line)
	}
	return lines
}

// plainText is a line without what acts on a terminal.
func plainText(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == 0x1b && i+1 < len(line) && line[i+1] == '[': // up to the sequence's last byte
			i += 2
			for i < len(line) && (line[i] < 0x40 || line[i] > 0x7e) {
				i++
			}
		case c == '\t':
			b.WriteString("    ")
		case c >= 0x20 && c != 0x7f:
			b.WriteByte(c)
		}
	}
	return b.String()
}
