package command

import (
	"testing"

	"dev.gpustall/engine/report/plot"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// TestColours: pictures and the colour-blind screen show a cause in one colour.
func TestColours(t *testing.T) {
	for i := range trace.NumCauses {
		c := trace.Cause(i)
		if want := (canvas.Series + canvas.Hue(c.Info().Colour)).Xterm(); plot.Xterm(c) != want {
			t.Errorf("%v is colour %d in pictures, %d on the screen", c, plot.Xterm(c), want)
		}
	}
	if want := canvas.Compute.Xterm(); plot.XtermComputing != want {
		t.Errorf("computing is colour %d in pictures, %d on the screen", plot.XtermComputing, want)
	}
}
