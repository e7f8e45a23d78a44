package tui

import (
	"math"
	"strconv"
	"strings"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/stall"
	"dev.gpustall/tui/canvas"
)

// opColumn is a column of the table of device ops. Those with the highest drop
// number go first when the terminal is narrow. A bar takes what is left.
type opColumn struct {
	title string
	w     int
	left  bool // text; numbers end at the right
	drop  int
	cell  func(o *ops, i int, b []byte) []byte
}

// Widths of the op's name: in full ("conv_backward_weight"), and with short words;
// of its layer, likewise.
const (
	opName       = 20
	opNameShort  = 15
	opLayer      = 18
	opLayerShort = 16
	opBarMost    = 20
	opBarLeast   = 4
)

var opColumns = []opColumn{
	{"op", opName, true, 0, nil},
	{"layer", opLayer, true, 1, nil},
	{"phase", 9, true, 6, func(o *ops, i int, b []byte) []byte { return append(b, o.rows[i].Phase...) }},
	{"of ops", 6, false, 0, func(o *ops, i int, b []byte) []byte { return appendPct(b, o.rows[i].Share) }},
	{"of step", 7, false, 7, func(o *ops, i int, b []byte) []byte { return appendPct(b, o.rows[i].Step) }},
	{"calls", 6, false, 8, func(o *ops, i int, b []byte) []byte { return figures.AppendCount(b, o.rows[i].Calls) }},
	{"total", 8, false, 5, func(o *ops, i int, b []byte) []byte { return appendDur(b, o.rows[i].Total) }},
	{"mean", 8, false, 2, func(o *ops, i int, b []byte) []byte { return appendDur(b, int64(math.Round(o.rows[i].Mean()))) }},
	{"longest", 8, false, 10, func(o *ops, i int, b []byte) []byte {
		if o.rows[i].Max == 0 {
			return append(b, '-')
		}
		return appendDur(b, o.rows[i].Max)
	}},
	{"TFLOP/s", 8, false, 3, func(o *ops, i int, b []byte) []byte { return appendFine(b, o.rows[i].TFLOPs()) }},
	{"GB/s", 7, false, 9, func(o *ops, i int, b []byte) []byte { return appendFine(b, o.rows[i].GBs()) }},
	{"vs A", 6, false, 4, func(o *ops, i int, b []byte) []byte { return appendRatio(b, o.versus[i]) }},
	{"kernel", 18, true, 11, func(o *ops, i int, b []byte) []byte { return append(b, o.rows[i].Variant...) }},
}

const (
	opDrops   = 12 // above the highest drop number
	opBarDrop = 9  // the columns from this number on go before the bar does

	opShortDrop = 7 // those from this number on go before names are short
)

// appendFine writes a rate of any size with two or three digits.
func appendFine(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0) || v <= 0:
		return append(b, '-')
	case v < 0.001:
		return append(b, "<0.001"...)
	case v < 0.0995:
		return strconv.AppendFloat(b, v, 'f', 3, 64)
	}
	return appendSig(b, v)
}

func appendRatio(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, '-')
	}
	return strconv.AppendFloat(append(b, 'x'), v, 'f', 2, 64)
}

// shows reports whether a column is part of the table: the comparison needs a
// baseline, the kernel and the extremes one launch a row.
func (o *ops) shows(c *opColumn) bool {
	switch c.title {
	case "vs A":
		return o.compared
	case "kernel", "longest":
		return o.group == stall.ByOp
	case "phase":
		return o.group == stall.ByOp || o.group == stall.ByPhase || o.group == stall.ByKind
	}
	return true
}

// width is a column's, with names short or not.
func (c *opColumn) width(short bool) int {
	switch {
	case short && c.title == "op":
		return opNameShort
	case short && c.title == "layer":
		return opLayerShort
	}
	return c.w
}

// fit chooses the columns of a width: the drop number from which they go, whether
// names are short, and what is left for a bar.
func (o *ops) fit(w int) (drop int, short bool, bar int) {
	for drop = opDrops; drop > 0; drop-- {
		for _, short = range []bool{false, true} {
			sum := -1
			for i := range opColumns {
				if c := &opColumns[i]; c.drop < drop && o.shows(c) {
					sum += c.width(short) + 1
				}
			}
			bar = min(opBarMost, w-sum-1)
			if sum <= w && (bar >= opBarLeast || drop <= opBarDrop) {
				if bar < opBarLeast {
					bar = 0
				}
				return drop, short, bar
			}
			if drop > opShortDrop {
				break // a column less rather than short names
			}
		}
	}
	return 1, true, 0
}

