package command

import (
	"math"
	"strings"
	"testing"
)

// The summary's closing lines write no number in powers of ten.
func TestSummaryText(t *testing.T) {
	text := (summary{Steps: 3820, Samples: 488528, Wall: 12345, SamplesPerSecond: 10180, Loss: 0.708, Top1: 0.739, Epochs: 2}).text()
	if want := "3,820 steps, 488,528 samples in 3 h 26 min: 10,180 samples/s, device utilisation 0.0 %, loss 0.708 and top-1 73.9 % (means of epoch 2)\n"; !strings.Contains(text, want) {
		t.Errorf("%s", text)
	}
	text = (summary{Steps: 64, Samples: 2048, Wall: 15.2, SamplesPerSecond: 1153, Stalls: map[string]number{"paused": 13.4}}).text()
	if want := "64 steps, 2,048 samples in 1.80 s, not counting 13.4 s in which training stood still: 1,153 samples/s"; !strings.Contains(text, want) {
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
