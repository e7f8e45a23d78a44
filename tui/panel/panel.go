package panel

import (
	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// Panel is a box of the screen. The layout, the order of tab, what keys do, the footer and
// the help all follow from its methods. To add one, write a file with a type that has them.
type Panel interface {
	// Describe returns what stays the same about the panel.
	Describe() *Card

	// Place returns what the panel asks of the layout.
	Place(s Space) Place

	// Draw draws the inside of the panel's box, and with v.Head what stands behind the title.
	Draw(v *View, inside canvas.Rectangle)
}

// Card is what the screen knows of a panel: its names, how it shares the screen, its keys.
type Card struct {
	Key   string // gives it the focus; "" for a panel that only shows
	Name  string // in the help
	Title string // of its box; "" for a panel that draws its own boxes
	Hint  string // its word in the footer while another panel has the focus

	// The compact screen has room for one side panel beside the knobs: the one that had the
	// focus last. A panel with Instead replaces the other side panels even on larger
	// screens, from when it gets the focus until another side panel gets it.
	Side    bool
	Instead bool

	// The small screen shows the essentials of all panels with Small at once. A panel without
	// it is shown alone while it has the focus.
	Small bool

	Keys []Binding // what keys do while it has the focus
}

// Describe returns the card itself, so that a panel only has to embed its card.
func (c *Card) Describe() *Card { return c }

// View holds all that a panel draws from, besides its own state.
type View struct {
	C        *canvas.Canvas
	Head     canvas.Pen      // behind the title of the panel's box
	Pic      *Picture        // the moment shown
	Win      *Window         // its last steps; all numbers but the histories are about these
	Analysis *Analysis       // the verdict on them and the comparisons
	Live     *trace.Snapshot // the newest snapshot
	At       int64           // the moment that the user chose, ns

	Class      SizeClass
	Focused    bool // the panel has the focus
	Expanded   bool // the panel has the focus and the whole body
	CanSet     bool // there is a run whose knobs can be changed
	CanCapture bool // there is a run that can capture a few steps
	Replay     bool
	Playing    bool
	Frozen     bool
	Paused     bool

	Ready, Capacity int64 // of the batch queue, as its lane shows them
}

// Screen is what the keys of a panel can ask of the screen around it.
type Screen interface {
	Say(level, text string)               // shows a line of feedback
	Prompt(p *Prompt)                     // lets the user type a text
	Freeze()                              // makes the moment shown stand still, and says so
	Focus(name string)                    // gives a panel the focus
	Apply(changes []knob.Setting) tea.Cmd // asks the run for changes
	See(p Panel) *View                    // returns what p would draw from now
}

// Failed is a message with the error of what a panel began.
type Failed string

// Prompt is a text that the user types. All keys go to it until enter or esc.
type Prompt struct {
	Question string // in the footer, before the text
	Most     int    // the longest text, in bytes
	Text     string
	Changed  func(text string)          // called after every key; may be nil
	End      func(text string, ok bool) // called after enter, with ok, or after esc
}
