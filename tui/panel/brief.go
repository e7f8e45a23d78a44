package panel

import "dev.gpustall/tui/canvas"

// Brief is the screen below 80x24: the verdict, gauges, the lanes that matter and the selected
// knob, as many lines as there are.
type Brief struct {
	verdict  *Verdict
	timeline *Timeline
	knobs    *Knobs
}

// NewBrief makes the brief of some panels.
func NewBrief(vd *Verdict, t *Timeline, k *Knobs) *Brief { return &Brief{vd, t, k} }

// Draw draws it into r, for the view of the knobs.
func (b *Brief) Draw(v *View, r canvas.Rectangle) {
	y, end := r.Y, r.Y+r.H
	line := func() canvas.Pen {
		p := v.C.Pen(r.X+1, y, r.W-2)
		y++
		return p
	}
	const rest = 3 // rows that a gauge, STALL and the knob need
	y += b.verdict.DrawShort(v, canvas.Rect(r.X+1, y, r.W-2, max(1, r.H-rest)))
	knobs := 1
	if end-y >= 10 {
		knobs = 2
	}
	stop := end - knobs
	for i, f := range [...]func(*View, *canvas.Pen){utilLine, rateLine, stepLine, queueLine} {
		if stop-y <= 2 && i > 0 {
			break
		}
		p := line()
		f(v, &p)
	}
	if stop-y >= 8 {
		p := line()
		nvmlLine(v, &p)
	}
	if stop-y >= 7 {
		v.C.Rule(r, y)
		y++
	}
	// If there is little room, the timeline leaves out lanes, and STALL last.
	if h := stop - y; h > 0 {
		b.timeline.drawLanes(v, canvas.Rect(r.X, y, r.W, h))
	}
	y = stop
	if knobs > 1 {
		v.C.Rule(r, y)
		y++
	}
	if b.knobs.Selected() != nil {
		b.knobs.drawSelected(v, canvas.Rect(r.X+1, y, r.W-1, 1))
	}
}
