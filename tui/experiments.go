package tui

import (
	"strconv"
	"strings"

	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
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
	cell  func(m *Model, p *pen, s *stall.SegmentStats)
}

var columns = []column{
	{"workers", 8, 2, knobCell("num_workers")},
	{"pin", 4, 8, knobCell("pin_memory")},
	{"pf", 3, 7, knobCell("prefetch_factor")},
	{"batch", 6, 6, knobCell("batch_size")},
	{"samples/s", 10, 0, func(_ *Model, p *pen, s *stall.SegmentStats) {
		if s.Steps > 0 {
			p.rate(stBold, s.SamplesPerSecond)
		} else {
			p.text(stDim, "-")
		}
	}},
	{"p50", 8, 4, durCell(func(s *stall.SegmentStats) int64 { return int64(s.P50) })},
	{"p95", 8, 9, durCell(func(s *stall.SegmentStats) int64 { return int64(s.P95) })},
	{"util", 6, 3, func(_ *Model, p *pen, s *stall.SegmentStats) { shareCell(p, s, s.Utilisation, utilStyle) }},
	{"stall", 6, 10, func(_ *Model, p *pen, s *stall.SegmentStats) { shareCell(p, s, 1-s.Utilisation, stallStyle) }},
	{"vs A", 8, 0, versusCell},
	{"95% CI", 15, 1, intervalCell},
	{"steps/excl", 11, 5, func(_ *Model, p *pen, s *stall.SegmentStats) {
		p.int(stNormal, int64(s.Steps)).text(stDim, "/").int(stDim, int64(s.Excluded))
	}},
}

func knobCell(name string) func(*Model, *pen, *stall.SegmentStats) {
	return func(_ *Model, p *pen, s *stall.SegmentStats) {
		v := trace.KnobValue(s.Segment.Knobs, name)
		switch v {
		case "":
			v = "-"
		case "true":
			v = "on"
		case "false":
			v = "off"
		}
		p.text(stNormal, v)
	}
}

func durCell(f func(*stall.SegmentStats) int64) func(*Model, *pen, *stall.SegmentStats) {
	return func(_ *Model, p *pen, s *stall.SegmentStats) {
		if s.Steps == 0 {
			p.text(stDim, "-")
			return
		}
		p.dur(stNormal, f(s))
	}
}

func shareCell(p *pen, s *stall.SegmentStats, f float64, st func(float64) style) {
	if s.Steps == 0 {
		p.text(stDim, "-")
		return
	}
	p.pct(st(f), f)
}

func versusCell(m *Model, p *pen, s *stall.SegmentStats) {
	c := s.VsA
	switch {
	case s.Segment.Index == m.an.baseline:
		p.text(stDim, "is A")
	case !c.OK:
		p.text(stDim, "-")
	case !c.Different:
		p.text(stDim, "no diff")
	default:
		st := stGoodBold
		if c.Ratio < 1 {
			st = stBadBold
		}
		p.bytes(st, appendDelta(p.c.num[:0], c.Ratio))
	}
}

func intervalCell(m *Model, p *pen, s *stall.SegmentStats) {
	if s.Segment.Index == m.an.baseline || !s.VsA.OK {
		p.text(stDim, "-")
		return
	}
	p.bytes(stNormal, appendDelta(p.c.num[:0], s.VsA.Lo)).text(stDim, "..").bytes(stNormal, appendDelta(p.c.num[:0], s.VsA.Hi))
}

const rowMark = 5 // columns of "A#12"

// draw draws the table: the baseline first when it would scroll away, then the
// newest rows.
func (e *experiments) draw(m *Model, r rect) {
	p := m.box(r, "Experiments", paneExperiments)
	if about := "one row a configuration, without its transition "; len(about) <= p.left() {
		p.text(stDim, about)
	}
	in := r.inner()
	in.x++
	in.w -= 2
	if in.empty() {
		return
	}
	drop, noted := fitColumns(in.w)
	x := in.x + rowMark
	m.c.pen(in.x, in.y, rowMark).hint(stDim, "#")
	for i := range columns {
		if c := &columns[i]; c.drop < drop {
			m.c.pen(x, in.y, c.w-1).hint(stDim, c.title)
			x += c.w
		}
	}
	if noted {
		m.c.pen(x, in.y, in.x+in.w-x).hint(stDim, "note")
	}
	segs := m.an.segs
	rows := in.h - 1
	if len(segs) == 0 {
		m.c.pen(in.x, in.y+1, in.w).hint(stDim, "nothing measured yet")
		return
	}
	sel := e.sel
	if sel < 0 || sel >= len(segs) {
		sel = len(segs) - 1
	}
	cut := textWidth(segs[sel].Segment.Reason) > in.x+in.w-x
	if !noted && rows >= 3 || cut && rows > len(segs) {
		rows--
		e.drawNote(m, rect{in.x, in.y + in.h - 1, in.w, 1}, &segs[sel])
	}
	y := in.y + 1
	first := e.window(len(segs), rows, sel)
	if base := m.baselineRow(); base >= 0 && base < first && rows >= 3 {
		e.drawRow(m, rect{in.x, y, in.w, 1}, &segs[base], drop, false)
		y++
		rows--
		first = e.window(len(segs), rows, sel)
	}
	for i := first; i < len(segs) && rows > 0; i++ {
		e.drawRow(m, rect{in.x, y, in.w, 1}, &segs[i], drop, i == sel && m.focus == paneExperiments)
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
func (e *experiments) drawNote(m *Model, r rect, s *stall.SegmentStats) {
	p := m.c.pen(r.x, r.y, r.w)
	p.text(stDim, "#").plain(stDim, int64(s.Segment.Index)).space(1)
	m.reason(&p, s.Segment.Reason)
	p.text(stDim, ", ").int(stNormal, int64(s.Steps)).text(stDim, pick(s.Steps == 1, " step", " steps"))
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

func (e *experiments) drawRow(m *Model, r rect, s *stall.SegmentStats, drop int, selected bool) {
	p := m.c.pen(r.x, r.y, rowMark-1)
	switch {
	case s.Segment.Index == m.an.baseline:
		p.text(stKey, "A")
	case m.pic.next && s.Segment.Index == m.pic.seg.Index:
		p.rune(stRun, m.cs.play)
	default:
		p.space(1)
	}
	p.text(stDim, "#").plain(stNormal, int64(s.Segment.Index))
	x := r.x + rowMark
	for i := range columns {
		c := &columns[i]
		if c.drop >= drop {
			continue
		}
		p := m.c.pen(x, r.y, c.w-1)
		c.cell(m, &p, s)
		x += c.w
	}
	if r.x+r.w-x >= minNote {
		p = m.c.pen(x, r.y, r.x+r.w-x)
		m.reason(&p, s.Segment.Reason)
	}
	if selected {
		for i := r.x; i < r.x+r.w; i++ {
			m.c.restyle(i, r.y, stSelect)
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
func (m *Model) reason(p *pen, s string) {
	for {
		before, after, found := strings.Cut(s, " -> ")
		p.text(stNormal, before)
		if !found {
			return
		}
		p.rune(stNormal, m.cs.arrow)
		s = after
	}
}
