package plot

import (
	"image/color"
	"math"
	"strings"

	sfnt "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"dev.gpustall/engine/base/units"
)

// style returns the style of text of that size and colour.
func style(size vg.Length, c color.Color) text.Style {
	return text.Style{Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, Handler: plot.DefaultTextHandler}
}

func bold(s text.Style) text.Style {
	s.Font.Weight = sfnt.WeightBold
	return s
}

// titles writes a title and, at the right or below, the labels; it returns their height.
func titles(area draw.Canvas, size vg.Length, title, labels string) vg.Length {
	t := bold(style(size, ink))
	t.YAlign = text.YTop
	area.FillText(t, vg.Point{X: area.Min.X, Y: area.Max.Y}, title)
	used := t.Height(title)
	if labels == "" {
		return used
	}
	l := bold(style(size*0.85, Vermilion))
	l.YAlign = text.YTop
	labels = "[" + labels + "]"
	if t.Width(title)+l.Width(labels)+size < area.Max.X-area.Min.X {
		l.XAlign = text.XRight
		area.FillText(l, vg.Point{X: area.Max.X, Y: area.Max.Y}, labels)
		return used
	}
	area.FillText(l, vg.Point{X: area.Min.X, Y: area.Max.Y - used - size*0.3}, labels)
	return used + l.Height(labels) + size*0.3
}

// draw draws the chart with texts of that size.
func (c *Chart) draw(area draw.Canvas, size vg.Length) {
	area.Max.Y -= titles(area, size*1.15, c.Title, c.Labels) + size*0.6
	area.Max.Y -= c.legend(area, size*0.9)
	if c.Note != "" {
		n := style(size*0.85, dim)
		lines := fold(n, c.Note, area.Max.X-area.Min.X)
		high := vg.Length(1+strings.Count(lines, "\n")) * n.Font.Size * 1.2
		n.YAlign = text.YTop
		area.FillText(n, vg.Point{X: area.Min.X, Y: area.Min.Y + high}, lines)
		area.Min.Y += high + size*0.6
	}
	if len(c.Groups) == 0 && len(c.Lines) == 0 {
		s := style(size, dim)
		s.XAlign, s.YAlign = text.XCenter, text.YCenter
		area.FillText(s, area.Center(), "nothing was measured")
		return
	}
	p := plot.New()
	p.BackgroundColor = nil
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = style(size, ink).Font, style(size*0.92, ink).Font
		a.Label.TextStyle.Color, a.Tick.Label.Color = ink, ink
		a.LineStyle.Color, a.Tick.LineStyle.Color = dim, dim
		a.Padding, a.Label.Padding = 0, size*0.35
	}
	p.X.Label.Text, p.Y.Label.Text = c.X, c.Y
	p.Y.Min, p.Y.Max = 0, c.top()
	p.Y.Tick.Marker = ticks{}
	if len(c.Groups) > 0 {
		c.nominal(p, area, size)
	} else {
		p.X.Min, p.X.Max = c.reach()
		p.X.Tick.Marker = ticks{}
	}
	p.Add(content{c, size})
	p.Draw(area)
}

// nominal puts the names of the groups under the bars, slanted where they do not fit side
// by side.
func (c *Chart) nominal(p *plot.Plot, area draw.Canvas, size vg.Length) {
	p.X.Min, p.X.Max = -0.5, float64(len(c.Groups))-0.5
	p.X.Tick.Length = 0
	names := make([]plot.Tick, len(c.Groups))
	room := (area.Max.X - area.Min.X - 5*size) / vg.Length(len(c.Groups)) * 0.96
	wide := false
	for i, g := range c.Groups {
		names[i] = plot.Tick{Value: float64(i), Label: g}
		wide = wide || p.X.Tick.Label.Width(g) > room
	}
	if wide {
		for i := range names {
			names[i].Label = strings.ReplaceAll(names[i].Label, "\n", " ")
		}
		p.X.Tick.Label.Rotation = math.Pi / 7
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XRight, text.YTop
		p.X.Tick.Label.Font.Size = size * 0.85
	}
	p.X.Tick.Marker = plot.ConstantTicks(names)
}

