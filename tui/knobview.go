package tui

import (
	"strconv"
	"strings"

	"dev.gpustall/engine/trace"
)

// draw draws the knobs, one a row under group headings, and two lines about the
// selected one.
func (k *knobs) draw(m *Model, r rect) {
	if r.empty() {
		return
	}
	if len(k.specs) == 0 {
		m.c.pen(r.x+1, r.y, r.w-2).hint(stDim, "no knobs: the trace names none")
		return
	}
	foot := 0
	switch {
	case r.h >= 14:
		foot = 4
	case r.h >= 8:
		foot = 2
	case r.h >= 4:
		foot = 1
	}
	body := rect{r.x, r.y, r.w, r.h - foot}
	k.drawRows(m, body)
	k.drawFoot(m, rect{r.x, r.y + body.h, r.w, foot})
}

// rows counts the rows before spec i, headings included.
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

func (k *knobs) drawRows(m *Model, r rect) {
	total := k.row(len(k.specs)-1) + 1
	sel := k.row(k.sel)
	if k.sel == 0 {
		sel = 0 // with its heading
	}
	k.scroll = min(k.scroll, max(0, total-r.h))
	if sel < k.scroll {
		k.scroll = sel
	}
	if row := k.row(k.sel); row >= k.scroll+r.h {
		k.scroll = row - r.h + 1
	}
	y, group := r.y-k.scroll, ""
	for i := range k.specs {
		s := &k.specs[i]
		if s.Group != group {
			group = s.Group
			if y >= r.y && y < r.y+r.h {
				p := m.c.pen(r.x+1, y, r.w-2)
				p.text(stDim, group)
				if i == 0 && r.w >= 44 {
					m.c.pen(r.x+r.w-10, y, 9).hint(stDim, "measured")
				}
			}
			y++
		}
		if y >= r.y && y < r.y+r.h {
			k.drawKnob(m, rect{r.x, y, r.w, 1}, i)
		}
		y++
	}
	if k.scroll > 0 {
		m.c.set(r.x+r.w-1, r.y, m.cs.up, stKey)
	}
	if total > k.scroll+r.h && r.h > 0 {
		m.c.set(r.x+r.w-1, r.y+r.h-1, m.cs.down, stKey)
	}
}

// nameWidth is the column of the values: where there is room, no name is cut.
func nameWidth(w int) int { return min(22, max(10, w-14)) }

// drawKnob draws one row: mark, name, value, change, measured effect.
func (k *knobs) drawKnob(m *Model, r rect, i int) {
	s := &k.specs[i]
	cur := m.pic.value(s.Name)
	selected := i == k.sel
	name, val := stNormal, stBold
	if s.NoEffect != "" {
		name, val = stDim, stDim
	}
	p := m.c.pen(r.x, r.y, r.w-1)
	if selected {
		mark := stBold
		if m.focus == paneKnobs {
			mark = stKey
			name = stBold
		}
		p.rune(mark, m.cs.mark)
	}
	p.to(r.x + 1).space(1)
	head := p
	head.limit = min(p.limit, r.x+nameWidth(r.w)+1)
	head.text(name, s.Name)
	p.to(r.x + nameWidth(r.w) + 2)
	if k.editing && selected {
		p.rune(stKey, m.cs.mark).text(stSelect, k.edit).text(stCursor, " ")
		return
	}
	editable := selected && m.o.Control != nil && m.focus == paneKnobs
	if editable {
		p.rune(stKey, m.cs.left)
	} else {
		p.space(1)
	}
	k.drawValue(m, &p, s, cur, val)
	if editable {
		p.rune(stKey, m.cs.right)
	}
	p.space(1)
	word := func(st style, s string) { // where there is room for it
		if textWidth(s) <= p.left() {
			p.text(st, s)
		}
	}
	switch k.state(s.Name, m.live.Now) {
	case knobStaged:
		p.rune(stStaged, m.cs.arrow).text(stStaged, k.staged[s.Name])
		word(stStaged, " staged")
	case knobRequested:
		p.rune(stWarn, m.cs.arrow).text(stWarn, k.requested[s.Name])
		word(stWarn, " requested")
	case knobConfirmed:
		p.rune(stConfirmed, m.cs.tick)
		word(stConfirmed, " confirmed")
	default:
		if s.NoEffect != "" {
			word(stDim, "no effect")
		}
	}
	if r.w >= 100 { // expanded: what every knob is
		wide := m.c.pen(r.x+58, r.y, r.w-58-10)
		wide.text(stDim, s.Help)
	}
	k.drawEffect(m, r, s, p.x)
}

