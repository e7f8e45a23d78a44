//go:build unix

package tui

import (
	"bytes"
	"image/color"
	"os"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const (
	ctrlC      = 0x03
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
	isColour   = "\x1b]11;" // the terminal's background, up to a BEL or an ST

	pastePause = 200 * time.Millisecond // without a byte for so long, a paste has ended
	mostKeys   = 255                    // of one read; one more and bubbletea would wait for the rest
	mostRead   = 1 << 20
)

// keyboard is a terminal whose ctrl+c never waits. A read takes all that was typed, and a ctrl+c in
// it comes first and alone. A short paste is handed on as one. A long paste, or one whose end is
// missing, is left out. So is what the terminal says of its background, which the keys f and b are part of.
type keyboard struct {
	*os.File
	pasting    bool
	last       time.Time // the last byte came
	background func(light bool)
}

// input returns where keys come from: standard input if it is a terminal, or else what bubbletea
// opens. background is told what the terminal says of its background; asks reports whether it can be asked.
func input(background func(light bool)) (options []tea.ProgramOption, asks bool) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil, false
	}
	return []tea.ProgramOption{tea.WithInput(&keyboard{File: os.Stdin, background: background})},
		term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "linux"
}

func (k *keyboard) Read(keys []byte) (int, error) {
	for {
		typed, err := k.take()
		if err != nil {
			return 0, err
		}
		if n := copy(keys, whole(k.keys(typed, time.Now()), min(len(keys), mostKeys))); n > 0 {
			return n, nil
		}
		if !k.more() {
			return 0, nil // it was all pasted; the caller waits for more
		}
	}
}

// whole returns the first n bytes of keys at the most, without a sequence that is cut off there: its rest would read as keys.
func whole(keys []byte, n int) []byte {
	if len(keys) <= n {
		return keys
	}
	keys = keys[:n]
	i := bytes.LastIndexByte(keys, '\x1b')
	if i < 0 || bytes.IndexFunc(bytes.TrimPrefix(keys[i+1:], []byte("[")), func(r rune) bool { return r >= '@' }) >= 0 {
		return keys
	}
	return keys[:i]
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
	typed = k.coloured(typed)
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

// coloured takes what the terminal says of its background out of typed.
func (k *keyboard) coloured(typed []byte) []byte {
	before, after, said := bytes.Cut(typed, []byte(isColour))
	if !said {
		return typed
	}
	end := bytes.IndexAny(after, "\a\x1b")
	if end < 0 {
		return before
	}
	if c := ansi.XParseColor(string(after[:end])); c != nil && k.background != nil {
		grey, _ := color.GrayModel.Convert(c).(color.Gray)
		k.background(grey.Y >= 128)
	}
	rest := bytes.TrimPrefix(bytes.TrimPrefix(after[end:], []byte("\a")), []byte("\x1b\\"))
	return append(before[:len(before):len(before)], rest...)
}
