package tui

import (
	"math"

	"dev.gpustall/engine/trace"
)

// utilStyle and stallStyle are the thresholds of colour; levelMark says the same
// without colour.
func utilStyle(f float64) style {
	switch {
	case math.IsNaN(f):
		return stDim
	case f < 0.60:
		return stBad
	case f < 0.85:
		return stWarn
	}
	return stGood
}

func stallStyle(f float64) style {
	switch {
	case math.IsNaN(f):
		return stDim
	case f < 0.05:
		return stGood
	case f < 0.20:
		return stWarn
	}
	return stBad
}

// levelMark is the glyph that goes with a threshold's colour.
func levelMark(st style) string {
	switch st {
	case stGood:
		return " ok"
	case stWarn:
		return " !"
	case stBad:
		return " !!"
	}
	return ""
}

// bold is the bold variant of a threshold's style.
func bold(st style) style {
	switch st {
	case stGood:
		return stGoodBold
	case stWarn:
		return stWarnBold
	case stBad:
		return stBadBold
	}
	return stBold
}

// drawBar fills w columns with f of a bar, in halves.
func (m *Model) drawBar(x, y, w int, f float64, st style) {
	if math.IsNaN(f) {
		f = 0
	}
	f = min(max(f, 0), 1)
	e := int(f*float64(2*w) + 0.5)
	if e == 0 && f > 0.005 {
		e = 1
	}
	for i := range w {
		switch {
		case e >= 2*i+2:
			m.c.set(x+i, y, m.cs.bar, st)
		case e == 2*i+1:
			m.c.set(x+i, y, m.cs.half, st)
		default:
			m.c.set(x+i, y, m.cs.rest, stDim)
		}
	}
}

// histKind is which history a sparkline draws.
type histKind uint8

const (
	histUtil histKind = iota
	histRate
	histStep
	histQueue
)

// spark draws the newest history into r, which may be several rows high. The
// scale starts at 0; top is its end, or 0 for the largest value in view.
func (m *Model) spark(r rect, kind histKind, top float64) {
	if r.empty() {
		return
	}
	n := min(r.w, histLen)
	h := m.pic.hist[histLen-n:]
	value := func(p *point) float64 {
		switch kind {
		case histUtil:
			return float64(p.util)
		case histRate:
			return float64(p.rate)
		case histStep:
			if p.n > 0 {
				return float64(p.step) / float64(p.n)
			}
			return 0
		}
		return float64(p.queue)
	}
	if top <= 0 {
		for i := range h {
			top = max(top, value(&h[i]))
		}
	}
	for i := range h {
		x := r.x + r.w - n + i
		if h[i].n <= 0 && kind != histQueue || top <= 0 {
			if kind != histQueue {
				continue
			}
			top = max(top, 1)
		}
		v := value(&h[i])
		st := stGraph
		if kind == histUtil {
			st = utilStyle(v)
		}
		e := int(min(v/top, 1)*float64(r.h*8) + 0.5)
		if e == 0 && v > 0 {
			e = 1
		}
		for row := range r.h {
			if k := min(e-8*(r.h-1-row), 8); k > 0 {
				m.c.set(x, r.y+row, m.cs.levels[k], st)
			}
		}
	}
}

// drawGauges draws the four boxes of the top row.
func (m *Model) drawGauges(r rect) {
	w := r.w / 4
	extra := r.w - 4*w
	x := r.x
	for i, f := range [4]func(rect){m.gaugeUtil, m.gaugeStep, m.gaugeRate, m.gaugeQueue} {
		bw := w
		if i < extra {
			bw++
		}
		b := rect{x, r.y, bw, r.h}
		p := m.box(b, gaugeTitles[i], 0)
		if i == 0 {
			p.text(stDim, m.pic.snap.Meta.Device)
			p.rune(stDim, ' ')
		}
		f(b.inner())
		x += bw
	}
}

var gaugeTitles = [4]string{"Device util", "Step time", "Throughput", "Queue / pinned"}

func (m *Model) gaugeUtil(r rect) {
	p := m.c.pen(r.x+1, r.y, r.w-2)
	st := utilStyle(m.pic.util)
	bar := max(4, r.w-13)
	m.drawBar(p.x, p.y, bar, m.pic.util, st)
	p.space(bar+1).pct(bold(st), m.pic.util).text(st, levelMark(st))
	rows := r.h - 2
	if rows > 2 && m.pic.driver != ([len(driverGauges)]gauge{}) {
		rows--
		p = m.c.pen(r.x+1, r.y+1+rows, r.w-2)
		m.driverLine(&p)
	}
	m.spark(rect{r.x + 1, r.y + 1, r.w - 2, rows}, histUtil, 1)
	p = m.c.pen(r.x+1, r.y+r.h-1, r.w-2)
	m.nvmlLine(&p)
}

// driverLine prints the driver's other gauges, those that it has two samples of.
func (m *Model) driverLine(p *pen) {
	for i := range driverGauges {
		if g := m.pic.driver[i]; g.n >= 2 {
			d := &driverGauges[i]
			p.text(stDim, d.name).plain(stNormal, int64(g.v*d.scale+0.5)).text(stDim, d.unit).space(2)
		}
	}
}

