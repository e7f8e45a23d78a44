package tui

// drawGaugesCompact draws the gauges in one box of three lines.
func (m *Model) drawGaugesCompact(r rect) {
	m.box(r, "Gauges", 0)
	in := r.inner()
	half := in.w / 2
	p := m.c.pen(in.x+1, in.y, half-2)
	m.utilLine(&p)
	p = m.c.pen(in.x+half, in.y, in.w-half-1)
	m.rateLine(&p)
	p = m.c.pen(in.x+1, in.y+1, half-2)
	m.stepLine(&p)
	p = m.c.pen(in.x+half, in.y+1, in.w-half-1)
	m.queueLine(&p)
	p = m.c.pen(in.x+1, in.y+2, half-2)
	m.nvmlLine(&p)
	if w := in.x + half - 2 - p.x - 1; w > 4 {
		m.spark(rect{p.x + 2, in.y + 2, w - 2, 1}, histUtil, 1)
	}
	p = m.c.pen(in.x+half, in.y+2, in.w-half-1)
	p.text(stDim, "pinned ")
	if m.pic.pinned.v > 0 {
		p.size(stNormal, m.pic.pinned.v)
	} else {
		p.text(stNormal, "none")
	}
	if m.pic.h2d > 0 {
		p.text(stDim, "  H2D ").size(stNormal, m.pic.h2d).text(stDim, "/s")
	}
}

func (m *Model) utilLine(p *pen) {
	st := utilStyle(m.pic.util)
	bar := min(max(4, p.left()-16), 40)
	p.text(stDim, "util ")
	m.drawBar(p.x, p.y, bar, m.pic.util, st)
	p.space(bar+1).pct(bold(st), m.pic.util).text(st, levelMark(st))
}

func (m *Model) stepLine(p *pen) {
	p.text(stDim, "step ")
	if len(m.pic.steps) == 0 {
		p.text(stDim, m.noSteps())
		return
	}
	p.text(stDim, "p50 ").dur(stBold, m.pic.p50).text(stDim, "  p95 ").dur(stNormal, m.pic.p95)
}

func (m *Model) rateLine(p *pen) {
	p.text(stDim, "rate  ").rate(stBold, m.pic.rate).text(stDim, " samples/s")
	m.versusA(p)
}

func (m *Model) queueLine(p *pen) {
	p.text(stDim, "queue ")
	ready, capacity := m.queueLevel()
	if capacity <= 0 {
		p.text(stDim, m.noQueue())
		return
	}
	bar := min(max(4, p.left()-14), 20)
	st := hueTransfer.text()
	if ready == 0 {
		st = stBad
	}
	m.drawBar(p.x, p.y, bar, ready/capacity, st)
	p.space(bar+1).plain(stBold, int64(ready)).text(stDim, "/").plain(stNormal, int64(capacity)).text(stDim, " ready")
}

// drawSmall is the screen below 80x24: gauges, the lanes that matter and the
// selected knob, as many lines as there are.
func (m *Model) drawSmall(r rect) {
	y, end := r.y, r.y+r.h
	line := func() pen {
		p := m.c.pen(r.x+1, y, r.w-2)
		y++
		return p
	}
	knobs := 1
	if r.h >= 9 {
		knobs = 2
	}
	stop := end - knobs
	for i, f := range [4]func(*pen){m.utilLine, m.rateLine, m.stepLine, m.queueLine} {
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
		m.rule(r, y)
		y++
	}
	// The lanes: the timeline's own rows, which keep STALL longest.
	verdict := 0
	if stop-y >= 4 {
		verdict = 1
	}
	if h := stop - y - verdict; h > 0 {
		m.tl.draw(m, rect{r.x, y, r.w, h})
		y += h
	}
	if verdict > 0 {
		p := line()
		m.verdictLine(&p)
	}
	y = stop
	if knobs > 1 {
		m.rule(r, y)
		y++
	}
	if s := m.kn.selected(); s != nil {
		m.kn.drawKnob(m, rect{r.x + 1, y, r.w - 1, 1}, m.kn.sel)
	}
}

// rule draws a horizontal line.
func (m *Model) rule(r rect, y int) {
	for x := r.x; x < r.x+r.w; x++ {
		m.c.set(x, y, m.cs.hor, stBorder)
	}
}
