package tui

import "dev.gpustall/tui/canvas"

// drawGaugesCompact draws the gauges in one box of three lines.
func (m *Model) drawGaugesCompact(r canvas.Rectangle) {
	m.box(r, "Gauges", 0)
	in := r.Inner()
	half := in.W / 2
	p := m.c.Pen(in.X+1, in.Y, half-2)
	m.utilLine(&p)
	p = m.c.Pen(in.X+half, in.Y, in.W-half-1)
	m.rateLine(&p)
	p = m.c.Pen(in.X+1, in.Y+1, half-2)
	m.stepLine(&p)
	p = m.c.Pen(in.X+half, in.Y+1, in.W-half-1)
	m.queueLine(&p)
	p = m.c.Pen(in.X+1, in.Y+2, half-2)
	m.nvmlLine(&p)
	if w := in.X + half - 2 - p.X - 1; w > 4 {
		m.spark(canvas.Rect(p.X+2, in.Y+2, w-2, 1), histUtil, 1)
	}
	p = m.c.Pen(in.X+half, in.Y+2, in.W-half-1)
	p.Text(canvas.Dim, "pinned ")
	if m.pic.pinned.v > 0 {
		p.Bytes(canvas.Normal, appendSize(p.Buf(), m.pic.pinned.v))
	} else {
		p.Text(canvas.Normal, "none")
	}
	if m.pic.h2d > 0 {
		p.Text(canvas.Dim, "  H2D ").Bytes(canvas.Normal, appendSize(p.Buf(), m.pic.h2d)).Text(canvas.Dim, "/s")
	}
}

func (m *Model) utilLine(p *canvas.Pen) {
	st := utilStyle(m.pic.util)
	bar := min(max(4, p.Left()-16), 40)
	p.Text(canvas.Dim, "util ")
	m.c.Bar(p.X, p.Y, bar, m.pic.util, st)
	p.Space(bar+1).Bytes(bold(st), appendPct(p.Buf(), m.pic.util)).Text(st, levelMark(st))
}

func (m *Model) stepLine(p *canvas.Pen) {
	p.Text(canvas.Dim, "step ")
	if len(m.pic.steps) == 0 {
		p.Text(canvas.Dim, m.noSteps())
		return
	}
	p.Text(canvas.Dim, "p50 ").Bytes(canvas.Bold, appendDur(p.Buf(), m.pic.p50)).Text(canvas.Dim, "  p95 ").Bytes(canvas.Normal, appendDur(p.Buf(), m.pic.p95))
}

func (m *Model) rateLine(p *canvas.Pen) {
	p.Text(canvas.Dim, "rate  ").Bytes(canvas.Bold, appendRate(p.Buf(), m.pic.rate)).Text(canvas.Dim, " samples/s")
	m.versusA(p)
}

func (m *Model) queueLine(p *canvas.Pen) {
	p.Text(canvas.Dim, "queue ")
	ready, capacity := m.queueLevel()
	if capacity <= 0 {
		p.Text(canvas.Dim, m.noQueue())
		return
	}
	bar := min(max(4, p.Left()-14), 20)
	st := canvas.Transfer.Text()
	if ready == 0 {
		st = canvas.Bad
	}
	m.c.Bar(p.X, p.Y, bar, ready/capacity, st)
	p.Space(bar+1).Int(canvas.Bold, int64(ready)).Text(canvas.Dim, "/").Int(canvas.Normal, int64(capacity)).Text(canvas.Dim, " ready")
}

// drawSmall is the screen below 80x24: gauges, the lanes that matter and the
// selected knob, as many lines as there are.
func (m *Model) drawSmall(r canvas.Rectangle) {
	y, end := r.Y, r.Y+r.H
	line := func() canvas.Pen {
		p := m.c.Pen(r.X+1, y, r.W-2)
		y++
		return p
	}
	knobs := 1
	if r.H >= 9 {
		knobs = 2
	}
	stop := end - knobs
	for i, f := range [4]func(*canvas.Pen){m.utilLine, m.rateLine, m.stepLine, m.queueLine} {
		if stop-y <= 2 && i > 0 {
			break
		}
		p := line()
		f(&p)
	}
	if stop-y >= 8 {
		p := line()
		m.nvmlLine(&p)
	}
	if stop-y >= 7 {
		m.c.Rule(r, y)
		y++
	}
	// The lanes: the timeline's own rows, which keep STALL longest.
	verdict := 0
	if stop-y >= 4 {
		verdict = 1
	}
	if h := stop - y - verdict; h > 0 {
		m.tl.draw(m, canvas.Rect(r.X, y, r.W, h))
		y += h
	}
	if verdict > 0 {
		p := line()
		m.verdictLine(&p)
	}
	y = stop
	if knobs > 1 {
		m.c.Rule(r, y)
		y++
	}
	if s := m.kn.selected(); s != nil {
		m.kn.drawKnob(m, canvas.Rect(r.X+1, y, r.W-1, 1), m.kn.sel)
	}
}
