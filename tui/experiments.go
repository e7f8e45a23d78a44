package tui

import (
	"strconv"
	"strings"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// experiments is the table with one row a segment of constant knobs.
type experiments struct {
	sel    int // row; -1 follows the newest
	scroll int
}

// column of the table. Those with the highest drop number go first when the
// terminal is narrow; the note takes what is left. How sure a comparison is stays
// longer than what was compared, which the note under the table says.
type column struct {
	title string
	w     int
	drop  int
	cell  func(m *Model, p *canvas.Pen, s *stall.SegmentStats)
}

var columns = []column{
	{"workers", 8, 2, knobCell("num_workers")},
	{"pin", 4, 8, knobCell("pin_memory")},
	{"pf", 3, 7, knobCell("prefetch_factor")},
	{"batch", 6, 6, knobCell("batch_size")},
	{"samples/s", 10, 0, func(_ *Model, p *canvas.Pen, s *stall.SegmentStats) {
		if s.Steps > 0 {
			p.Bytes(canvas.Bold, appendRate(p.Buf(), s.SamplesPerSecond))
		} else {
			p.Text(canvas.Dim, "-")
		}
	}},
	{"p50", 8, 4, durCell(func(s *stall.SegmentStats) int64 { return int64(s.P50) })},
	{"p95", 8, 9, durCell(func(s *stall.SegmentStats) int64 { return int64(s.P95) })},
	{"util", 6, 3, func(_ *Model, p *canvas.Pen, s *stall.SegmentStats) { shareCell(p, s, s.Utilisation, utilStyle) }},
	{"stall", 6, 10, func(_ *Model, p *canvas.Pen, s *stall.SegmentStats) { shareCell(p, s, 1-s.Utilisation, stallStyle) }},
	{"vs A", 8, 0, versusCell},
	{"95% CI", 15, 1, intervalCell},
	{"steps/excl", 11, 5, func(_ *Model, p *canvas.Pen, s *stall.SegmentStats) {
		p.Bytes(canvas.Normal, figures.AppendCount(p.Buf(), s.Steps)).Text(canvas.Dim, "/").Bytes(canvas.Dim, figures.AppendCount(p.Buf(), s.Excluded))
	}},
}

func knobCell(name string) func(*Model, *canvas.Pen, *stall.SegmentStats) {
	return func(_ *Model, p *canvas.Pen, s *stall.SegmentStats) {
		v := trace.KnobValue(s.Segment.Knobs, name)
		switch v {
		case "":
			v = "-"
		case "true":
			v = "on"
		case "false":
			v = "off"
		}
		p.Text(canvas.Normal, v)
	}
}

func durCell(f func(*stall.SegmentStats) int64) func(*Model, *canvas.Pen, *stall.SegmentStats) {
	return func(_ *Model, p *canvas.Pen, s *stall.SegmentStats) {
		if s.Steps == 0 {
			p.Text(canvas.Dim, "-")
			return
		}
		p.Bytes(canvas.Normal, appendDur(p.Buf(), f(s)))
	}
}

func shareCell(p *canvas.Pen, s *stall.SegmentStats, f float64, st func(float64) canvas.Style) {
	if s.Steps == 0 {
		p.Text(canvas.Dim, "-")
		return
	}
	p.Bytes(st(f), appendPct(p.Buf(), f))
}

func versusCell(m *Model, p *canvas.Pen, s *stall.SegmentStats) {
	c := s.VsA
	switch {
	case s.Segment.Index == m.an.baseline:
		p.Text(canvas.Dim, "is A")
	case !c.OK:
		p.Text(canvas.Dim, "-")
	case !c.Different:
		p.Text(canvas.Dim, "no diff")
	default:
		st := canvas.GoodBold
		if c.Ratio < 1 {
			st = canvas.BadBold
		}
		p.Bytes(st, appendDelta(p.Buf(), c.Ratio))
	}
}

func intervalCell(m *Model, p *canvas.Pen, s *stall.SegmentStats) {
	if s.Segment.Index == m.an.baseline || !s.VsA.OK {
		p.Text(canvas.Dim, "-")
		return
	}
	p.Bytes(canvas.Normal, appendDelta(p.Buf(), s.VsA.Lo)).Text(canvas.Dim, "..").Bytes(canvas.Normal, appendDelta(p.Buf(), s.VsA.Hi))
}

const rowMark = 5 // columns of "A#12"

// draw draws the table: the baseline first when it would scroll away, then the
// newest rows.
func (e *experiments) draw(m *Model, r canvas.Rectangle) {
	p := m.box(r, "Experiments", paneExperiments)
	if about := "one row a configuration, without its transition "; len(about) <= p.Left() {
		p.Text(canvas.Dim, about)
	}
	in := r.Inner()
	in.X++
	in.W -= 2
	if in.Empty() {
		return
	}
	drop, noted := fitColumns(in.W)
	x := in.X + rowMark
	m.c.Text(in.X, in.Y, rowMark, canvas.Dim, "#")
	for i := range columns {
		if c := &columns[i]; c.drop < drop {
			m.c.Text(x, in.Y, c.w-1, canvas.Dim, c.title)
			x += c.w
		}
	}
	if noted {
		m.c.Text(x, in.Y, in.X+in.W-x, canvas.Dim, "note")
	}
	segs := m.an.segs
	rows := in.H - 1
	if len(segs) == 0 {
		m.c.Text(in.X, in.Y+1, in.W, canvas.Dim, "nothing measured yet")
		return
	}
	sel := e.sel
	if sel < 0 || sel >= len(segs) {
		sel = len(segs) - 1
	}
	cut := canvas.Width(segs[sel].Segment.Reason) > in.X+in.W-x
	if !noted && rows >= 3 || cut && rows > len(segs) {
		rows--
		e.drawNote(m, canvas.Rect(in.X, in.Y+in.H-1, in.W, 1), &segs[sel])
	}
	y := in.Y + 1
	first := e.window(len(segs), rows, sel)
	if base := m.baselineRow(); base >= 0 && base < first && rows >= 3 {
		e.drawRow(m, canvas.Rect(in.X, y, in.W, 1), &segs[base], drop, false)
		y++
		rows--
		first = e.window(len(segs), rows, sel)
	}
	for i := first; i < len(segs) && rows > 0; i++ {
		e.drawRow(m, canvas.Rect(in.X, y, in.W, 1), &segs[i], drop, i == sel && m.focus == paneExperiments)
		y++
		rows--
	}
}

// minNote is the least width of a note beside the numbers.
const minNote = 14

// fitColumns drops columns until a note fits beside them, or, where too few would
// be left, all fit without it.
func fitColumns(w int) (drop int, noted bool) {
	drop = 11
	for drop > 3 && rowMark+tableWidth(drop)+minNote > w {
		drop--
	}
	if rowMark+tableWidth(drop)+minNote <= w {
		return drop, true
	}
	for drop > 1 && rowMark+tableWidth(drop) > w+1 { // the last column's gap may be cut
		drop--
	}
	return drop, false
}

// drawNote says under the table what the selected row's columns have no room for.
func (e *experiments) drawNote(m *Model, r canvas.Rectangle, s *stall.SegmentStats) {
	p := m.c.Pen(r.X, r.Y, r.W)
	p.Text(canvas.Dim, "#").Int(canvas.Dim, int64(s.Segment.Index)).Space(1)
	m.reason(&p, s.Segment.Reason)
	p.Text(canvas.Dim, ", ").Bytes(canvas.Normal, figures.AppendCount(p.Buf(), s.Steps)).Text(canvas.Dim, pick(s.Steps == 1, " step", " steps"))
}

// window is the first row shown so that the selected one is visible.
func (e *experiments) window(n, rows, sel int) int {
	if rows <= 0 {
		return n
	}
	e.scroll = min(max(e.scroll, sel-rows+1), sel)
	e.scroll = max(0, min(e.scroll, n-rows))
	return e.scroll
}

func tableWidth(drop int) int {
	w := 0
	for i := range columns {
		if columns[i].drop < drop {
			w += columns[i].w
		}
	}
	return w
}

func (m *Model) baselineRow() int {
	for i := range m.an.segs {
		if m.an.segs[i].Segment.Index == m.an.baseline {
			return i
		}
	}
	return -1
}

func (e *experiments) drawRow(m *Model, r canvas.Rectangle, s *stall.SegmentStats, drop int, selected bool) {
	p := m.c.Pen(r.X, r.Y, rowMark-1)
	switch {
	case s.Segment.Index == m.an.baseline:
		p.Text(canvas.Key, "A")
	case m.pic.next && s.Segment.Index == m.pic.seg.Index:
		p.Rune(canvas.Running, m.c.Glyphs.Play)
	default:
		p.Space(1)
	}
	p.Text(canvas.Dim, "#").Int(canvas.Normal, int64(s.Segment.Index))
	x := r.X + rowMark
	for i := range columns {
		c := &columns[i]
		if c.drop >= drop {
			continue
		}
		p := m.c.Pen(x, r.Y, c.w-1)
		c.cell(m, &p, s)
		x += c.w
	}
	if r.X+r.W-x >= minNote {
		p = m.c.Pen(x, r.Y, r.X+r.W-x)
		m.reason(&p, s.Segment.Reason)
	}
	if selected {
		for i := r.X; i < r.X+r.W; i++ {
			m.c.Restyle(i, r.Y, canvas.Selected)
		}
	}
}

// setBaseline makes a row segment A.
func (m *Model) setBaseline() {
	segs := m.an.segs
	if len(segs) == 0 {
		m.say("info", "nothing measured yet: there is no segment to compare with")
		return
	}
	i := len(segs) - 1
	if m.focus == paneExperiments && m.ex.sel >= 0 && m.ex.sel < len(segs) {
		i = m.ex.sel
	}
	m.an.baseline = segs[i].Segment.Index
	m.an.pause = 0
	m.say("info", "baseline A is now configuration #"+strconv.Itoa(int(m.an.baseline)))
}

// reason writes a segment's reason with the terminal's own arrow.
func (m *Model) reason(p *canvas.Pen, s string) {
	for {
		before, after, found := strings.Cut(s, " -> ")
		p.Text(canvas.Normal, before)
		if !found {
			return
		}
		p.Rune(canvas.Normal, m.c.Glyphs.Arrow)
		s = after
	}
}
