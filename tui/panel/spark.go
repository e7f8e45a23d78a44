package panel

import (
	"dev.gpustall/engine/base/units"
	"dev.gpustall/tui/canvas"
)

// histKind is which history a sparkline draws.
type histKind uint8

const (
	histUtil histKind = iota
	histRate
	histQueue
)

// of returns the value of one bucket, and whether it has one.
func (k histKind) of(p *point) (v float64, ok bool) {
	switch k {
	case histUtil:
		return float64(p.util), p.n > 0
	case histRate:
		return float64(p.rate), p.n > 0
	}
	return float64(p.queue), true
}

// scale writes a value as the end of the scale.
func (k histKind) scale(b []byte, v float64) []byte {
	switch k {
	case histUtil:
		return units.Narrow.AppendPercent(b, v)
	case histRate:
		return append(units.AppendRate(b, v), "/s"...)
	}
	return units.AppendCount(b, int64(v))
}

// sparkLeast is the least width of a history that has a scale.
const sparkLeast = 8

// spark draws the newest history into r, which may be several rows high, and its scale at the left.
// The scale begins at 0 and ends at top. If top is 0, it ends at the largest value in view.
func spark(v *View, r canvas.Rectangle, kind histKind, top float64) {
	if r.Empty() {
		return
	}
	if top <= 0 {
		for i := range v.Pic.hist[histLen-min(r.W, histLen):] {
			f, _ := kind.of(&v.Pic.hist[histLen-1-i])
			top = max(top, f/v.Pic.perBucket(kind))
		}
	}
	if top > 0 {
		r = drawScale(v, r, kind, top)
	}
	n := min(r.W, histLen)
	for i := range v.Pic.hist[histLen-n:] {
		p := &v.Pic.hist[histLen-n+i]
		f, ok := kind.of(p)
		if !ok {
			continue
		}
		f /= v.Pic.perBucket(kind)
		st := canvas.Graph
		if kind == histUtil {
			st = utilStyle(f, float64(p.starved))
		}
		v.C.Height(r.X+r.W-n+i, r.Y, r.H, min(f/max(top, 1e-9), 1), st)
	}
}

// perBucket returns the divisor for the value of a bucket. For a rate it is the seconds of a
// bucket.
func (p *Picture) perBucket(kind histKind) float64 {
	if kind == histRate {
		return float64(p.bucket) / 1e9
	}
	return 1
}

// drawScale writes the scale at the left of r and returns the rest of r. It writes nothing where
// the history would become too short.
func drawScale(v *View, r canvas.Rectangle, kind histKind, top float64) canvas.Rectangle {
	if r.W <= sparkLeast+1 {
		return r
	}
	p := v.C.Pen(r.X, r.Y, r.W-sparkLeast-1)
	fits := p.Whole(func(p *canvas.Pen) {
		if r.H == 1 {
			p.Text(canvas.Dim, "0..")
		}
		p.Bytes(canvas.Dim, kind.scale(p.Buf(), top))
	})
	if !fits {
		return r
	}
	if r.H > 1 {
		v.C.Text(r.X, r.Y+r.H-1, 1, canvas.Dim, "0")
	}
	used := p.X - r.X + 1
	return canvas.Rect(r.X+used, r.Y, r.W-used, r.H)
}
