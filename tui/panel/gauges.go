package panel

import (
	"math"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/tui/canvas"
)

// UtilGood is the utilisation below which a device is idle too much. Below UtilPoor it is idle
// far too much.
const (
	UtilGood = 0.85
	UtilPoor = 0.60
)

// utilStyle returns the colour of the share of time in which the device is busy. A good share is no longer good, and not
// bad either, where threads of the device waited for a core: starvedStyle has the colour of that.
func utilStyle(busy, starved float64) canvas.Style {
	st := utilLevel(busy)
	if st == canvas.Good && utilLevel(busy*(1-starved)) != canvas.Good {
		return canvas.Normal
	}
	return st
}

// starvedStyle returns the colour of the share of its busy time in which the device's threads waited for a core.
func starvedStyle(busy, starved float64) canvas.Style {
	if st := utilLevel(busy * (1 - starved)); utilLevel(busy) == canvas.Good && st != canvas.Good {
		return st
	}
	return canvas.Normal
}

func utilLevel(busy float64) canvas.Style {
	switch {
	case math.IsNaN(busy):
		return canvas.Dim
	case busy < UtilPoor:
		return canvas.Bad
	case busy < UtilGood:
		return canvas.Warn
	}
	return canvas.Good
}

// StallStyle returns the colour of a share of time that is lost, by the verdict's thresholds.
func StallStyle(f float64) canvas.Style {
	moderate, high := advice.Thresholds()
	switch {
	case math.IsNaN(f):
		return canvas.Dim
	case f < moderate:
		return canvas.Good
	case f < high:
		return canvas.Warn
	}
	return canvas.Bad
}

// levelMark returns the mark with the same meaning as the colour of utilStyle and
// StallStyle.
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

// gainStyle returns the colour of a change, given as a ratio.
func gainStyle(ratio float64) canvas.Style {
	if ratio < 1 {
		return canvas.BadBold
	}
	return canvas.GoodBold
}

