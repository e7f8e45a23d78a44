package tui

import (
	"sort"

	"dev.gpustall/engine/trace"
)

// worst is the cause with the largest share, pauses aside.
func (m *Model) worst() (hue, float64) {
	best, share := trace.CauseUnknown, 0.0
	for c := range trace.Cause(trace.NumCauses) {
		if f := m.share(c); f > share && c != trace.CausePaused {
			best, share = c, f
		}
	}
	return hue(best), share
}

// drawStalls draws the breakdown: one bar of the whole wall time, then the causes.
func (m *Model) drawStalls(r rect) {
	p := m.box(r, "Stall breakdown", paneStalls)
	p.text(stDim, "last ").int(stNormal, int64(len(m.pic.steps))).text(stDim, pick(len(m.pic.steps) == 1, " step, ", " steps, ")).
		dur(stNormal, m.pic.sum.Active()).text(stDim, " ")
	in := r.inner()
	in.x++
	in.w -= 2
	if in.empty() {
		return
	}
	if m.pic.sum.Active() <= 0 {
		m.c.pen(in.x, in.y, in.w).hint(stDim, m.noSteps())
		return
	}
	y := in.y
	if in.h >= 3 {
		m.drawStack(in.x, y, in.w)
		y++
	}
	rest := rect{in.x, y, in.w, in.y + in.h - y}
	m.drawCauses(rest)
}

// drawStack draws busy and every cause as one bar. Parts below half a column
// are left to the list.
func (m *Model) drawStack(x, y, w int) {
	at, f := 0.0, m.pic.util
	part := func(h hue, letter rune, f float64) {
		a, b := int(at*float64(w)+0.5), int((at+f)*float64(w)+0.5)
		for i := a; i < min(b, w); i++ {
			r := letter
			if i > a && !m.themes[m.theme].mono && !m.cs.ascii {
				r = ' '
			}
			m.c.set(x+i, y, r, h.solid())
		}
		at += f
	}
	part(hueCompute, m.busyLetter(), f)
	for c := range trace.Cause(trace.NumCauses) {
		if c != trace.CausePaused {
			part(hue(c), causeLetter[c], m.share(c))
		}
	}
}

func (m *Model) busyLetter() rune {
	if m.cs.ascii {
		return '#'
	}
	if m.themes[m.theme].mono {
		return '█'
	}
	return ' '
}

// causeList is the fixed order of the list: busy, data first, then the rest, so
// that entries do not move about; causes under 0.05 % are left out when there is
// no room.
func (m *Model) drawCauses(r rect) {
	if r.empty() {
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
	cols := min(max(1, r.w/wide), (n+1)/r.h+1)
	cw := r.w / cols
	room := cols * r.h
	shown := list[:n]
	if n+2 > room { // keep the largest, in the fixed order
		keep := max(0, room-2)
		sort.SliceStable(shown, func(i, j int) bool { return m.share(shown[i]) > m.share(shown[j]) })
		shown = shown[:min(keep, len(shown))]
		sort.Slice(shown, func(i, j int) bool { return shown[i] < shown[j] })
	}
	i := 0
	entry := func(h hue, letter rune, name string, f float64, st style) {
		if i >= room {
			return
		}
		x, y := r.x+i/r.h*cw, r.y+i%r.h
		i++
		p := m.c.pen(x, y, cw-1)
		p.rune(h.text(), letter).space(1)
		head := p
		head.limit = min(p.limit, p.x+10)
		head.text(stNormal, name)
		p.to(x + 13)
		bar := max(2, cw-13-8)
		m.drawBar(p.x, y, bar, f, h.text())
		var b [16]byte
		m.c.right(x, y, cw-1, st, appendPct(b[:0], f))
	}
	entry(hueCompute, m.cs.levels[8], "compute", m.pic.util, utilStyle(m.pic.util))
	entry(hueHost, '=', "all data", m.pic.data, stallStyle(m.pic.data))
	for _, c := range shown {
		f := m.share(c)
		entry(hue(c), causeLetter[c], c.String(), f, stNormal)
	}
}
