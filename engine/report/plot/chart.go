// Package plot draws measurements as PNG pictures that read well at 1200 pixels. It
// draws bars of configurations, lines over time, and sheets of several such charts.
// What a reader must know about the numbers (emulated, synthetic, injected, …) stands
// in the picture itself. Colours are those of the screen's colour-blind theme, and a
// bar's letter says the same as its colour.
package plot

import (
	"image/color"
	"io"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"dev.gpustall/engine/base/units"
)

// Chart is one picture, or one panel of a Sheet: bars over named groups, or lines.
type Chart struct {
	Name   string // of its file, without the ending
	Title  string
	Labels string // what a reader must know about the numbers, as "emulated, injected"
	X, Y   string // what the axes show, with the unit
	Note   string // below the picture

	Groups  []string // the names under the bars, each in one line or several
	Bars    []Bars   // side by side in each group ...
	Stacked bool     // ... or on top of each other

	Lines []Line
	Marks []Mark

	Top float64 // the end of the y axis; 0: as high as the values need
}

// Bars is one bar in each group.
type Bars struct {
	Name   string
	Colour color.Color
	Letter rune      // stands in the bar where there is room; 0 for none
	Values []float64 // NaN where there is no value
	Lo, Hi []float64 // the ends of their intervals, NaN where one is not known; nil for none
	Texts  []string  // above the bars; nil for none
}

// Add adds the bar of the next group.
func (b *Bars) Add(value float64, text string) {
	b.Values, b.Texts = append(b.Values, value), append(b.Texts, text)
}

// AddEstimate adds the bar of the next group, with its interval.
func (b *Bars) AddEstimate(e units.Estimate, text string) {
	b.Add(e.Value, text)
	b.Lo, b.Hi = append(b.Lo, e.Lo), append(b.Hi, e.Hi)
}

// Line is a curve, or an area where it is filled.
type Line struct {
	Name   string
	Colour color.Color
	Points []Point
	Filled bool // down to the axis
	Dashed bool
}

// Point is one of a line, in units of the axes.
type Point struct{ X, Y float64 }

// Mark is a word at a place on the x axis.
type Mark struct {
	X    float64
	Text string
}

// Sheet is several charts in one picture.
type Sheet struct {
	Title  string
	Labels string
	Charts []*Chart
}

// Sizes of pictures, in pixels.
const (
	Width  = 1200
	height = 620 // of a chart alone
	panel  = 430 // of a row of a sheet
	head   = 56  // of a sheet, above its charts
)

// pixel is the length of a pixel in the units of the drawing.
const pixel = vg.Inch / vgimg.DefaultDPI

// Sizes of texts.
const (
	large = 16 * pixel // in a chart alone
	small = 13 * pixel // in a panel
)

// PNG writes the chart as a picture of its own.
func (c *Chart) PNG(w io.Writer) error {
	img, area := blank(height)
	c.draw(inset(area, 14*pixel), large)
	return encode(w, img)
}

// PNG writes the sheet: its charts in two columns.
func (s *Sheet) PNG(w io.Writer) error {
	rows := max(1, (len(s.Charts)+1)/2)
	img, area := blank(head + rows*panel)
	area = inset(area, 14*pixel)
	top := s.headline(area)
	area.Max.Y -= top
	tiles := draw.Tiles{Cols: 2, Rows: rows, PadX: 26 * pixel, PadY: 16 * pixel}
	for i, c := range s.Charts {
		if c.Labels == s.Labels { // they stand above all charts
			bare := *c
			bare.Labels = ""
			c = &bare
		}
		if len(s.Charts) == 1 {
			c.draw(area, large)
			break
		}
		at := tiles.At(area, i%2, i/2)
		if i == len(s.Charts)-1 && i%2 == 0 { // it has the last row for itself
			at.Max.X = area.Max.X
		}
		c.draw(at, small)
	}
	return encode(w, img)
}

// headline writes the title of a sheet and returns its height.
func (s *Sheet) headline(area draw.Canvas) vg.Length {
	return titles(area, large*1.15, s.Title, s.Labels) + 8*pixel
}

// blank returns a white picture of that height.
func blank(h int) (*vgimg.Canvas, draw.Canvas) {
	img := vgimg.NewWith(vgimg.UseWH(Width*pixel, vg.Length(h)*pixel), vgimg.UseDPI(vgimg.DefaultDPI))
	return img, draw.New(img)
}

func inset(c draw.Canvas, by vg.Length) draw.Canvas { return draw.Crop(c, by, -by, by, -by) }

func encode(w io.Writer, img *vgimg.Canvas) error {
	_, err := vgimg.PngCanvas{Canvas: img}.WriteTo(w)
	return err
}
