package tui

import (
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// leastNotes is how many lines of the log are worth a panel.
const leastNotes = 3

// notesPanel shows the session's log under the knobs, where these leave room.
func (m *Model) notesPanel() panel {
	return panel{
		name: "notes", title: "Notes",
		place: func(s space) place {
			left := s.rest() - gaugeRows(s) - m.knobs.wants()
			if s.class != sizeLarge || left < 2+leastNotes {
				return place{}
			}
			return place{band: mainBand, under: "knobs", rows: left}
		},
		draw: func(v *view, r canvas.Rectangle) { drawNotes(v.c, r, v.pic.snap.Notes, 0) },
	}
}

// drawNotes draws the session's log, newest first but for the newest back notes.
func drawNotes(c *canvas.Canvas, r canvas.Rectangle, notes []trace.Note, back int) {
	if len(notes) == 0 {
		c.Text(r.X+1, r.Y, r.W-2, canvas.Dim, "no notes")
		return
	}
	y := r.Y
	for i := len(notes) - 1 - back; i >= 0 && y < r.Y+r.H; i-- {
		n := &notes[i]
		p := c.Pen(r.X+1, y, r.W-2)
		var b [16]byte
		p.Bytes(canvas.Dim, figures.AppendClock(b[:0], n.T)).Space(1)
		switch n.Level {
		case "error":
			p.Text(canvas.Bad, "!! ")
		case "warn":
			p.Text(canvas.Warn, "! ")
		}
		if canvas.Width(n.Text) <= p.Left() {
			p.Text(canvas.Normal, n.Text)
			y++
			continue
		}
		for _, line := range canvas.Wrap(n.Text, p.Left()) {
			if y < r.Y+r.H {
				c.Text(p.X, y, p.Left(), canvas.Normal, line)
			}
			y++
		}
	}
}
