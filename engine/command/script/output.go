//go:build linux

package script

import (
	"bytes"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"dev.gpustall/engine/base/timer"
)

// mostOutput is how many bytes of a script's output are kept in memory.
const mostOutput = 64 << 10

// All is for Copy that has no limit.
const All = math.MaxInt

// Output follows the file to which a script's output goes.
type Output struct {
	mu   sync.Mutex
	file *os.File
	kept []byte
	last []string // the lines of kept, as a terminal shows them
}

// OpenOutput opens the file. If it cannot be opened there is no output.
func OpenOutput(path string) *Output {
	f, err := os.Open(path)
	if err != nil {
		return &Output{}
	}
	return &Output{file: f}
}

// Copy writes new output to w, if there is one, and keeps the end of it. It reads in pieces, because a script may print faster
// than Copy is called, and at most about so many bytes, because it may print faster than a terminal shows them.
func (o *Output) Copy(w io.Writer, most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return
	}
	piece := make([]byte, mostOutput)
	news := false
	for ; most > 0; most -= len(piece) {
		n, err := o.file.Read(piece)
		if n == 0 || err != nil {
			break
		}
		news = true
		if w != nil {
			_, _ = w.Write(piece[:n])
		}
		o.kept = append(o.kept, piece[:n]...)
		if over := len(o.kept) - mostOutput; over > 0 {
			o.kept = append(o.kept[:0], o.kept[over:]...)
		}
	}
	if news {
		o.last = shown(o.kept)
	}
}

// Follow reads ten times a second until done is closed.
func (o *Output) Follow(done <-chan struct{}) {
	timer.Repeat(done, 100*time.Millisecond, func() bool {
		o.Copy(nil, All)
		return true
	})
	o.Copy(nil, All)
}

// Tail returns the last lines.
func (o *Output) Tail() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// shown returns the lines of a text as a terminal shows them. If carriage returns overwrote a
// line, such as a progress bar, it returns the last version.
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

// plainText returns a line without escape sequences and control characters.
func plainText(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == 0x1b && i+1 < len(line) && line[i+1] == '[': // skip to the last byte of the sequence
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
