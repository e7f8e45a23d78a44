package tui

import (
	"dev.gpustall/engine/base/units"
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
		draw: func(v *view, r canvas.Rectangle) { drawNotes(v.c, r, &v.pic.snap, 0) },
	}
}

// logLines is how many lines the log has: notes, and the changes of knobs.
// Those that experiments make are none.
func logLines(s *trace.Snapshot) int {
	n := len(s.Notes) + max(0, len(s.Segments)-1)
	for i := range s.Segments {
		if trace.ExperimentOf(s.Experiments, s.Segments[i].Index) != nil {
			n--
		}
	}
	return n
}

// drawNotes draws the session's log, newest first but for the newest back lines: its
// notes, and between them when knobs changed.
func drawNotes(c *canvas.Canvas, r canvas.Rectangle, s *trace.Snapshot, back int) {
	if logLines(s) == 0 {
		c.Text(r.X+1, r.Y, r.W-2, canvas.Dim, "no notes")
		return
	}
	y := r.Y
	for i, k := len(s.Notes)-1, len(s.Segments)-1; (i >= 0 || k > 0) && y < r.Y+r.H; back-- {
		if k > 0 && trace.ExperimentOf(s.Experiments, s.Segments[k].Index) != nil {
			k--
			back++ // it is no line
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
