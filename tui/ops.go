package tui

import (
	"math"

	"dev.gpustall/engine/stall"
)

// opColumn is a column of the device ops; those with the highest drop number go
// first when the terminal is narrow.
type opColumn struct {
	title string
	w     int
	right bool
	drop  int
	cell  func(p *pen, r *stall.OpRow, b []byte) []byte // text into b, or drawn by p
}

var opColumns = []opColumn{
	{"op", 22, false, 0, func(p *pen, r *stall.OpRow, b []byte) []byte { return append(b, r.Name...) }},
	{"layer", 24, false, 1, func(p *pen, r *stall.OpRow, b []byte) []byte { return append(b, r.Layer...) }},
	{"of ops", 8, true, 0, func(p *pen, r *stall.OpRow, b []byte) []byte { return appendPct(b, r.Share) }},
	{"of step", 8, true, 4, func(p *pen, r *stall.OpRow, b []byte) []byte { return appendPct(b, r.Step) }},
	{"a call", 9, true, 0, func(p *pen, r *stall.OpRow, b []byte) []byte { return appendDur(b, int64(r.Mean())) }},
	{"longest", 9, true, 5, func(p *pen, r *stall.OpRow, b []byte) []byte { return appendLongest(b, r) }},
	{"GFLOP/s", 9, true, 2, func(p *pen, r *stall.OpRow, b []byte) []byte { return appendKnown(b, 1e3*r.TFLOPs()) }},
	{"GB/s", 8, true, 3, func(p *pen, r *stall.OpRow, b []byte) []byte { return appendKnown(b, r.GBs()) }},
}

func appendLongest(b []byte, r *stall.OpRow) []byte {
	if r.Max <= 0 {
		return append(b, '-')
	}
	return appendDur(b, r.Max)
}

func appendKnown(b []byte, v float64) []byte {
	if math.IsNaN(v) {
		return append(b, '-')
	}
	return appendRate(b, v)
}

// opsDrop is the drop number from which columns go at a width.
func opsDrop(w int) int {
	for drop := 6; drop > 1; drop-- {
		sum := 0
		for i := range opColumns {
			if opColumns[i].drop < drop {
				sum += opColumns[i].w + 1
			}
		}
		if sum <= w+1 {
			return drop
		}
	}
	return 1
}

// drawOps draws where the device's own time goes, operation by operation, in the
// configuration shown: what takes most comes first.
func (m *Model) drawOps(r rect) {
	if r.empty() {
		return
	}
	if m.pic.driver != ([len(driverGauges)]gauge{}) && r.h > 2 {
		p := m.c.pen(r.x, r.y, r.w)
		m.driverLine(p.text(stDim, "driver: "))
		r.y, r.h = r.y+1, r.h-1
	}
	p := m.c.pen(r.x, r.y, r.w)
	t := &m.an.ops
	if len(t.Rows) == 0 {
		p.text(stDim, m.noOps())
		return
	}
	p.text(stBold, "Device ops").text(stDim, " of #").plain(stDim, int64(t.Segment.Index)).
		text(stDim, ", what takes most first; ").int(stNormal, int64(t.Timed)).text(stDim, " of ").int(stNormal, int64(t.Steps)).text(stDim, pick(t.Steps == 1, " step timed", " steps timed"))
	if r.h < 3 {
		return
	}
	drop := opsDrop(r.w)
	m.opsRow(r, 1, drop, func(c *opColumn, _ *pen, b []byte) []byte { return append(b, c.title...) }, true)
	rows := r.h - 2
	shown := len(m.an.opRows)
	if shown > rows {
		shown = rows - 1 // and a line for the rest
	}
	for i := range shown {
		row := &m.an.opRows[i]
		m.opsRow(r, 2+i, drop, func(c *opColumn, p *pen, b []byte) []byte { return c.cell(p, row, b) }, false)
	}
	if rest := m.an.opRows[shown:]; len(rest) > 0 && rows > 0 {
		share := 0.0
		for i := range rest {
			share += rest[i].Share
		}
		q := m.c.pen(r.x, r.y+2+shown, r.w)
		q.text(stDim, "and ").int(stDim, int64(len(rest))).text(stDim, " more, ").pct(stDim, share).text(stDim, " of the ops' time")
	}
}

// opsRow draws one line of the table.
func (m *Model) opsRow(r rect, row, drop int, text func(*opColumn, *pen, []byte) []byte, head bool) {
	x, y := r.x, r.y+row
	for i := range opColumns {
		c := &opColumns[i]
		if c.drop >= drop {
			continue
		}
		var b [64]byte
		p := m.c.pen(x, y, min(c.w, r.x+r.w-x))
		t := text(c, &p, b[:0])
		st := stNormal
		switch {
		case head, c.drop == 1:
			st = stDim
		case c.title == "of ops":
			st = stBold
		}
		if c.right {
			m.c.right(x, y, min(c.w, r.x+r.w-x), st, t)
		} else {
			p.bytes(st, t)
		}
		x += c.w + 1
	}
}

// noOps says why there are no device ops to show.
func (m *Model) noOps() string {
	switch {
	case len(m.pic.steps) == 0:
		return "device ops: none before the first step"
	case m.pic.value("time_ops") == "off":
		return "device ops: not timed; set time_ops to sampled or every"
	}
	return "device ops: no step of this configuration was timed yet"
}
