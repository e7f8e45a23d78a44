package tui

import (
	"math"

	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// utilStyle and stallStyle are the thresholds of colour; levelMark says the same
// without colour.
func utilStyle(f float64) canvas.Style {
	switch {
	case math.IsNaN(f):
		return canvas.Dim
	case f < 0.60:
		return canvas.Bad
	case f < 0.85:
		return canvas.Warn
	}
	return canvas.Good
}

func stallStyle(f float64) canvas.Style {
	switch {
	case math.IsNaN(f):
		return canvas.Dim
	case f < 0.05:
		return canvas.Good
	case f < 0.20:
		return canvas.Warn
	}
	return canvas.Bad
}

// levelMark is the glyph that goes with a threshold's colour.
func levelMark(st canvas.Style) string {
	switch st {
	case canvas.Good:
		return " ok"
	case canvas.Warn:
		return " !"
	case canvas.Bad:
		return " !!"
	}
	return ""
}

// bold is the bold variant of a threshold's style.
func bold(st canvas.Style) canvas.Style {
	switch st {
	case canvas.Good:
		return canvas.GoodBold
	case canvas.Warn:
		return canvas.WarnBold
	case canvas.Bad:
		return canvas.BadBold
	}
	return canvas.Bold
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
func (m *Model) spark(r canvas.Rectangle, kind histKind, top float64) {
	if r.Empty() {
		return
	}
	n := min(r.W, histLen)
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
		x := r.X + r.W - n + i
		if h[i].n <= 0 && kind != histQueue || top <= 0 {
			if kind != histQueue {
				continue
			}
			top = max(top, 1)
		}
		v := value(&h[i])
		st := canvas.Graph
		if kind == histUtil {
			st = utilStyle(v)
		}
		m.c.Column(x, r.Y, r.H, min(v/top, 1), st)
	}
}

// drawGauges draws the four boxes of the top row.
func (m *Model) drawGauges(r canvas.Rectangle) {
	w := r.W / 4
	extra := r.W - 4*w
	x := r.X
	for i, f := range [4]func(canvas.Rectangle){m.gaugeUtil, m.gaugeStep, m.gaugeRate, m.gaugeQueue} {
		bw := w
		if i < extra {
			bw++
		}
		b := canvas.Rect(x, r.Y, bw, r.H)
		p := m.box(b, gaugeTitles[i], 0)
		if i == 0 {
			p.Text(canvas.Dim, m.pic.snap.Meta.Device)
			p.Rune(canvas.Dim, ' ')
		}
		f(b.Inner())
		x += bw
	}
}

var gaugeTitles = [4]string{"Device util", "Step time", "Throughput", "Queue / pinned"}

func (m *Model) gaugeUtil(r canvas.Rectangle) {
	p := m.c.Pen(r.X+1, r.Y, r.W-2)
	st := utilStyle(m.pic.util)
	bar := max(4, r.W-13)
	m.c.Bar(p.X, p.Y, bar, m.pic.util, st)
	p.Space(bar+1).Bytes(bold(st), appendPct(p.Buf(), m.pic.util)).Text(st, levelMark(st))
	rows := r.H - 2
	if rows > 2 && m.pic.driver != ([len(driverGauges)]gauge{}) {
		rows--
		p = m.c.Pen(r.X+1, r.Y+1+rows, r.W-2)
		m.driverLine(&p)
	}
	m.spark(canvas.Rect(r.X+1, r.Y+1, r.W-2, rows), histUtil, 1)
	p = m.c.Pen(r.X+1, r.Y+r.H-1, r.W-2)
	m.nvmlLine(&p)
}

// driverLine prints the driver's other gauges, those that it has two samples of.
func (m *Model) driverLine(p *canvas.Pen) {
	for i := range driverGauges {
		if g := m.pic.driver[i]; g.n >= 2 {
			d := &driverGauges[i]
			p.Text(canvas.Dim, d.name).Int(canvas.Normal, int64(g.v*d.scale+0.5)).Text(canvas.Dim, d.unit).Space(2)
		}
	}
}

// nvmlLine prints the driver's own utilisation beside the measured one.
func (m *Model) nvmlLine(p *canvas.Pen) {
	g := m.pic.nvml
	meta := &m.pic.snap.Meta
	p.Text(canvas.Dim, "NVML ")
	switch {
	case g.n >= 2:
		f := g.v / 100
		p.Int(canvas.Bold, int64(g.v+0.5)).Text(canvas.Bold, "%")
		if hides := f - m.pic.util; hides > 0.05 {
			p.Text(canvas.Normal, "  hides ").Int(canvas.Warn, int64(hides*100+0.5)).Text(canvas.Warn, "%").Text(canvas.Normal, " stall")
		}
	case meta.DeviceKind == "cuda" || g.n == 1:
		p.Text(canvas.Normal, "n/a").Text(canvas.Dim, " (").Int(canvas.Dim, int64(g.n)).Text(canvas.Dim, " samples)")
	case meta.Emulated:
		p.Text(canvas.Normal, "n/a").Text(canvas.Dim, " (emulated device)")
	default:
		p.Text(canvas.Normal, "n/a").Text(canvas.Dim, " (no NVIDIA GPU)")
	}
}

func (m *Model) gaugeStep(r canvas.Rectangle) {
	p := m.c.Pen(r.X+1, r.Y, r.W-2)
	if len(m.pic.steps) == 0 {
		p.Text(canvas.Dim, m.noSteps())
	} else {
		p.Text(canvas.Dim, "p50 ").Bytes(canvas.Bold, appendDur(p.Buf(), m.pic.p50)).Text(canvas.Dim, "  p95 ").Bytes(canvas.Normal, appendDur(p.Buf(), m.pic.p95))
	}
	m.spark(canvas.Rect(r.X+1, r.Y+1, r.W-2, r.H-2), histStep, 0)
	p = m.c.Pen(r.X+1, r.Y+r.H-1, r.W-2)
	if len(m.pic.steps) > 0 {
		p.Text(canvas.Dim, "compute floor ").Bytes(canvas.Normal, appendDur(p.Buf(), m.pic.floor))
	}
}

// noSteps says why there are no numbers yet.
func (m *Model) noSteps() string {
	switch {
	case m.pic.snap.Outcome.Ended != 0:
		return "ended without a step"
	case len(m.pic.snap.Recent) == 0:
		return "waiting for the first step"
	}
	return "waiting for a step"
}

func (m *Model) gaugeRate(r canvas.Rectangle) {
	p := m.c.Pen(r.X+1, r.Y, r.W-2)
	p.Bytes(canvas.Bold, appendRate(p.Buf(), m.pic.rate)).Text(canvas.Dim, " samples/s")
	m.versusA(&p)
	m.spark(canvas.Rect(r.X+1, r.Y+1, r.W-2, r.H-2), histRate, 0)
	p = m.c.Pen(r.X+1, r.Y+r.H-1, r.W-2)
	if m.pic.util > 0 {
		p.Text(canvas.Dim, "if never starved ~").Bytes(canvas.Normal, appendRate(p.Buf(), m.pic.rate/m.pic.util)).Text(canvas.Dim, "/s")
	}
}

// versusA prints the change against the baseline, when one was measured.
func (m *Model) versusA(p *canvas.Pen) {
	c := m.an.current()
	if c == nil || c.Segment.Index == m.an.baseline || c.Segment.Index != m.pic.seg.Index || !c.VsA.OK {
		return
	}
	st := canvas.Dim
	var b [16]byte
	d := append(b[:0], "no diff"...)
	if c.VsA.Different {
		d = appendDelta(b[:0], c.VsA.Ratio)
		st = canvas.GoodBold
		if c.VsA.Ratio < 1 {
			st = canvas.BadBold
		}
	}
	if p.Left() < len(d)+2 {
		return
	}
	if p.Space(2).Bytes(st, d); p.Left() >= 4 {
		p.Text(canvas.Dim, " v A")
	}
}

func (m *Model) gaugeQueue(r canvas.Rectangle) {
	p := m.c.Pen(r.X+1, r.Y, r.W-2)
	ready, capacity := m.queueLevel()
	if capacity > 0 {
		f := ready / capacity
		st := canvas.Transfer.Text()
		if ready == 0 {
			st = canvas.Bad
		}
		bar := max(4, r.W-14)
		m.c.Bar(p.X, p.Y, bar, f, st)
		p.Space(bar+1).Int(canvas.Bold, int64(ready)).Text(canvas.Dim, "/").Int(canvas.Normal, int64(capacity)).Text(canvas.Dim, " ready")
	} else {
		p.Text(canvas.Dim, m.noQueue())
	}
	m.spark(canvas.Rect(r.X+1, r.Y+1, r.W-2, r.H-2), histQueue, capacity)
	p = m.c.Pen(r.X+1, r.Y+r.H-1, r.W-2)
	if m.pic.pinned.n > 0 && m.pic.pinned.v > 0 {
		p.Text(canvas.Dim, "pin ").Bytes(canvas.Normal, appendSize(p.Buf(), m.pic.pinned.v))
	} else {
		p.Text(canvas.Dim, "pin ").Text(canvas.Normal, "none")
	}
	if m.pic.h2d > 0 {
		p.Text(canvas.Dim, "  H2D ").Bytes(canvas.Normal, appendSize(p.Buf(), m.pic.h2d)).Text(canvas.Dim, "/s")
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
func (m *Model) dataLine(p *canvas.Pen) {
	n := int64(len(m.pic.steps))
	if n == 0 {
		return
	}
	p.Text(canvas.Dim, "a step: data wait ").Bytes(canvas.Normal, appendDur(p.Buf(), m.pic.sum.Wait/n)).
		Text(canvas.Dim, ", loading ").Bytes(canvas.Normal, appendDur(p.Buf(), m.pic.sum.Load/n)).Text(canvas.Dim, " (workers)")
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