// Bold returns the bold variant of the colours of utilStyle and StallStyle.
func Bold(st canvas.Style) canvas.Style {
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

// Gauges is the panel that shows how busy the device is and how fast the training is.
type Gauges struct{ Card }

// NewGauges makes the panel.
func NewGauges() *Gauges { return &Gauges{Card{Name: "gauges"}} }

// Place asks for a band of its own.
func (*Gauges) Place(s Space) Place { return Place{Band: gaugesBand, Rows: gaugeRows(s)} }

// gaugeRows returns the height of the gauges. On a low compact screen they have no box.
func gaugeRows(s Space) int {
	switch {
	case s.Class == SizeLarge && s.Rest() >= 40:
		return 7
	case s.Class == SizeCompact && s.H < 26:
		return 3
	}
	return 5
}

// Draw draws one box for each gauge, side by side.
func (*Gauges) Draw(v *View, r canvas.Rectangle) {
	if v.Class == SizeCompact {
		if r.H > 3 {
			v.C.Box(r, "", "Gauges", false)
		} else {
			r = canvas.Rect(r.X, r.Y-1, r.W, r.H+2)
		}
		drawGaugeLines(v, r.Inner())
		return
	}
	x, share, of := r.X, 0, 0
	for i := range gauges {
		of += gauges[i].share
	}
	for i := range gauges {
		share += gauges[i].share
		end := r.X + r.W*share/of
		b := canvas.Rect(x, r.Y, end-x, r.H)
		p := v.C.Box(b, "", gauges[i].title, false)
		if i == 0 {
			device := v.Pic.Snap.Meta.Device
			if !p.Whole(func(p *canvas.Pen) { p.Text(canvas.Dim, device).Rune(canvas.Dim, ' ') }) { // the top line has the whole name
				device, _, _ = strings.Cut(device, " (")
				p.Text(canvas.Dim, device).Rune(canvas.Dim, ' ')
			}
		}
		gauges[i].draw(v, b.Inner().Indent())
		x = end
	}
}

// gauges are the boxes, with their shares of the width.
var gauges = [...]struct {
	title string
	share int
	draw  func(v *View, r canvas.Rectangle)
}{
	{"Device util", 28, gaugeUtil},
	{"Host CPU", 26, gaugeHost},
	{"Throughput", 36, gaugeRate},
	{"Queue / pinned", 30, gaugeQueue},
}

// row returns a pen for line y of r. Where y is negative it counts from the bottom.
func row(v *View, r canvas.Rectangle, y int) canvas.Pen {
	if y < 0 {
		y += r.H
	}
	return v.C.Pen(r.X, r.Y+y, r.W)
}

func gaugeUtil(v *View, r canvas.Rectangle) {
	p := row(v, r, 0)
	st := v.Win.Style()
	p.Bar(st, max(4, r.W-11), v.Win.Util).Space(1).Bytes(Bold(st), units.Narrow.AppendPercent(p.Buf(), v.Win.Util)).Text(st, levelMark(st))
	rows := r.H - 2
	if rows > 2 && v.Pic.hasDriver() {
		rows--
		p = row(v, r, -2)
		v.Pic.driverLine(&p)
	}
	spark(v, canvas.Rect(r.X, r.Y+1, r.W, rows), histUtil, 1)
	p = row(v, r, -1)
	nvmlLine(v, &p)
}

func (p *Picture) hasDriver() bool { return p.driver != [len(driverGauges)]gauge{} }

// driverLine writes the driver's other gauges that have at least two samples.
func (pic *Picture) driverLine(p *canvas.Pen) {
	for i := range driverGauges {
		if g := pic.driver[i]; g.n >= 2 {
			p.Whole(func(p *canvas.Pen) {
				d := &driverGauges[i]
				p.Text(canvas.Dim, d.name).Bytes(canvas.Normal, d.write(p.Buf(), g.v))
			})
			p.Space(2)
		}
	}
}

// nvmlLine writes the driver's own utilisation, to compare with the measured one. If the device
// computes on the host's cores and often waits for one, it writes that share of the time instead.
func nvmlLine(v *View, p *canvas.Pen) {
	g := v.Pic.nvml
	meta := &v.Pic.Snap.Meta
	if least, _ := advice.Thresholds(); v.Win.Starved >= least {
		st := starvedStyle(v.Win.Util, v.Win.Starved)
		p.Text(canvas.Dim, "waits for core ").Bytes(st, units.Narrow.AppendPercent(p.Buf(), v.Win.Starved)).Text(st, levelMark(st))
		return
	}
	p.Text(canvas.Dim, "NVML ")
	switch {
	case g.n >= 2:
		f := g.v / 100
		p.Bytes(canvas.Bold, percentage(p.Buf(), g.v))
		if hides := f - v.Win.Util; hides > 0.05 {
			p.Whole(func(p *canvas.Pen) {
				p.Text(canvas.Normal, "  hides ").Bytes(canvas.Warn, units.Narrow.AppendPercent(p.Buf(), hides))
			})
			p.Whole(func(p *canvas.Pen) { p.Text(canvas.Normal, " stall") })
		}
	case meta.Imported != "":
		p.Text(canvas.Dim, notRecorded)
	case meta.DeviceKind == "cuda" || g.n == 1:
		p.Text(canvas.Normal, "not known").Text(canvas.Dim, " (").Int(canvas.Dim, int64(g.n)).Text(canvas.Dim, " samples)")
	case meta.Emulated:
		p.Text(canvas.Normal, "none").Text(canvas.Dim, " (emulated)")
	default:
		p.Text(canvas.Normal, "none").Text(canvas.Dim, " (no NVIDIA GPU)")
	}
}

// unmeasured returns the words for a gauge without a sample.
func (p *Picture) unmeasured() string {
	if p.Snap.Meta.Imported != "" {
		return notRecorded
	}
	return "not measured yet"
}

// notRecorded is shown for what an imported trace does not contain.
const notRecorded = "not recorded"

// gaugeHost draws what the host's cores and its disk are busy with, one line each.
func gaugeHost(v *View, r canvas.Rectangle) {
	for i := range min(r.H, hostLines) {
		p := row(v, r, i)
		hostLine(v, &p, i)
	}
}

// hostLine writes the host gauges of one line, or that there are none.
func hostLine(v *View, p *canvas.Pen, line int) {
	any := false
	for i := range hostGauges {
		g := &hostGauges[i]
		if g.line != line {
			continue
		}
		if v.Pic.host[i].n == 0 {
			continue
		}
		p.Space(Pick(any, 2, 0))
		any = p.Whole(func(p *canvas.Pen) {
			p.Text(canvas.Dim, g.name).Bytes(canvas.Normal, g.write(p.Buf(), v.Pic.host[i].v))
		}) || any
	}
	if !any {
		p.Text(canvas.Dim, hostNames[line]).Text(canvas.Dim, v.Pic.unmeasured())
	}
}

// noSteps returns why there are no numbers yet.
func (p *Picture) noSteps() string {
	switch {
	case p.Snap.Outcome.Ended != 0:
		return "ended without a step"
	case len(p.Snap.Recent) == 0:
		return "waiting for the first step"
	}
	return "waiting for a step"
}

func gaugeRate(v *View, r canvas.Rectangle) {
	p := row(v, r, 0)
	if v.Pic.Snap.Meta.Imported != "" && v.Win.Sum.Samples == 0 {
		p.Text(canvas.Dim, "samples "+notRecorded)
	} else {
		p.Bytes(canvas.Bold, units.AppendRate(p.Buf(), v.Win.Rate)).Text(canvas.Dim, " samples/s")
	}
	versusA(v, &p)
	rows := r.H - 2
	if rows >= 3 && v.Win.Steps() > 0 {
		rows--
		p = row(v, r, -2)
		p.Text(canvas.Dim, "compute floor ").Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), v.Win.Floor))
		p.Whole(func(p *canvas.Pen) {
			p.Text(canvas.Dim, "  without waits ~").Bytes(canvas.Normal, units.AppendRate(p.Buf(), v.Win.Rate/v.Win.Util)).Text(canvas.Dim, "/s")
		})
	}
	spark(v, canvas.Rect(r.X, r.Y+1, r.W, rows), histRate, 0)
	p = row(v, r, -1)
	stepTimes(v, &p)
}

