package command

import (
	"math"
	"strings"
	"testing"
)

// No figure of the closing lines is in powers of ten.
func TestFigures(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{rateText(0), "0"}, {rateText(226.42), "226.4"}, {rateText(999.4), "999.4"}, {rateText(999.96), "1,000"},
		{rateText(10180), "10,180"}, {rateText(1234567), "1,234,567"}, {rateText(number(math.NaN())), "-"},
		{timeText(0), "0 s"}, {timeText(1.5), "1.5 s"}, {timeText(49.63), "49.6 s"}, {timeText(99.96), "100 s"},
		{timeText(599), "599 s"}, {timeText(1000), "16:40"}, {timeText(12345), "3:25:45"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
	text := (summary{Steps: 3820, Samples: 488528, Wall: 12345, SamplesPerSecond: 10180, Loss: 0.708, Top1: 0.739, Epochs: 2}).text()
	if want := "3820 steps, 488528 samples in 3:25:45: 10,180 samples/s, device utilisation 0.0%, loss 0.708 and top-1 73.9% (means of epoch 2)\n"; !strings.Contains(text, want) {
		t.Errorf("%s", text)
	}
	if text := (summary{Steps: 1}).text(); !strings.Contains(text, "\n1 step, ") {
		t.Errorf("%s", text)
	}
	if text := (summary{Steps: 1, Loss: number(math.NaN()), Top1: number(math.NaN())}).text(); !strings.Contains(text, "loss -\n") {
		t.Errorf("%s", text)
	}
	text = (summary{Loss: number(math.NaN()), Top1: number(math.NaN())}).text() // stopped before its first step
	if !strings.Contains(text, "\nno step ended, so nothing was measured\n") || strings.Contains(text, "utilisation") {
		t.Errorf("%s", text)
	}
}
