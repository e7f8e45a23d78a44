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
	if m.expanded && rest.h > trace.NumCauses+4 {
		list := rest
		list.h = trace.NumCauses + 1
		m.drawCauses(list)
		m.drawOps(rect{rest.x, rest.y + list.h, rest.w, rest.h - list.h})
		return
	}
	m.drawCauses(rest)
}

// drawOps draws the device's operations by the time they take, when the run was
// profiled.
func (m *Model) drawOps(r rect) {
	ops := m.pic.snap.Ops
	p := m.c.pen(r.x, r.y, r.w)
	if m.pic.driver != ([len(driverGauges)]gauge{}) && r.h > 2 {
		m.driverLine(p.text(stDim, "driver: "))
		r.y, r.h = r.y+1, r.h-1
		p = m.c.pen(r.x, r.y, r.w)
	}
	if len(ops) == 0 {
		p.text(stDim, "device operations: none profiled")
		return
	}
	var total int64
	order := make([]int, len(ops))
	for i := range ops {
		order[i] = i
		total += ops[i].Total
	}
	sort.SliceStable(order, func(i, j int) bool { return ops[order[i]].Total > ops[order[j]].Total })
	p.text(stBold, "device operations").text(stDim, "  share, time of one call, GFLOP/s, GB/s, layer")
	for row, i := range order[:min(len(order), r.h-1)] {
		o := &ops[i]
		y := r.y + 1 + row
		one := float64(o.Total) / float64(max(o.Calls, 1))
		m.c.pen(r.x, y, 22).hint(stNormal, o.Name)
		var b [24]byte
		m.c.right(r.x+22, y, 8, stBold, appendPct(b[:0], float64(o.Total)/float64(max(total, 1))))
		m.c.right(r.x+30, y, 10, stNormal, appendDur(b[:0], int64(one)))
		m.c.right(r.x+40, y, 10, stNormal, appendRate(b[:0], o.FLOPs/float64(max(o.Total, 1))))
		m.c.right(r.x+50, y, 9, stNormal, appendRate(b[:0], o.Bytes/float64(max(o.Total, 1))))
		m.c.pen(r.x+61, y, r.w-61).hint(stDim, o.Layer)
	}
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