// stepTimes writes the mean and two quantiles of the step's time.
func stepTimes(v *View, p *canvas.Pen) {
	if v.Win.Steps() == 0 {
		p.Text(canvas.Dim, v.Pic.noSteps())
		return
	}
	p.Text(canvas.Dim, "mean ").Bytes(canvas.Bold, units.Narrow.AppendTime(p.Buf(), v.Win.Mean))
	p.Whole(func(p *canvas.Pen) {
		p.Text(canvas.Dim, " p50 ").Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), v.Win.P50))
	})
	p.Whole(func(p *canvas.Pen) {
		p.Text(canvas.Dim, " p95 ").Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), v.Win.P95))
	})
}

// versusA writes the change against the baseline, if it was measured. The change is about all
// steps of the configuration, not about the window, so versusA names the configuration.
func versusA(v *View, p *canvas.Pen) {
	c := v.Analysis.current()
	if c == nil || c.Baseline || c.Segment.Index != v.Pic.Segment.Index || c.VsA.Throughput.Answer == stats.Unknown {
		return
	}
	st := canvas.Dim
	var b [16]byte
	d := append(b[:0], "same"...)
	if c.VsA.Throughput.Answer == stats.Different {
		d = units.Narrow.AppendGain(b[:0], c.VsA.Throughput.Estimate())
		st = gainStyle(c.VsA.Throughput.Ratio)
	}
	p.Whole(func(p *canvas.Pen) {
		p.Text(canvas.Dim, "  #").Int(canvas.Dim, int64(c.Segment.Index)).Space(1).Bytes(st, d).Text(canvas.Dim, " v A")
	})
	if c.VsA.Throughput.LessDrift() != "" {
		p.Whole(func(p *canvas.Pen) { p.Space(1).Text(canvas.Dim, stats.DriftMark) })
	}
}

func gaugeQueue(v *View, r canvas.Rectangle) {
	p := row(v, r, 0)
	ready, capacity := queueLevel(v)
	if capacity > 0 {
		queueBar(&p, max(4, r.W-12), ready, capacity)
	} else {
		p.Text(canvas.Dim, v.Pic.noQueue())
	}
	spark(v, canvas.Rect(r.X, r.Y+1, r.W, r.H-2), histQueue, capacity)
	p = row(v, r, -1)
	p.Text(canvas.Dim, "pin ")
	switch meta := &v.Pic.Snap.Meta; {
	case meta.Imported != "":
		p.Text(canvas.Dim, notRecorded)
	case meta.Watched(): // how much memory is page-locked is not known
		p.Text(canvas.Normal, knob.ValueOf(v.Pic.Segment.Knobs, "pin_memory"))
	case v.Pic.pinned.v > 0:
		p.Bytes(canvas.Normal, units.Narrow.AppendBytes(p.Buf(), int64(v.Pic.pinned.v)))
	default:
		p.Text(canvas.Normal, "none")
	}
	if v.Win.H2D > 0 {
		p.Whole(func(p *canvas.Pen) {
			p.Text(canvas.Dim, "  H2D ").Bytes(canvas.Normal, units.Narrow.AppendTransfer(p.Buf(), v.Win.H2D))
		})
	}
}