func (k *knobs) drawValue(m *Model, p *pen, s *trace.KnobSpec, cur string, st style) {
	switch {
	case cur == "":
		p.text(stDim, "-")
	case s.Type == "bool" && isOn(cur):
		p.text(st, "[x] on")
	case s.Type == "bool":
		p.text(st, "[ ] off")
	default:
		p.text(st, cur)
	}
}

// drawEffect prints what the knob's last change did to the throughput, if it
// was the only knob that changed.
func (k *knobs) drawEffect(m *Model, r rect, s *trace.KnobSpec, used int) {
	e, ok := m.an.effects[s.Name]
	if !ok || r.w < 44 || used > r.x+r.w-9 {
		return
	}
	var b [16]byte
	st, text := stDim, append(b[:0], "no diff"...)
	switch {
	case !e.OK:
		text = append(b[:0], "..."...)
	case e.Different:
		text = appendDelta(b[:0], e.Ratio)
		st = stGood
		if e.Ratio < 1 {
			st = stBad
		}
	}
	m.c.right(r.x+r.w-9, r.y, 8, st, text)
}

// drawFoot says what the selected knob is, what its values are and when they take
// effect, and what enter would do, or what the last change cost: the first of them
// that have room.
func (k *knobs) drawFoot(m *Model, r rect) {
	s := k.selected()
	if r.h == 0 || s == nil {
		return
	}
	at := func(row int) pen { return m.c.pen(r.x+1, r.y+row, r.w-2) }
	row := 0
	tall := r.h >= 4
	if n := len(k.staged); n > 0 {
		p := at(row)
		p.text(stStaged, strconv.Itoa(n)).text(stStaged, " staged  ").text(stKey, "enter").text(stNormal, " apply  ").
			text(stKey, "esc").text(stNormal, " drop")
		row++
	} else if changed := m.pic.next && m.pic.seg.Index > 0; changed && (tall || r.h == 2) {
		p := at(r.h - 1)
		k.drawChange(m, &p)
		r.h--
	}
	if row < r.h && (row == 0 || tall) {
		row += k.drawHelp(m, rect{r.x, r.y + row, r.w, r.h - row})
	}
	if row < r.h {
		p := at(row)
		p.text(stDim, rangeText(s)).text(stDim, "  applied at the ").text(stDim, s.Applied)
	}
}

// drawHelp says what the selected knob is, and leaves a line where it can. It
// returns the lines used.
func (k *knobs) drawHelp(m *Model, r rect) int {
	s := k.selected()
	head, text := "", s.Help
	if s.NoEffect != "" {
		head, text = "no effect: ", s.NoEffect
	}
	p := m.c.pen(r.x+1, r.y, r.w-2)
	room := p.left()
	p.text(stWarn, head)
	if r.h < 3 || textWidth(head+text) <= room {
		p.text(stNormal, text)
		return 1
	}
	lines := wrap(head+text, room)
	for i, line := range lines[:min(len(lines), r.h-1)] {
		q := m.c.pen(r.x+1, r.y+i, r.w-2)
		if i == 0 && strings.HasPrefix(line, head) {
			q.text(stWarn, head)
			line = line[len(head):]
		}
		q.text(stNormal, line)
	}
	return min(len(lines), r.h-1)
}

// drawChange says what the newest configuration's change was, and cost.
func (k *knobs) drawChange(m *Model, p *pen) {
	seg := &m.pic.seg
	p.text(stDim, "#").plain(stDim, int64(seg.Index)).space(1)
	if cost, known := m.an.cost(seg.Index); known && seg.TransitionSteps > 0 {
		p.text(stDim, "cost ").dur(stNormal, cost).text(stDim, " in ").
			plain(stNormal, int64(seg.TransitionSteps)).text(stDim, pick(seg.TransitionSteps == 1, " step: ", " steps: "))
	}
	m.reason(p, seg.Reason)
}

// rangeText is a knob's range or choices.
func rangeText(s *trace.KnobSpec) string {
	switch {
	case s.Type == "int" && s.Max > s.Min:
		return strconv.Itoa(s.Min) + " to " + strconv.Itoa(s.Max)
	case s.Type == "bool":
		return "on or off"
	case len(s.Values) > 0:
		return join(s.Values)
	}
	return s.Type
}

func join(v []string) string {
	out := ""
	for i, s := range v {
		if i > 0 {
			out += " "
		}
		out += s
	}
	return out
}
