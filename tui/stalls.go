package tui

import (
	"sort"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// worst is the cause with the largest share, pauses aside.
func (m *Model) worst() (trace.Cause, float64) {
	best, share := trace.CauseUnknown, 0.0
	for c := range trace.Cause(trace.NumCauses) {
		if f := m.share(c); f > share && c != trace.CausePaused {
			best, share = c, f
		}
	}
	return best, share
}

// drawStalls draws the breakdown: one bar of the whole wall time, then the causes.
func (m *Model) drawStalls(r canvas.Rectangle) {
	p := m.box(r, "Stall breakdown", paneStalls)
	p.Text(canvas.Dim, "last ").Bytes(canvas.Normal, figures.AppendCount(p.Buf(), len(m.pic.steps))).Text(canvas.Dim, pick(len(m.pic.steps) == 1, " step, ", " steps, ")).
		Bytes(canvas.Normal, appendDur(p.Buf(), m.pic.sum.Active())).Text(canvas.Dim, " ")
	in := r.Inner()
	in.X++
	in.W -= 2
	if in.Empty() {
		return
	}
	if m.pic.sum.Active() <= 0 {
		m.c.Text(in.X, in.Y, in.W, canvas.Dim, m.noSteps())
		return
	}
	y := in.Y
	if in.H >= 3 {
		m.drawStack(in.X, y, in.W)
		y++
	}
	rest := canvas.Rect(in.X, y, in.W, in.Y+in.H-y)
	m.drawCauses(rest)
}

// drawStack draws busy and every cause as one bar. Parts below half a column
// are left to the list.
func (m *Model) drawStack(x, y, w int) {
	at, colour := 0.0, !m.c.Theme.Mono && !m.c.Glyphs.ASCII
	part := func(h canvas.Hue, letter rune, f float64) {
		a, b := int(at*float64(w)+0.5), int((at+f)*float64(w)+0.5)
		for i := a; i < min(b, w); i++ {
			r := letter
			if colour && (i > a || h == canvas.Compute) { // the block says it
				r = ' '
			}
			m.c.Set(x+i, y, r, h.Solid())
		}
		at += f
	}
	part(canvas.Compute, m.c.Glyphs.Block, m.pic.util)
	for c := range trace.Cause(trace.NumCauses) {
		if c != trace.CausePaused {
			part(causeHue(c), c.Info().Letter, m.share(c))
		}
	}
}

// causeList is the fixed order of the list: busy, data first, then the rest, so
// that entries do not move about; causes under 0.05 % are left out when there is
// no room.
func (m *Model) drawCauses(r canvas.Rectangle) {
	if r.Empty() {
		return
	}
	const wide = 27
	var list [trace.NumCauses]trace.Cause
	n := 0
	for c := range trace.Cause(trace.NumCauses) {
		if m.share(c) >= 0.0005 && c != trace.CausePaused {
			list[n] = c
			n++
		}
	}
	cols := min(max(1, r.W/wide), (n+1)/r.H+1)
	cw := r.W / cols
	room := cols * r.H
	shown := list[:n]
	if n+2 > room { // keep the largest, in the fixed order
		keep := max(0, room-2)
		sort.SliceStable(shown, func(i, j int) bool { return m.share(shown[i]) > m.share(shown[j]) })
		shown = shown[:min(keep, len(shown))]
		sort.Slice(shown, func(i, j int) bool { return shown[i] < shown[j] })
	}
	i := 0
	entry := func(h canvas.Hue, letter rune, name string, f float64, st canvas.Style) {
		if i >= room {
			return
		}
		x, y := r.X+i/r.H*cw, r.Y+i%r.H
		i++
		p := m.c.Pen(x, y, cw-1)
		p.Rune(h.Text(), letter).Space(1)
		head := p
		head.Limit = min(p.Limit, p.X+10)
		head.Text(canvas.Normal, name)
		p.To(x + 13)
		bar := max(2, cw-13-8)
		m.c.Bar(p.X, y, bar, f, h.Text())
		var b [16]byte
		m.c.Right(x, y, cw-1, st, appendPct(b[:0], f))
	}
	entry(canvas.Compute, m.c.Glyphs.Levels[8], "compute", m.pic.util, utilStyle(m.pic.util))
	entry(canvas.Host, '=', "all data", m.pic.data, stallStyle(m.pic.data))
	for _, c := range shown {
		f := m.share(c)
		entry(causeHue(c), c.Info().Letter, c.String(), f, canvas.Normal)
	}
}