// queueBar draws how full the queue is. An empty queue is red.
func queueBar(p *canvas.Pen, w int, ready, capacity float64) {
	st := canvas.Transfer.Text()
	if ready == 0 {
		st = canvas.Bad
	}
	p.Bar(st, w, ready/capacity).Space(1).Int(canvas.Bold, int64(ready)).Text(canvas.Dim, "/").Int(canvas.Normal, int64(capacity)).Text(canvas.Dim, " ready")
}

// queueLevel returns the number of ready batches and the capacity of the queue.
func queueLevel(v *View) (ready, capacity float64) {
	if v.Pic.capacity.n > 0 {
		return v.Pic.ready.v, v.Pic.capacity.v
	}
	if knob.Off(v.Pic.value("num_workers")) {
		return 0, 0
	}
	return float64(v.Ready), float64(v.Capacity)
}

// dataLine writes how long the loop waits for data and the workers' time for it, because people mix up
// the two. The device's idle time for data is a third number, in the breakdown.
func (w *Window) dataLine(p *canvas.Pen) {
	n := w.Steps()
	if n == 0 {
		return
	}
	wait := func(p *canvas.Pen) {
		p.Text(canvas.Dim, "loop waits ").Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), w.Sum.Wait/n))
	}
	both := p.Whole(func(p *canvas.Pen) {
		wait(p.Text(canvas.Dim, "a step: "))
		if w.Sum.Load == 0 { // what workers did was not recorded
			p.Text(canvas.Dim, " ")
			return
		}
		p.Text(canvas.Dim, ", worker time ").Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), w.Sum.Load/n)).Text(canvas.Dim, " ")
	})
	if !both {
		p.Whole(func(p *canvas.Pen) { wait(p); p.Text(canvas.Dim, " ") })
	}
}

// noQueue returns why there is no queue to show.
func (pic *Picture) noQueue() string {
	if pic.Snap.Meta.Imported != "" {
		return notRecorded
	}
	if knob.Off(pic.value("num_workers")) {
		return "none: loading inline"
	}
	return "no batch yet"
}

// drawGaugeLines draws the gauges in three lines.
func drawGaugeLines(v *View, in canvas.Rectangle) {
	half := in.W / 2
	left := func(y int) canvas.Pen { return v.C.Pen(in.X+1, in.Y+y, half-2) }
	right := func(y int) canvas.Pen { return v.C.Pen(in.X+half, in.Y+y, in.W-half-1) }
	for y, line := range [...][2]func(*View, *canvas.Pen){{utilLine, rateLine}, {stepLine, queueLine}, {nvmlLine, cpuLine}} {
		p := left(y)
		line[0](v, &p)
		if w := in.X + half - 3 - p.X; y == 2 && w > 4 {
			spark(v, canvas.Rect(p.X+2, in.Y+y, w-2, 1), histUtil, 1)
		}
		p = right(y)
		line[1](v, &p)
	}
}

func utilLine(v *View, p *canvas.Pen) {
	st := v.Win.Style()
	bar := min(max(4, p.Left()-16), 40)
	p.Text(canvas.Dim, "util ")
	p.Bar(st, bar, v.Win.Util).Space(1).Bytes(Bold(st), units.Narrow.AppendPercent(p.Buf(), v.Win.Util)).Text(st, levelMark(st))
}

func stepLine(v *View, p *canvas.Pen) {
	p.Text(canvas.Dim, "step ")
	stepTimes(v, p)
}

func rateLine(v *View, p *canvas.Pen) {
	p.Text(canvas.Dim, "rate  ").Bytes(canvas.Bold, units.AppendRate(p.Buf(), v.Win.Rate)).Text(canvas.Dim, " samples/s")
	versusA(v, p)
}

func queueLine(v *View, p *canvas.Pen) {
	p.Text(canvas.Dim, "queue ")
	ready, capacity := queueLevel(v)
	if capacity <= 0 {
		p.Text(canvas.Dim, v.Pic.noQueue())
		return
	}
	queueBar(p, min(max(4, p.Left()-14), 20), ready, capacity)
}

func cpuLine(v *View, p *canvas.Pen) {
	p.Text(canvas.Dim, "host  ")
	hostLine(v, p, 0)
}
