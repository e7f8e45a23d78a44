//go:build linux

package command

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

// outputFile follows the file that a script's output goes to.
type outputFile struct {
	mu   sync.Mutex
	file *os.File
	kept []byte
	last []string // of it, as a terminal shows them
}

func newOutput(path string) *outputFile {
	f, err := os.Open(path)
	if err != nil {
		return &outputFile{}
	}
	return &outputFile{file: f}
}

// read returns what is new.
func (o *outputFile) read() []byte {
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

// follow reads what is new now and then, until done.
func (o *outputFile) follow(done <-chan struct{}) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			o.read()
			return
		case <-tick.C:
			o.read()
		}
	}
}

// tail is the last lines.
func (o *outputFile) tail() []string {
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
