package tui

import (
	"dev.gpustall/tui/canvas"
	"dev.gpustall/tui/panel"
)

// overlay is what covers the body of the screen, if anything does: the help, or the session's log.
type overlay struct {
	kind   overlayKind
	scroll int
}

// overlayKind is what an overlay shows.
type overlayKind uint8

const (
	overlayNone overlayKind = iota
	overlayHelp
	overlayNotes
)

// key handles a key while the overlay is open. It has as many lines as height says.
func (o *overlay) key(name string, height int) {
	switch name {
	case "up", "k":
		o.scroll = max(0, o.scroll-1)
	case "down", "j":
		o.scroll = min(o.scroll+1, max(0, height-1))
	case "pgdown", "space":
		o.scroll = min(o.scroll+10, max(0, height-1))
	case "pgup":
		o.scroll = max(0, o.scroll-10)
	case "q", "esc", "?", "n", "enter":
		o.kind = overlayNone
	}
}

// mostHelp is the width of the help on a wide screen, its border included.
const mostHelp = 84

// height returns how many lines the overlay has on a screen w wide.
func (o *overlay) height(h *help, pic *panel.Picture, w int) int {
	if o.kind == overlayHelp {
		return h.height(min(w, mostHelp) - 2)
	}
	return panel.LogLines(&pic.Snap)
}

// draw draws the help or the log over the body b.
func (o *overlay) draw(c *canvas.Canvas, h *help, pic *panel.Picture, b canvas.Rectangle) {
	r, title := b, "Help"
	if o.kind == overlayHelp {
		r.W = min(b.W, mostHelp)
		r.H = min(b.H, h.height(r.W-2)+2)
	} else {
		r.W, title = min(b.W, 110), "Notes"
	}
	r.X = b.X + (b.W-r.W)/2
	r.Y = b.Y + (b.H-r.H)/2
	c.Fill(r, ' ', canvas.Normal)
	p := c.Box(r, "", title, false)
	p.Text(canvas.Dim, "esc closes, up and down scroll ")
	in := r.Inner()
	if o.kind == overlayNotes {
		panel.DrawNotes(c, in, &pic.Snap, o.scroll)
		return
	}
	o.scroll = max(0, min(o.scroll, h.height(in.W)-in.H))
	h.draw(c, in, o.scroll)
}
