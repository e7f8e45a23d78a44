package plot

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// content draws what lies within the axes.
type content struct {
	*Chart
	size vg.Length
}

// Plot implements gonum's plot.Plotter.
func (c content) Plot(area draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&area)
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		area.StrokeLine2(draw.LineStyle{Color: faint, Width: pixel}, area.Min.X, y(t.Value), area.Max.X, y(t.Value))
	}
	for i := range c.Lines {
		c.line(&area, &c.Lines[i], x, y)
	}
	for g := range c.Groups {
		if c.Stacked {
			c.stack(&area, g, x, y)
		} else {
			c.group(&area, g, x, y)
		}
	}
	c.marks(&area, x)
}

type scale = func(float64) vg.Length

// slot is the width of a group, as a share of the distance between groups.
const slot = 0.78

// stack draws a group's bars on top of each other.
func (c content) stack(area *draw.Canvas, g int, x, y scale) {
	half := min((x(1)-x(0))*slot, 170*pixel) / 2
	from := 0.0
	for i := range c.Bars {
		b := &c.Bars[i]
		v := b.value(g)
		if v <= 0 {
			continue
		}
		y0, y1 := y(from), min(y(from+v), area.Max.Y)
		from += v
		rectangle(area, b.Colour, x(float64(g))-half, y0, x(float64(g))+half, y1)
		if letter := bold(style(c.size*0.95, on(b.Colour))); b.Letter != 0 && y1-y0 > c.size*1.1 {
			letter.XAlign, letter.YAlign = text.XCenter, text.YCenter
			label := string(b.Letter)
			if b.Texts != nil {
				label += "  " + b.Texts[g]
			}
			if letter.Width(label) > 2*half {
				label = string(b.Letter)
			}
			area.FillText(letter, vg.Point{X: x(float64(g)), Y: (y0 + y1) / 2}, label)
		}
	}
}

// group draws a group's bars side by side.
func (c content) group(area *draw.Canvas, g int, x, y scale) {
	n := vg.Length(len(c.Bars))
	width := min((x(1)-x(0))*slot/n, 130*pixel)
	left := x(float64(g)) - width*n/2
	for i := range c.Bars {
		b := &c.Bars[i]
		x0 := left + vg.Length(i)*width
		middle := x0 + width/2
		if g >= len(b.Values) || math.IsNaN(b.Values[g]) {
			none := style(c.size*0.85, dim)
			none.XAlign, none.YAlign = text.XCenter, text.YBottom
			area.FillText(none, vg.Point{X: middle, Y: area.Min.Y + 3*pixel}, "-")
			continue
		}
		end := min(y(b.Values[g]), area.Max.Y)
		rectangle(area, b.Colour, x0, area.Min.Y, x0+width, end)
		if b.Lo != nil && b.Hi != nil && b.Lo[g] <= b.Hi[g] { // false for NaN
			top := y(b.Hi[g])
			c.whisker(area, middle, min(width/4, 9*pixel), y(b.Lo[g]), top)
			end = max(end, min(top, area.Max.Y))
		}
		if b.Texts == nil {
			continue
		}
		t := style(c.size*0.85, ink)
		t.XAlign, t.YAlign = text.XCenter, text.YBottom
		if t.Width(b.Texts[g]) > width*1.25 && len(c.Bars)*len(c.Groups) > 3 {
			t.Font.Size *= 0.82
		}
		if t.Width(b.Texts[g]) <= width*1.3 || len(c.Bars)*len(c.Groups) <= 3 {
			at := min(end, area.Max.Y-t.Height(b.Texts[g])) + 3*pixel
			if at < end { // it lies on a whisker that leaves the picture
				half, high := t.Width(b.Texts[g])/2+2*pixel, t.Height(b.Texts[g])
				area.FillPolygon(color.White, corners(middle-half, at, middle+half, at+high))
			}
			area.FillText(t, vg.Point{X: middle, Y: at}, b.Texts[g])
		}
	}
}

// whisker draws an interval. It cuts off the part beyond the axis, and draws no end mark
// there.
func (c content) whisker(area *draw.Canvas, x, half, lo, hi vg.Length) {
	s := draw.LineStyle{Color: ink, Width: 1.5 * pixel}
	bottom, top := max(lo, area.Min.Y), min(hi, area.Max.Y)
	area.StrokeLine2(s, x, bottom, x, top)
	for _, end := range []vg.Length{lo, hi} {
		if end >= area.Min.Y && end <= area.Max.Y {
			area.StrokeLine2(s, x-half, end, x+half, end)
		}
	}
}

// line draws a curve.
func (c content) line(area *draw.Canvas, l *Line, x, y scale) {
	points := make([]vg.Point, 0, len(l.Points)+2)
	for _, p := range l.Points {
		if !math.IsNaN(p.Y) {
			points = append(points, vg.Point{X: x(p.X), Y: min(y(p.Y), area.Max.Y)})
		}
	}
	if len(points) == 0 {
		return
	}
	s := draw.LineStyle{Color: l.Colour, Width: 2 * pixel}
	if l.Dashed {
		s.Dashes = []vg.Length{6 * pixel, 4 * pixel}
	}
	if l.Filled {
		r, g, b, _ := l.Colour.RGBA()
		outline := append([]vg.Point{{X: points[0].X, Y: area.Min.Y}}, points...)
		outline = append(outline, vg.Point{X: points[len(points)-1].X, Y: area.Min.Y})
		area.FillPolygon(lighter(r, g, b), outline)
	}
	area.StrokeLines(s, points)
}

// marks draws words at places of the x axis, on four heights in turns, so that neighbours
// do not cover each other.
func (c content) marks(area *draw.Canvas, x scale) {
	t := style(c.size*0.85, ink)
	t.YAlign = text.YTop
	for i, m := range c.Marks {
		at := x(m.X)
		dashed := draw.LineStyle{Color: dim, Width: pixel, Dashes: []vg.Length{3 * pixel, 3 * pixel}}
		area.StrokeLine2(dashed, at, area.Min.Y, at, area.Max.Y)
		t.XAlign = text.XLeft
		if at += 3 * pixel; at+t.Width(m.Text) > area.Max.X {
			t.XAlign = text.XRight
			at -= 6 * pixel
		}
		area.FillText(t, vg.Point{X: at, Y: area.Max.Y - vg.Length(i%4)*c.size}, m.Text)
	}
}
