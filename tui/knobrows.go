package tui

import (
	"strconv"
	"strings"

	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// draw draws the knobs, one a row under group headings, and two lines about the
// selected one.
func (k *knobs) draw(v *view, r canvas.Rectangle) {
	if r.Empty() {
		return
	}
	if len(k.specs) == 0 {
		v.c.Text(r.X+1, r.Y, r.W-2, canvas.Dim, "no knobs: the trace names none")
		return
	}
	foot := 0
	switch {
	case r.H >= 14:
		foot = knobFoot
	case r.H >= 8:
		foot = 2
	case r.H >= 4:
		foot = 1
	}
	body := canvas.Rect(r.X, r.Y, r.W, r.H-foot)
	k.drawRows(v, body)
	k.drawFoot(v, canvas.Rect(r.X, r.Y+body.H, r.W, foot))
}

// knobFoot is the most that is said of the selected knob, in lines.
const knobFoot = 4

// wants is the height at which the panel shows every knob.
func (k *knobs) wants() int {
	if len(k.specs) == 0 {
		return leastRows
	}
	return k.row(len(k.specs)-1) + 1 + knobFoot + 2
}

// row counts the rows before spec i, headings included.
func (k *knobs) row(i int) int {
	n, group := i, ""
	for j := 0; j <= i && j < len(k.specs); j++ {
		if k.specs[j].Group != group {
			group = k.specs[j].Group
			n++
		}
	}
	return n
}

func (k *knobs) drawRows(v *view, r canvas.Rectangle) {
	total := k.row(len(k.specs)-1) + 1
	sel := k.row(k.sel)
	if k.sel == 0 {
		sel = 0 // with its heading
	}
	k.scroll = min(k.scroll, max(0, total-r.H))
	if sel < k.scroll {
		k.scroll = sel
	}
	if row := k.row(k.sel); row >= k.scroll+r.H {
		k.scroll = row - r.H + 1
	}
	y, group := r.Y-k.scroll, ""
	for i := range k.specs {
		s := &k.specs[i]
		if s.Group != group {
			group = s.Group
			if y >= r.Y && y < r.Y+r.H {
				p := v.c.Pen(r.X+1, y, r.W-2)
				p.Text(canvas.Dim, group)
				if i == 0 && r.W >= 44 {
					v.c.Text(r.X+r.W-10, y, 9, canvas.Dim, "measured")
				}
			}
			y++
		}
		if y >= r.Y && y < r.Y+r.H {
			k.drawKnob(v, canvas.Rect(r.X, y, r.W, 1), i)
		}
		y++
	}
	v.c.ScrollMarks(r, k.scroll > 0, total > k.scroll+r.H)
}

// nameWidth is the column of the values: where there is room, no name is cut.
func nameWidth(w int) int { return min(22, max(10, w-14)) }

// drawKnob draws one row: mark, name, value, change, measured effect.
func (k *knobs) drawKnob(v *view, r canvas.Rectangle, i int) {
	s := &k.specs[i]
	cur := v.pic.value(s.Name)
	selected := i == k.sel
	name, val := canvas.Normal, canvas.Bold
	if s.NoEffect != "" {
		name, val = canvas.Dim, canvas.Dim
	}
	p := v.c.Pen(r.X, r.Y, r.W-1)
	if selected {
		mark := canvas.Bold
		if v.focused {
			mark = canvas.Key
			name = canvas.Bold
		}
		p.Rune(mark, v.c.Glyphs.Mark)
	}
	p.To(r.X + 1).Space(1)
	head := p
	head.Limit = min(p.Limit, r.X+nameWidth(r.W)+1)
	head.Text(name, s.Name)
	p.To(r.X + nameWidth(r.W) + 2)
	if k.edit != nil && selected {
		p.Rune(canvas.Key, v.c.Glyphs.Mark).Text(canvas.Selected, k.edit.text).Text(canvas.Cursor, " ")
		return
	}
	editable := selected && v.canSet && v.focused
	if editable {
		p.Rune(canvas.Key, v.c.Glyphs.Left)
	} else {
		p.Space(1)
	}
	k.drawValue(v, &p, s, cur, val)
	if editable {
		p.Rune(canvas.Key, v.c.Glyphs.Right)
	}
	p.Space(1)
	word := func(st canvas.Style, s string) { // where there is room for it
		if canvas.Width(s) <= p.Left() {
			p.Text(st, s)
		}
	}
	switch k.state(s.Name, v.live.Now) {
	case knobStaged:
		p.Rune(canvas.Staged, v.c.Glyphs.Arrow).Text(canvas.Staged, k.staged[s.Name])
		word(canvas.Staged, " staged")
	case knobRequested:
		p.Rune(canvas.Warn, v.c.Glyphs.Arrow).Text(canvas.Warn, k.requested[s.Name])
		word(canvas.Warn, " requested")
	case knobConfirmed:
		p.Rune(canvas.Confirmed, v.c.Glyphs.Tick)
		word(canvas.Confirmed, " confirmed")
	case knobFading:
		p.Rune(canvas.Dim, v.c.Glyphs.Tick)
		word(canvas.Dim, " confirmed")
	default:
		if s.NoEffect != "" {
			word(canvas.Dim, "no effect")
		}
	}
	if r.W >= 100 { // expanded: what every knob is
		wide := v.c.Pen(r.X+58, r.Y, r.W-58-10)
		wide.Text(canvas.Dim, s.Help)
	}
	k.drawEffect(v, r, s, p.X)
}

func (k *knobs) drawValue(v *view, p *canvas.Pen, s *trace.KnobSpec, cur string, st canvas.Style) {
	switch {
	case cur == "":
		p.Text(canvas.Dim, "-")
	case s.Type == "bool" && trace.On(cur):
		p.Text(st, "[x] on")
	case s.Type == "bool":
		p.Text(st, "[ ] off")
	default:
		p.Text(st, cur)
	}
}

// drawEffect prints what the knob's last change did to the throughput, if it
// was the only knob that changed.
func (k *knobs) drawEffect(v *view, r canvas.Rectangle, s *trace.KnobSpec, used int) {
	e, ok := v.analysis.effects[s.Name]
	if !ok || r.W < 44 || used > r.X+r.W-9 {
		return
	}
	var b [16]byte
	st, text := canvas.Dim, append(b[:0], "same"...)
	switch {
	case e.Answer == evidence.Unknown && canvas.Width(e.missing) < r.X+r.W-1-used:
		w := canvas.Width(e.missing)
		v.c.Text(r.X+r.W-1-w, r.Y, w, st, e.missing)
		return
	case e.Answer == evidence.Unknown:
		text = append(b[:0], "not yet"...)
	case e.Answer == evidence.Different:
		text = figures.Narrow.AppendGain(b[:0], e.Estimate())
		st = canvas.Good
		if e.Ratio < 1 {
			st = canvas.Bad
		}
	}
	v.c.Right(r.X+r.W-9, r.Y, 8, st, text)
}

// drawFoot says what the selected knob is, what its values are and when they take
// effect, and what enter would do, or what the last change cost: the first of them
// that have room.
func (k *knobs) drawFoot(v *view, r canvas.Rectangle) {
	s := k.selected()
	if r.H == 0 || s == nil {
		return
	}
	at := func(row int) canvas.Pen { return v.c.Pen(r.X+1, r.Y+row, r.W-2) }
	row := 0
	tall := r.H >= 4
	if n := len(k.staged); n > 0 {
		p := at(row)
		p.Text(canvas.Staged, strconv.Itoa(n)).Text(canvas.Staged, " staged  ").Text(canvas.Key, "enter").Text(canvas.Normal, " apply  ").
			Text(canvas.Key, "esc").Text(canvas.Normal, " drop")
		row++
	} else if changed := v.pic.next && v.pic.seg.Index > 0; changed && (tall || r.H == 2) {
		p := at(r.H - 1)
		k.drawChange(v, &p)
		r.H--
	}
	if row < r.H && (row == 0 || tall) {
		row += k.drawHelp(v, canvas.Rect(r.X, r.Y+row, r.W, r.H-row))
	}
	if row < r.H {
		p := at(row)
		p.Text(canvas.Dim, knob.Range(s)).Text(canvas.Dim, "  applied at the ").Text(canvas.Dim, s.Applied)
		row++
	}
	if e, ok := v.analysis.effects[s.Name]; ok && row < r.H {
		p := at(row)
		p.Text(canvas.Dim, "measured: ").Text(canvas.Normal, e.says)
	}
}

// drawHelp says what the selected knob is, and leaves a line where it can. It
// returns the lines used.
func (k *knobs) drawHelp(v *view, r canvas.Rectangle) int {
	s := k.selected()
	head, text := "", s.Help
	if s.NoEffect != "" {
		head, text = "no effect: ", s.NoEffect
	}
	p := v.c.Pen(r.X+1, r.Y, r.W-2)
	room := p.Left()
	p.Text(canvas.Warn, head)
	if r.H < 3 || canvas.Width(head+text) <= room {
		p.Text(canvas.Normal, text)
		return 1
	}
	lines := canvas.Wrap(head+text, room)
	for i, line := range lines[:min(len(lines), r.H-1)] {
		q := v.c.Pen(r.X+1, r.Y+i, r.W-2)
		if i == 0 && strings.HasPrefix(line, head) {
			q.Text(canvas.Warn, head)
			line = line[len(head):]
		}
		q.Text(canvas.Normal, line)
	}
	return min(len(lines), r.H-1)
}

// drawChange says what the newest configuration's change was, and cost.
func (k *knobs) drawChange(v *view, p *canvas.Pen) {
	seg := &v.pic.seg
	p.Text(canvas.Dim, "#").Int(canvas.Dim, int64(seg.Index)).Space(1)
	if cost, known := v.analysis.cost(seg.Index); known && seg.TransitionSteps > 0 {
		p.Text(canvas.Dim, "cost ").Bytes(canvas.Normal, figures.Narrow.AppendTime(p.Buf(), cost)).Text(canvas.Dim, " in ").
			Int(canvas.Normal, int64(seg.TransitionSteps)).Text(canvas.Dim, pick(seg.TransitionSteps == 1, " step: ", " steps: "))
	}
	writeReason(p, seg.Reason)
}