// drawTable draws heads and rows; what scrolls out is marked at the right.
func (o *ops) drawTable(m *Model, r canvas.Rectangle) {
	w := r.W - 1 // the marks' column
	drop, short, bar := o.fit(w)
	rows := r.H - 1
	o.scroll = max(0, min(o.scroll, len(o.rows)-rows))
	o.drawRow(m, canvas.Rect(r.X, r.Y, w, 1), -1, drop, short, bar)
	for i := range min(rows, len(o.rows)-o.scroll) {
		o.drawRow(m, canvas.Rect(r.X, r.Y+1+i, w, 1), o.scroll+i, drop, short, bar)
	}
	if rows <= 0 {
		return
	}
	if o.scroll > 0 {
		m.c.Set(r.X+r.W-1, r.Y+1, m.c.Glyphs.Up, canvas.Key)
	}
	if len(o.rows) > o.scroll+rows {
		m.c.Set(r.X+r.W-1, r.Y+rows, m.c.Glyphs.Down, canvas.Key)
	}
}

// drawRow draws row i, or the heads where i is -1.
func (o *ops) drawRow(m *Model, r canvas.Rectangle, i, drop int, short bool, bar int) {
	x := r.X
	for k := range opColumns {
		c := &opColumns[k]
		if c.drop >= drop || !o.shows(c) {
			continue
		}
		cw := min(c.width(short), r.X+r.W-x)
		if cw <= 0 {
			return
		}
		switch p := m.c.Pen(x, r.Y, cw); {
		case i < 0:
			o.drawHead(m, &p, c)
		case c.cell == nil:
			o.drawName(m, &p, c, i, short)
		case c.left:
			p.Bytes(canvas.Dim, c.cell(o, i, p.Buf()))
		default:
			m.c.Right(x, r.Y, cw, o.cellStyle(c, i), c.cell(o, i, p.Buf()))
		}
		x += cw + 1
		if c.title == "of ops" && bar > 0 {
			if i >= 0 {
				m.c.Bar(x, r.Y, bar, o.rows[i].Share/max(o.most(), 1e-9), canvas.Compute.Text())
			}
			x += bar + 1
		}
	}
}

// most is the largest share, which the longest bar stands for.
func (o *ops) most() (f float64) {
	for i := range o.rows {
		f = max(f, o.rows[i].Share)
	}
	return f
}

func (o *ops) cellStyle(c *opColumn, i int) canvas.Style {
	switch c.title {
	case "of ops":
		return canvas.Bold
	case "vs A":
		switch v := o.versus[i]; {
		case v < 0.95:
			return canvas.Good
		case v > 1.05:
			return canvas.Bad
		}
	}
	return canvas.Normal
}

// drawHead draws a caption, marked where the table is sorted by it.
func (o *ops) drawHead(m *Model, p *canvas.Pen, c *opColumn) {
	sorted := c.title == sortWords[o.sort] || o.sort == sortName && c.title == "op"
	st, n := canvas.Dim, len(c.title)
	if sorted {
		st, n = canvas.Key, n+1
	}
	if !c.left {
		p.Space(p.Left() - n)
	}
	if sorted && !c.left {
		p.Rune(st, m.c.Glyphs.Down)
	}
	p.Text(st, c.title)
	if sorted && c.left {
		p.Rune(st, m.c.Glyphs.Down)
	}
}

// drawName draws the op or its layer; where rows are grouped, how many there are.
func (o *ops) drawName(m *Model, p *canvas.Pen, c *opColumn, i int, short bool) {
	r := &o.rows[i]
	text, st, many := r.Name, canvas.Normal, o.group == stall.ByLayer || o.group == stall.ByPhase
	if c.title == "layer" {
		text, st, many = r.Layer, canvas.Dim, o.group == stall.ByKind || o.group == stall.ByPhase
	}
	if o.group == stall.ByPhase && c.title == "op" {
		text, many = r.Phase, false
	}
	switch {
	case text == "" && many:
		p.Int(canvas.Dim, int64(r.Ops)).Text(canvas.Dim, pick(r.Ops == 1, " launch", " launches"))
		return
	case text == "":
		text = "-"
	case short && c.title == "op":
		o.drawShort(p, text)
		return
	}
	p.Text(st, text)
}

// drawShort draws an op's name with "backward" and "forward" as bwd and fwd.
func (o *ops) drawShort(p *canvas.Pen, name string) {
	if before, after, ok := strings.Cut(name, "backward"); ok {
		p.Text(canvas.Normal, before).Text(canvas.Normal, "bwd").Text(canvas.Normal, after)
		return
	}
	if before, after, ok := strings.Cut(name, "forward"); ok {
		p.Text(canvas.Normal, before).Text(canvas.Normal, "fwd").Text(canvas.Normal, after)
		return
	}
	p.Text(canvas.Normal, name)
}
