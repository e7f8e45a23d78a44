package panel

import (
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
)

// Binding is what one key does, or several keys that belong together, with its words in the
// footer and in the help.
type Binding struct {
	Keys string // the names of the keys, as a person reads them
	Also string // further keys that do the same, which neither footer nor help names
	Show string // their names in the footer, where those are shorter than Keys
	Help string // what they do; "" leaves them out of the help
	Live bool   // they do nothing in a replay, whose help leaves them out

	Hint   string        // a word for the footer; "" leaves them out of it
	Replay string        // likewise, in a replay
	Now    func() string // replaces the word while it returns one; may be nil
	When   func() bool   // whether the footer shows the keys; nil: always

	// Do handles a key. A panel leaves it nil where the key means the same everywhere.
	Do func(key string) tea.Cmd
}

// Keys that several panels share.
const (
	upDownKeys    = "up down / j k"
	leftRightKeys = "left right / h l"
	biggerKeys    = "shift, ctrl"
	biggerAlso    = "shift+left shift+right ctrl+left ctrl+right H L"
	pageKeys      = "pgup pgdown"
	biggerHelp    = "bigger steps with left or right (or H L)"

	// The footer shows the terminal's arrows for these.
	UpDown    = "^v"
	LeftRight = "<>"
)

// scrollKeys binds the keys that scroll a list, by a line or by a page of ten.
func scrollKeys(scroll func(lines int)) Binding {
	return Binding{Keys: upDownKeys, Also: pageKeys, Show: UpDown, Hint: "scroll", Replay: "scroll", Help: "scroll", Do: func(key string) tea.Cmd {
		d, far := direction(key)
		scroll(d * Pick(far == stridePage, 10, 1))
		return nil
	}}
}

// Label returns the names of the keys as the footer has them.
func (b *Binding) Label() string { return Pick(b.Show == "", b.Keys, b.Show) }

// Names returns the names of the keys, including those in Also. A slash between names is
// only for readers.
func (b *Binding) Names() []string {
	names := strings.Fields(b.Keys)
	if len(names) > 1 {
		names = slices.DeleteFunc(names, func(s string) bool { return s == "/" })
	}
	return append(names, strings.Fields(b.Also)...)
}

// Pressed returns the handler of a key among bindings, or nil.
func Pressed(bindings []Binding, key string) func(key string) tea.Cmd {
	for i := range bindings {
		if b := &bindings[i]; b.Do != nil && slices.Contains(b.Names(), key) {
			return b.Do
		}
	}
	return nil
}

// stride is how far a key goes.
type stride uint8

const (
	strideOne stride = iota
	strideShift
	strideCtrl
	stridePage
)

// direction returns where an arrow key, its letter or a page key goes, and how far. d is -1
// for back or up, 1 for on or down, and 0 for other keys.
func direction(key string) (d int, far stride) {
	switch key {
	case "left", "h", "up", "k":
		return -1, strideOne
	case "right", "l", "down", "j":
		return 1, strideOne
	case "shift+left", "H":
		return -1, strideShift
	case "shift+right", "L":
		return 1, strideShift
	case "ctrl+left":
		return -1, strideCtrl
	case "ctrl+right":
		return 1, strideCtrl
	case "pgup":
		return -1, stridePage
	case "pgdown":
		return 1, stridePage
	}
	return 0, strideOne
}

// Pick returns a where c holds, and else b.
func Pick[T any](c bool, a, b T) T {
	if c {
		return a
	}
	return b
}
