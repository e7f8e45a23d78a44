package panel

import (
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// leastNotes is the least number of lines of the log for which there is a panel.
const leastNotes = 3

// Notes is the panel of the session's log, under the knobs where these leave room.
type Notes struct {
	Card
	knobs *Knobs
}

// NewNotes makes the panel, for the column of these knobs.
func NewNotes(k *Knobs) *Notes { return &Notes{Card{Name: "notes", Title: "Notes"}, k} }

// Place asks for the rows that the knobs leave of their column, if these are enough.
func (n *Notes) Place(s Space) Place {
	left := s.Rest() - gaugeRows(s) - n.knobs.wants()
	if s.Class != SizeLarge || left < 2+leastNotes {
		return Place{}
	}
	return Place{Band: mainBand, Under: "knobs", Rows: left}
}

// Draw draws the newest notes.
func (*Notes) Draw(v *View, r canvas.Rectangle) { DrawNotes(v.C, r, &v.Pic.Snap, 0) }

// LogLines returns how many lines the log has: its notes and the changes of knobs, except for
// the changes that experiments make.
func LogLines(s *trace.Snapshot) int {
	n := len(s.Notes) + max(0, len(s.Segments)-1)
	for i := range s.Segments {
		if trace.ExperimentOf(s.Experiments, s.Segments[i].Index) != nil {
			n--
		}
	}
	return n
}

// DrawNotes draws the session's log, newest first: its notes, and between them the changes of
// knobs. It leaves out the newest lines, as many as back says.
func DrawNotes(c *canvas.Canvas, r canvas.Rectangle, s *trace.Snapshot, back int) {
	if LogLines(s) == 0 {
		c.Text(r.X+1, r.Y, r.W-2, canvas.Dim, "no notes")
		return
	}
	y := r.Y
	for i, k := len(s.Notes)-1, len(s.Segments)-1; (i >= 0 || k > 0) && y < r.Y+r.H; back-- {
		if k > 0 && trace.ExperimentOf(s.Experiments, s.Segments[k].Index) != nil {
			k--
			back++ // an experiment's change is not in the log
			continue
		}
		var n trace.Note
		segment := k > 0 && (i < 0 || s.Segments[k].Start >= s.Notes[i].T)
		if segment {
			n = trace.Note{T: s.Segments[k].Start, Text: s.Segments[k].Reason}
			k--
		} else {
			n = s.Notes[i]
			i--
		}
		if back > 0 {
			continue
		}
		p := c.Pen(r.X+1, y, r.W-2)
		p.Bytes(canvas.Dim, units.AppendClock(p.Buf(), n.T)).Space(1)
		switch n.Level {
		case "error":
			p.Text(canvas.Bad, "!! ")
		case "warn":
			p.Text(canvas.Warn, "! ")
		}
		if segment {
			p.Text(canvas.Key, "#").Int(canvas.Key, int64(s.Segments[k+1].Index)).Space(1)
		}
		if canvas.Width(n.Text) <= p.Left() {
			writeReason(&p, n.Text)
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
