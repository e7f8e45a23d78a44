package panel

import (
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// drawAxis draws the time axis: times relative to the right edge, a t where a step with timed ops
// begins, and the changes of knobs.
func (t *Timeline) drawAxis(v *View, r canvas.Rectangle, y int) {
	x0 := r.X + laneLabel
	for c := range t.cols {
		v.C.Set(x0+c, y, v.C.Glyphs.Hor, canvas.Border)
	}
	if li := t.busyAt[trace.TrackCompute]; li >= 0 && v.Pic.value("time_ops") != "every" {
		for c := range t.cols {
			if t.acc[(int(li)*t.cols+c)*parts+timedPart] > 0 {
				v.C.Set(x0+c, y, 't', canvas.Key)
			}
		}
	}
	var b [32]byte
	for c := 0; c < t.cols; c += 24 {
		back := t.edge - (t.first+int64(c))*t.Bin()
		if back > t.edge {
			continue
		}
		at := units.Narrow.AppendTime(b[:0], -back)
		if c+len(at) > t.cols-4 { // now stands in the last four
			break
		}
		p := v.C.Pen(x0+c, y, t.cols-c)
		p.Bytes(canvas.Dim, at)
	}
	if now := v.C.Pen(x0+t.cols-4, y, 4); !v.Frozen && t.cols > 12 {
		now.Text(canvas.Dim, " now")
	}
	segs := v.Pic.Snap.Segments
	for i := len(segs) - 1; i > 0; i-- {
		c := segs[i].Start/t.Bin() - t.first
		if c < 0 {
			break
		}
		if c < int64(t.cols) {
			p := v.C.Pen(x0+int(c), y, t.cols-int(c))
			p.Rune(canvas.Staged, v.C.Glyphs.Up).Text(canvas.Staged, "#").Int(canvas.Staged, int64(segs[i].Index)).Space(1)
		}
	}
}

func (t *Timeline) drawCursor(v *View, r canvas.Rectangle, y0, y1 int) {
	c := t.cursor/t.Bin() - t.first
	if c < 0 || c >= int64(t.cols) {
		return
	}
	x := r.X + laneLabel + int(c)
	for y := y0; y < y1; y++ {
		v.C.Restyle(x, y, canvas.Cursor)
	}
}

// drawMoment writes, at the right of the timeline's title, which moment is shown.
func drawMoment(v *View, r canvas.Rectangle) {
	var b [64]byte
	text, st := b[:0], canvas.Paused
	switch {
	case v.Replay && v.Playing:
		text, st = append(text, " PLAYING "...), canvas.Running
	case v.Replay:
		text = append(text, " at "...)
	case v.Frozen:
		text = append(text, " FROZEN "...)
	default:
		return
	}
	if v.Replay {
		text = units.AppendClock(text, v.At)
		text = append(text, " of "...)
		text = units.AppendClock(text, v.Live.Now)
	} else if back := v.Live.Now - v.At; back > 0 {
		text = units.Narrow.AppendTime(text, -back)
	}
	if hint := " space goes on"; !v.Replay && r.W+2 >= len(text)+len(hint)+31 {
		text = append(text, hint...)
	}
	text = append(text, ' ')
	if r.W+2 < len(text)+30 {
		return
	}
	v.C.Right(r.X-1, r.Y-1, r.W, st, text)
}