// nvmlLine prints the driver's own utilisation beside the measured one.
func (m *Model) nvmlLine(p *pen) {
	g := m.pic.nvml
	meta := &m.pic.snap.Meta
	p.text(stDim, "NVML ")
	switch {
	case g.n >= 2:
		f := g.v / 100
		p.plain(stBold, int64(g.v+0.5)).text(stBold, "%")
		if hides := f - m.pic.util; hides > 0.05 {
			p.text(stNormal, "  hides ").plain(stWarn, int64(hides*100+0.5)).text(stWarn, "%").text(stNormal, " stall")
		}
	case meta.DeviceKind == "cuda" || g.n == 1:
		p.text(stNormal, "n/a").text(stDim, " (").plain(stDim, int64(g.n)).text(stDim, " samples)")
	case meta.Emulated:
		p.text(stNormal, "n/a").text(stDim, " (emulated device)")
	default:
		p.text(stNormal, "n/a").text(stDim, " (no NVIDIA GPU)")
	}
}

func (m *Model) gaugeStep(r rect) {
	p := m.c.pen(r.x+1, r.y, r.w-2)
	if len(m.pic.steps) == 0 {
		p.text(stDim, m.noSteps())
	} else {
		p.text(stDim, "p50 ").dur(stBold, m.pic.p50).text(stDim, "  p95 ").dur(stNormal, m.pic.p95)
	}
	m.spark(rect{r.x + 1, r.y + 1, r.w - 2, r.h - 2}, histStep, 0)
	p = m.c.pen(r.x+1, r.y+r.h-1, r.w-2)
	if len(m.pic.steps) > 0 {
		p.text(stDim, "compute floor ").dur(stNormal, m.pic.floor)
	}
}

// noSteps says why there are no numbers yet.
func (m *Model) noSteps() string {
	switch {
	case m.pic.snap.Outcome.Ended != 0:
		return "ended without a step"
	case len(m.pic.snap.Steps) == 0:
		return "waiting for the first step"
	}
	return "waiting for a step"
}

func (m *Model) gaugeRate(r rect) {
	p := m.c.pen(r.x+1, r.y, r.w-2)
	p.rate(stBold, m.pic.rate).text(stDim, " samples/s")
	m.versusA(&p)
	m.spark(rect{r.x + 1, r.y + 1, r.w - 2, r.h - 2}, histRate, 0)
	p = m.c.pen(r.x+1, r.y+r.h-1, r.w-2)
	if m.pic.util > 0 {
		p.text(stDim, "if never starved ~").rate(stNormal, m.pic.rate/m.pic.util).text(stDim, "/s")
	}
}

// versusA prints the change against the baseline, when one was measured.
func (m *Model) versusA(p *pen) {
	c := m.an.current()
	if c == nil || c.Segment.Index == m.an.baseline || c.Segment.Index != m.pic.seg.Index || !c.VsA.OK {
		return
	}
	st := stDim
	var b [16]byte
	d := append(b[:0], "no diff"...)
	if c.VsA.Different {
		d = appendDelta(b[:0], c.VsA.Ratio)
		st = stGoodBold
		if c.VsA.Ratio < 1 {
			st = stBadBold
		}
	}
	if p.left() < len(d)+2 {
		return
	}
	if p.space(2).bytes(st, d); p.left() >= 4 {
		p.text(stDim, " v A")
	}
}

func (m *Model) gaugeQueue(r rect) {
	p := m.c.pen(r.x+1, r.y, r.w-2)
	ready, capacity := m.queueLevel()
	if capacity > 0 {
		f := ready / capacity
		st := hueTransfer.text()
		if ready == 0 {
			st = stBad
		}
		bar := max(4, r.w-14)
		m.drawBar(p.x, p.y, bar, f, st)
		p.space(bar+1).plain(stBold, int64(ready)).text(stDim, "/").plain(stNormal, int64(capacity)).text(stDim, " ready")
	} else {
		p.text(stDim, m.noQueue())
	}
	m.spark(rect{r.x + 1, r.y + 1, r.w - 2, r.h - 2}, histQueue, capacity)
	p = m.c.pen(r.x+1, r.y+r.h-1, r.w-2)
	if m.pic.pinned.n > 0 && m.pic.pinned.v > 0 {
		p.text(stDim, "pin ").size(stNormal, m.pic.pinned.v)
	} else {
		p.text(stDim, "pin ").text(stNormal, "none")
	}
	if m.pic.h2d > 0 {
		p.text(stDim, "  H2D ").size(stNormal, m.pic.h2d).text(stDim, "/s")
	}
}

// queueLevel is the number of ready batches and the capacity.
func (m *Model) queueLevel() (ready, capacity float64) {
	if m.pic.capacity.n > 0 {
		return m.pic.ready.v, m.pic.capacity.v
	}
	if isZero(m.pic.value("num_workers")) {
		return 0, 0
	}
	return float64(m.tl.ready), float64(m.tl.capacity)
}

// dataLine prints data wait and data loading time, the two that people mix up.
func (m *Model) dataLine(p *pen) {
	n := int64(len(m.pic.steps))
	if n == 0 {
		return
	}
	p.text(stDim, "a step: data wait ").dur(stNormal, m.pic.sum.Wait/n).
		text(stDim, ", loading ").dur(stNormal, m.pic.sum.Load/n).text(stDim, " (workers)")
}

// share is a cause's share of the window's wall time, pauses left out.
func (m *Model) share(c trace.Cause) float64 { return m.pic.sum.Share(c) }

// noQueue says why there is no queue to show.
func (m *Model) noQueue() string {
	if isZero(m.pic.value("num_workers")) {
		return "none: loading inline"
	}
	return "no batch yet"
}