// top returns the end of the y axis.
func (c *Chart) top() float64 {
	if c.Top > 0 {
		return c.Top
	}
	most, whisker := 0.0, 0.0
	for g := range c.Groups {
		sum := 0.0
		for i := range c.Bars {
			b := &c.Bars[i]
			v := b.value(g)
			if sum += v; !c.Stacked {
				sum = v
			}
			most = max(most, sum)
			if b.Hi != nil && b.Hi[g] > 0 { // false for NaN
				whisker = max(whisker, b.Hi[g])
			}
		}
	}
	for i := range c.Lines {
		for _, p := range c.Lines[i].Points {
			most = max(most, p.Y)
		}
	}
	if most == 0 {
		return 1
	}
	return max(most, min(whisker, 1.5*most)) * 1.12 // a very wide interval must not flatten the bars
}

// reach returns the range of the x axis.
func (c *Chart) reach() (from, to float64) {
	from, to = math.Inf(1), math.Inf(-1)
	for i := range c.Lines {
		for _, p := range c.Lines[i].Points {
			from, to = min(from, p.X), max(to, p.X)
		}
	}
	if from >= to {
		return from - 1, from + 1
	}
	return from, to
}

// value returns the value of a group; 0 where it has none.
func (b *Bars) value(g int) float64 {
	if g >= len(b.Values) || math.IsNaN(b.Values[g]) {
		return 0
	}
	return b.Values[g]
}

// legend names bars and lines where there are several kinds or the bars are parts of a
// whole. It returns its height.
func (c *Chart) legend(area draw.Canvas, size vg.Length) vg.Length {
	type entry struct {
		name   string
		colour color.Color
		letter rune
	}
	var all []entry
	for i := range c.Bars {
		all = append(all, entry{c.Bars[i].Name, c.Bars[i].Colour, c.Bars[i].Letter})
	}
	for i := range c.Lines {
		all = append(all, entry{c.Lines[i].Name, c.Lines[i].Colour, 0})
	}
	if len(all) < 2 && !c.Stacked {
		return 0
	}
	s := style(size, ink)
	s.YAlign = text.YCenter
	box, row := size*1.25, size*1.7
	x, y := area.Min.X, area.Max.Y-row/2
	for _, e := range all {
		w := box + size*0.4 + s.Width(e.name)
		if x > area.Min.X && x+w > area.Max.X {
			x, y = area.Min.X, y-row
		}
		rectangle(&area, e.colour, x, y-box/2, x+box, y+box/2)
		if e.letter != 0 {
			l := bold(style(size*0.95, on(e.colour)))
			l.XAlign, l.YAlign = text.XCenter, text.YCenter
			area.FillText(l, vg.Point{X: x + box/2, Y: y}, string(e.letter))
		}
		area.FillText(s, vg.Point{X: x + box + size*0.4, Y: y}, e.name)
		x += w + size*1.2
	}
	return area.Max.Y - y + row/2 + size*0.2
}

// rectangle draws a filled rectangle. Its thin edge keeps light colours apart.
func rectangle(area *draw.Canvas, c color.Color, x0, y0, x1, y1 vg.Length) {
	outline := corners(x0, y0, x1, y1)
	area.FillPolygon(c, outline)
	area.StrokeLines(draw.LineStyle{Color: dim, Width: 0.75 * pixel}, append(outline, outline[0]))
}

func corners(x0, y0, x1, y1 vg.Length) []vg.Point {
	return []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}}
}

// fold breaks a text at spaces so that no line is wider than room.
func fold(s text.Style, t string, room vg.Length) string {
	var lines []string
	at := ""
	for _, word := range strings.Fields(units.Bind(t)) {
		word = units.Unbind(word)
		switch {
		case at == "":
			at = word
		case s.Width(at+" "+word) > room:
			lines, at = append(lines, at), word
		default:
			at += " " + word
		}
	}
	return strings.Join(append(lines, at), "\n")
}

// ticks marks an axis with about five round numbers.
type ticks struct{}

// Ticks implements gonum's plot.Ticker.
func (ticks) Ticks(from, to float64) (out []plot.Tick) {
	if !(to > from) {
		return nil
	}
	raw := (to - from) / 5
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5, 10} {
		if unit*m >= raw {
			unit *= m
			break
		}
	}
	for i := math.Ceil(from / unit); i*unit <= to*(1+1e-9); i++ {
		out = append(out, plot.Tick{Value: i * unit, Label: round(i*unit, unit)})
	}
	return out
}

// round writes a tick's number with the digits that the unit between ticks needs.
func round(v, unit float64) string {
	if unit >= 1 {
		return units.Count(int64(math.Round(v)))
	}
	return units.Decimal(v, int(math.Ceil(-math.Log10(unit)-1e-9)))
}
