//go:build unix

package tui

import (
	"bytes"
	"os"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const (
	ctrlC      = 0x03
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"

	pastePause = 200 * time.Millisecond // without a byte for so long, a paste has ended
	mostKeys   = 255                    // of one read; one more and bubbletea would wait for the rest
	mostRead   = 1 << 20
)

// keyboard is a terminal whose ctrl+c never waits. A read takes all that was typed, and a ctrl+c in
// it comes first and alone. A short paste is handed on as one. A long paste, or one whose end is
// missing, is left out.
type keyboard struct {
	*os.File
	pasting bool
	last    time.Time // the last byte came
}

// input returns where keys come from: standard input if it is a terminal, or else what bubbletea
// opens.
func input() []tea.ProgramOption {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	return []tea.ProgramOption{tea.WithInput(&keyboard{File: os.Stdin})}
}

func (k *keyboard) Read(keys []byte) (int, error) {
	for {
		typed, err := k.take()
		if err != nil {
			return 0, err
		}
		if n := copy(keys[:min(len(keys), mostKeys)], k.keys(typed, time.Now())); n > 0 {
			return n, nil
		}
		if !k.more() {
			return 0, nil // it was all pasted; the caller waits for more
		}
	}
}

// take waits once for input, and reads what is there.
func (k *keyboard) take() ([]byte, error) {
	typed := make([]byte, 0, 4096)
	for {
		piece := typed[len(typed):cap(typed)]
		n, err := k.File.Read(piece)
		typed = typed[:len(typed)+n]
		if err != nil || n < len(piece) || len(typed) >= mostRead || !k.more() {
			if len(typed) > 0 {
				err = nil
			}
			return typed, err
		}
		typed = append(typed, 0)[:len(typed)]
	}
}

// more reports whether a read would not wait.
func (k *keyboard) more() bool {
	poll := []unix.PollFd{{Fd: int32(k.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0
}

// keys returns those of the typed bytes that are keys.
func (k *keyboard) keys(typed []byte, now time.Time) []byte {
	if now.Sub(k.last) > pastePause {
		k.pasting = false
	}
	k.last = now
	if bytes.IndexByte(typed, ctrlC) >= 0 {
		k.pasting = false
		return []byte{ctrlC}
	}
	var out []byte
	for len(typed) > 0 {
		if k.pasting {
			_, after, ended := bytes.Cut(typed, []byte(pasteEnd))
			k.pasting, typed = !ended, after
			continue
		}
		before, after, begun := bytes.Cut(typed, []byte(pasteBegin))
		out = append(out, before...)
		if !begun {
			break
		}
		typed = after
		text, after, ended := bytes.Cut(after, []byte(pasteEnd))
		if paste := len(pasteBegin) + len(text) + len(pasteEnd); ended && len(out)+paste <= mostKeys {
			out = append(append(append(out, pasteBegin...), text...), pasteEnd...)
			typed = after
			continue
		}
		k.pasting = true
	}
	return out
}
