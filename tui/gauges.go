package tui

import (
	"math"

	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/figures"
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

// gainStyle is the colour of a change, as a ratio.
func gainStyle(ratio float64) canvas.Style {
	if ratio < 1 {
		return canvas.BadBold
	}
	return canvas.GoodBold
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

// gaugesPanel shows how busy the device is and how fast the training.
func gaugesPanel() panel {
	return panel{
		name:  "gauges",
		place: func(s space) place { return place{band: gaugesBand, rows: gaugeRows(s)} },
		draw:  drawGauges,
	}
}

// gaugeRows is the height of their band: without a box where a compact screen is low.
func gaugeRows(s space) int {
	switch {
	case s.class == sizeLarge && s.rest() >= 40:
		return 7
	case s.class == sizeCompact && s.h < 26:
		return 3
	}
	return 5
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
func spark(v *view, r canvas.Rectangle, kind histKind, top float64) {
	if r.Empty() {
		return
	}
	n := min(r.W, histLen)
	h := v.pic.hist[histLen-n:]
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
		f := value(&h[i])
		st := canvas.Graph
		if kind == histUtil {
			st = utilStyle(f)
		}
		v.c.Height(x, r.Y, r.H, min(f/top, 1), st)
	}
}

// drawGauges draws a box a gauge, side by side.
func drawGauges(v *view, r canvas.Rectangle) {
	if v.class == sizeCompact {
		if r.H > 3 {
			v.c.Box(r, "", "Gauges", false)
		} else {
			r = canvas.Rect(r.X, r.Y-1, r.W, r.H+2)
		}
		drawGaugeLines(v, r.Inner())
		return
	}
	x := r.X
	for i := range gauges {
		w := r.W / len(gauges)
		if i < r.W%len(gauges) {
			w++
		}
		b := canvas.Rect(x, r.Y, w, r.H)
		p := v.c.Box(b, "", gauges[i].title, false)
		if i == 0 {
			p.Text(canvas.Dim, v.pic.snap.Meta.Device).Rune(canvas.Dim, ' ')
		}
		gauges[i].draw(v, b.Inner())
		x += w
	}
}

var gauges = [...]struct {
	title string
	draw  func(v *view, r canvas.Rectangle)
	line  func(v *view, p *canvas.Pen) // where there is one line for it
}{
	{"Device util", gaugeUtil, utilLine},
	{"Step time", gaugeStep, stepLine},
	{"Throughput", gaugeRate, rateLine},
	{"Queue / pinned", gaugeQueue, queueLine},
}

func gaugeUtil(v *view, r canvas.Rectangle) {
	p := v.c.Pen(r.X+1, r.Y, r.W-2)
	st := utilStyle(v.pic.util)
	bar := max(4, r.W-13)
	p.Bar(st, bar, v.pic.util).Space(1).Bytes(bold(st), figures.Narrow.AppendPercent(p.Buf(), v.pic.util)).Text(st, levelMark(st))
	rows := r.H - 2
	if rows > 2 && v.pic.hasDriver() {
		rows--
		p = v.c.Pen(r.X+1, r.Y+1+rows, r.W-2)
		v.pic.driverLine(&p)
	}
	spark(v, canvas.Rect(r.X+1, r.Y+1, r.W-2, rows), histUtil, 1)
	p = v.c.Pen(r.X+1, r.Y+r.H-1, r.W-2)
	v.pic.nvmlLine(&p)
}

func (p *picture) hasDriver() bool { return p.driver != [len(driverGauges)]gauge{} }

// driverLine prints the driver's other gauges, those that it has two samples of.
func (pic *picture) driverLine(p *canvas.Pen) {
	for i := range driverGauges {
		if g := pic.driver[i]; g.n >= 2 {
			d := &driverGauges[i]
			p.Text(canvas.Dim, d.name).Bytes(canvas.Normal, d.write(p.Buf(), g.v)).Space(2)
		}
	}
}

// nvmlLine prints the driver's own utilisation beside the measured one.
func (pic *picture) nvmlLine(p *canvas.Pen) {
	g := pic.nvml
	meta := &pic.snap.Meta
	p.Text(canvas.Dim, "NVML ")
	switch {
	case g.n >= 2:
		f := g.v / 100
		p.Bytes(canvas.Bold, percentage(p.Buf(), g.v))
		if hides := f - pic.util; hides > 0.05 {
			p.Text(canvas.Normal, "  hides ").Bytes(canvas.Warn, figures.Narrow.AppendPercent(p.Buf(), hides)).Text(canvas.Normal, " stall")
		}
	case meta.DeviceKind == "cuda" || g.n == 1:
		p.Text(canvas.Normal, "n/a").Text(canvas.Dim, " (").Int(canvas.Dim, int64(g.n)).Text(canvas.Dim, " samples)")
	case meta.Emulated:
		p.Text(canvas.Normal, "n/a").Text(canvas.Dim, " (emulated device)")
	default:
		p.Text(canvas.Normal, "n/a").Text(canvas.Dim, " (no NVIDIA GPU)")
	}
}

func gaugeStep(v *view, r canvas.Rectangle) {
	p := v.c.Pen(r.X+1, r.Y, r.W-2)
	if len(v.pic.steps) == 0 {
		p.Text(canvas.Dim, v.pic.noSteps())
	} else {
		p.Text(canvas.Dim, "p50 ").Bytes(canvas.Bold, figures.Narrow.AppendTime(p.Buf(), v.pic.p50)).Text(canvas.Dim, "  p95 ").Bytes(canvas.Normal, figures.Narrow.AppendTime(p.Buf(), v.pic.p95))
	}
	spark(v, canvas.Rect(r.X+1, r.Y+1, r.W-2, r.H-2), histStep, 0)
	p = v.c.Pen(r.X+1, r.Y+r.H-1, r.W-2)
	if len(v.pic.steps) > 0 {
		p.Text(canvas.Dim, "compute floor ").Bytes(canvas.Normal, figures.Narrow.AppendTime(p.Buf(), v.pic.floor))
	}
}

// noSteps says why there are no numbers yet.
func (p *picture) noSteps() string {
	switch {
	case p.snap.Outcome.Ended != 0:
		return "ended without a step"
	case len(p.snap.Recent) == 0:
		return "waiting for the first step"
	}
	return "waiting for a step"
}

func gaugeRate(v *view, r canvas.Rectangle) {
	p := v.c.Pen(r.X+1, r.Y, r.W-2)
	p.Bytes(canvas.Bold, figures.AppendRate(p.Buf(), v.pic.rate)).Text(canvas.Dim, " samples/s")
	versusA(v, &p)
	spark(v, canvas.Rect(r.X+1, r.Y+1, r.W-2, r.H-2), histRate, 0)
	p = v.c.Pen(r.X+1, r.Y+r.H-1, r.W-2)
	if v.pic.util > 0 {
		p.Text(canvas.Dim, "if never starved ~").Bytes(canvas.Normal, figures.AppendRate(p.Buf(), v.pic.rate/v.pic.util)).Text(canvas.Dim, "/s")
	}
}

// versusA prints the change against the baseline, when one was measured.
func versusA(v *view, p *canvas.Pen) {
	c := v.analysis.current()
	if c == nil || c.Segment.Index == v.analysis.baseline || c.Segment.Index != v.pic.seg.Index || c.VsA.Throughput.Answer == evidence.Unknown {
		return
	}
	st := canvas.Dim
	var b [16]byte
	d := append(b[:0], "same"...)
	if c.VsA.Throughput.Answer == evidence.Different {
		d = figures.Narrow.AppendGain(b[:0], c.VsA.Throughput.Estimate())
		st = gainStyle(c.VsA.Throughput.Ratio)
	}
	if p.Left() < len(d)+2 {
		return
	}
	if p.Space(2).Bytes(st, d); p.Left() >= 4 {
		p.Text(canvas.Dim, " v A")
	}
}

func gaugeQueue(v *view, r canvas.Rectangle) {
	p := v.c.Pen(r.X+1, r.Y, r.W-2)
	ready, capacity := queueLevel(v)
	if capacity > 0 {
		f := ready / capacity
		st := canvas.Transfer.Text()
		if ready == 0 {
			st = canvas.Bad
		}
		bar := max(4, r.W-14)
		p.Bar(st, bar, f).Space(1).Int(canvas.Bold, int64(ready)).Text(canvas.Dim, "/").Int(canvas.Normal, int64(capacity)).Text(canvas.Dim, " ready")
	} else {
		p.Text(canvas.Dim, v.pic.noQueue())
	}
	spark(v, canvas.Rect(r.X+1, r.Y+1, r.W-2, r.H-2), histQueue, capacity)
	p = v.c.Pen(r.X+1, r.Y+r.H-1, r.W-2)
	if v.pic.pinned.n > 0 && v.pic.pinned.v > 0 {
		p.Text(canvas.Dim, "pin ").Bytes(canvas.Normal, figures.Narrow.AppendBytes(p.Buf(), int64(v.pic.pinned.v)))
	} else {
		p.Text(canvas.Dim, "pin ").Text(canvas.Normal, "none")
	}
	if v.pic.h2d > 0 {
		p.Text(canvas.Dim, "  H2D ").Bytes(canvas.Normal, figures.Narrow.AppendTransfer(p.Buf(), v.pic.h2d))
	}
}

// queueLevel is the number of ready batches and the capacity.
func queueLevel(v *view) (ready, capacity float64) {
	if v.pic.capacity.n > 0 {
		return v.pic.ready.v, v.pic.capacity.v
	}
	if trace.Off(v.pic.value("num_workers")) {
		return 0, 0
	}
	return float64(v.ready), float64(v.capacity)
}

// windowText says which steps verdict, gauges and breakdown are about.
func (pic *picture) windowText(p *canvas.Pen) {
	n := len(pic.steps)
	if n == 0 {
		return
	}
	p.Text(canvas.Dim, "last ").Bytes(canvas.Normal, figures.AppendCount(p.Buf(), n)).Text(canvas.Dim, pick(n == 1, " step, ", " steps, ")).
		Bytes(canvas.Normal, figures.Narrow.AppendTime(p.Buf(), pic.sum.Active())).Text(canvas.Dim, " ")
}

// dataLine prints data wait and data loading time, the two that people mix up.
func (pic *picture) dataLine(p *canvas.Pen) {
	n := int64(len(pic.steps))
	if n == 0 {
		return
	}
	p.Text(canvas.Dim, "a step: data wait ").Bytes(canvas.Normal, figures.Narrow.AppendTime(p.Buf(), pic.sum.Wait/n)).
		Text(canvas.Dim, ", loading ").Bytes(canvas.Normal, figures.Narrow.AppendTime(p.Buf(), pic.sum.Load/n)).Text(canvas.Dim, " (workers) ")
}

// noQueue says why there is no queue to show.
func (pic *picture) noQueue() string {
	if trace.Off(pic.value("num_workers")) {
		return "none: loading inline"
	}
	return "no batch yet"
}

// drawGaugeLines draws the gauges in three lines.
func drawGaugeLines(v *view, in canvas.Rectangle) {
	half := in.W / 2
	left := func(y int) canvas.Pen { return v.c.Pen(in.X+1, in.Y+y, half-2) }
	right := func(y int) canvas.Pen { return v.c.Pen(in.X+half, in.Y+y, in.W-half-1) }
	p := left(0)
	utilLine(v, &p)
	p = right(0)
	rateLine(v, &p)
	p = left(1)
	stepLine(v, &p)
	p = right(1)
	queueLine(v, &p)
	p = left(2)
	v.pic.nvmlLine(&p)
	if w := in.X + half - 2 - p.X - 1; w > 4 {
		spark(v, canvas.Rect(p.X+2, in.Y+2, w-2, 1), histUtil, 1)
	}
	p = right(2)
	p.Text(canvas.Dim, "pinned ")
	if v.pic.pinned.v > 0 {
		p.Bytes(canvas.Normal, figures.Narrow.AppendBytes(p.Buf(), int64(v.pic.pinned.v)))
	} else {
		p.Text(canvas.Normal, "none")
	}
	if v.pic.h2d > 0 {
		p.Text(canvas.Dim, "  H2D ").Bytes(canvas.Normal, figures.Narrow.AppendTransfer(p.Buf(), v.pic.h2d))
	}
}

func utilLine(v *view, p *canvas.Pen) {
	st := utilStyle(v.pic.util)
	bar := min(max(4, p.Left()-16), 40)
	p.Text(canvas.Dim, "util ")
	p.Bar(st, bar, v.pic.util).Space(1).Bytes(bold(st), figures.Narrow.AppendPercent(p.Buf(), v.pic.util)).Text(st, levelMark(st))
}

func stepLine(v *view, p *canvas.Pen) {
	p.Text(canvas.Dim, "step ")
	if len(v.pic.steps) == 0 {
		p.Text(canvas.Dim, v.pic.noSteps())
		return
	}
	p.Text(canvas.Dim, "p50 ").Bytes(canvas.Bold, figures.Narrow.AppendTime(p.Buf(), v.pic.p50)).Text(canvas.Dim, "  p95 ").Bytes(canvas.Normal, figures.Narrow.AppendTime(p.Buf(), v.pic.p95))
}

func rateLine(v *view, p *canvas.Pen) {
	p.Text(canvas.Dim, "rate  ").Bytes(canvas.Bold, figures.AppendRate(p.Buf(), v.pic.rate)).Text(canvas.Dim, " samples/s")
	versusA(v, p)
}

func queueLine(v *view, p *canvas.Pen) {
	p.Text(canvas.Dim, "queue ")
	ready, capacity := queueLevel(v)
	if capacity <= 0 {
		p.Text(canvas.Dim, v.pic.noQueue())
		return
	}
	bar := min(max(4, p.Left()-14), 20)
	st := canvas.Transfer.Text()
	if ready == 0 {
		st = canvas.Bad
	}
	p.Bar(st, bar, ready/capacity).Space(1).Int(canvas.Bold, int64(ready)).Text(canvas.Dim, "/").Int(canvas.Normal, int64(capacity)).Text(canvas.Dim, " ready")
}
