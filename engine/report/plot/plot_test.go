package plot

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"testing"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

func drawn(t *testing.T, c *Chart) image.Image {
	t.Helper()
	var b bytes.Buffer
	if err := c.PNG(&b); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// tallest returns the length of the longest run of a colour in any column of pixels of a
// part of a picture.
func tallest(img image.Image, c color.RGBA, fromX, toX int) (most int) {
	for x := fromX; x < toX; x++ {
		run := 0
		for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
			if color.RGBAModel.Convert(img.At(x, y)) == c {
				run++
			} else {
				run = 0
			}
			most = max(most, run)
		}
	}
	return most
}

// TestBars: bars are as high as their values, and the picture has their label.
func TestBars(t *testing.T) {
	c := &Chart{Title: "T", Y: "samples/s", Groups: []string{"a", "b", "c"}, Bars: []Bars{{
		Name: "x", Colour: Blue, Values: []float64{100, 300, math.NaN()}, Texts: []string{"100", "300", "-"},
	}}}
	img := drawn(t, c)
	if img.Bounds().Dx() != Width {
		t.Errorf("%d pixels wide", img.Bounds().Dx())
	}
	low, high := tallest(img, Blue, 0, Width/3), tallest(img, Blue, Width/3, 2*Width/3)
	if ratio := float64(high) / float64(low); math.Abs(ratio-3) > 0.05 {
		t.Errorf("bars of 1 to 3 are %d and %d pixels high", low, high)
	}
	if none := tallest(img, Blue, 3*Width/4, Width); none > 0 {
		t.Errorf("a bar of %d pixels without a value", none)
	}
	vermilion := func(img image.Image) int { return tallest(img, Vermilion, Width/2, Width) }
	if vermilion(img) != 0 {
		t.Error("a label without one")
	}
	c.Labels = "emulated, injected"
	if vermilion(drawn(t, c)) == 0 {
		t.Error("the label is not in the picture")
	}
}

// TestStalls: the shares of a stack are its heights, in the causes' own colours.
func TestStalls(t *testing.T) {
	var r Row
	r.Name = "A"
	r.Stats.Steps, r.Stats.Wall, r.Stats.Busy = 10, 1000, 400
	r.Stats.Stall[trace.CauseDecode], r.Stats.Stall[trace.CauseHost] = 500, 100
	c := (&Rows{Rows: []Row{r}}).Stalls()
	for i := range c.Bars {
		c.Bars[i].Letter = 0 // which interrupts the colour
	}
	img := drawn(t, c)
	busy := float64(tallest(img, Computing, Width/4, Width))
	for cause, want := range map[trace.Cause]float64{trace.CauseDecode: 500.0 / 400, trace.CauseHost: 100.0 / 400} {
		if got := float64(tallest(img, Cause(cause), Width/4, Width)) / busy; math.Abs(got-want) > 0.03 {
			t.Errorf("%v is %.3f of computing, want %.3f", cause, got, want)
		}
	}
}

// TestAlone: the legend names the part of a stack that has only one.
func TestAlone(t *testing.T) {
	r := Row{Name: "A"}
	r.Stats.Steps, r.Stats.Wall, r.Stats.Busy = 10, 1000, 1000
	c := (&Rows{Rows: []Row{r}}).Stalls()
	if c.Bars[0].Letter = 0; len(c.Bars) != 1 || tallest(drawn(t, c), Computing, 0, Width/8) == 0 {
		t.Errorf("%d parts, and the legend lacks computing", len(c.Bars))
	}
}

func TestRound(t *testing.T) {
	for _, tt := range []struct {
		from, to float64
		want     []string
	}{
		{0, 100, []string{"0", "20", "40", "60", "80", "100"}},
		{0, 1.1, []string{"0.0", "0.5", "1.0"}},
		{0, 12000, []string{"0", "5,000", "10,000"}},
		{0, 0.012, []string{"0.000", "0.005", "0.010"}},
		{3, 3, nil},
	} {
		got := ticks{}.Ticks(tt.from, tt.to)
		if len(got) != len(tt.want) {
			t.Errorf("%v to %v: %v, want %v", tt.from, tt.to, got, tt.want)
			continue
		}
		for i := range got {
			if got[i].Label != tt.want[i] {
				t.Errorf("%v to %v: %q, want %q", tt.from, tt.to, got[i].Label, tt.want[i])
			}
		}
	}
}

// TestTop: a very wide interval does not flatten the bars.
func TestTop(t *testing.T) {
	c := (&Rows{Rows: []Row{{Rate: units.Estimate{Value: 10, Lo: 1, Hi: 1000}}}}).Throughput()
	c.Bars[0].Values, c.Bars[0].Lo, c.Bars[0].Hi = []float64{10}, []float64{1}, []float64{1000}
	if top := c.top(); top < 15 || top > 20 {
		t.Errorf("the axis ends at %v", top)
	}
}
