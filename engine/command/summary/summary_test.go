package summary

import (
	"strings"
	"testing"
)

func textOf(c counts, p pace, l learning, stalls map[string]number) string {
	s := Run{counts: c, pace: p, learning: l, losses: losses{Stalls: stalls}}
	return s.Text()
}

// TestSummaryText: the summary writes no number in powers of ten.
func TestSummaryText(t *testing.T) {
	text := textOf(counts{Steps: 3820, Samples: 488528, Epochs: 2}, pace{Wall: 12345, SamplesPerSecond: 10180}, learning{Loss: 0.708, Top1: 0.739}, nil)
	if want := "3,820 steps, 488,528 samples in 3 h 26 min: 10,180 samples/s, device utilisation 0.0 % over all steps, loss 0.708 and top-1 73.9 % (means of epoch 2)\n"; !strings.Contains(text, want) {
		t.Errorf("%s", text)
	}
	text = textOf(counts{Steps: 64, Samples: 2048}, pace{Wall: 15.2, SamplesPerSecond: 1153}, learning{}, map[string]number{"paused": 13.4})
	if want := "64 steps, 2,048 samples in 1.80 s, not counting 13.4 s of pauses and evaluations: 1,153 samples/s"; !strings.Contains(text, want) {
		t.Errorf("%s", text)
	}
	if text := textOf(counts{Steps: 1}, pace{}, learning{}, nil); !strings.Contains(text, "\n1 step, ") {
		t.Errorf("%s", text)
	}
	if text := textOf(counts{Steps: 1}, pace{}, learning{Loss: none, Top1: none}, nil); !strings.Contains(text, "loss -\n") {
		t.Errorf("%s", text)
	}
	text = textOf(counts{}, pace{}, learning{Loss: none, Top1: none}, nil) // stopped before its first step
	if !strings.Contains(text, "\nno step ended, so nothing was measured\n") || strings.Contains(text, "utilisation") {
		t.Errorf("%s", text)
	}
}

// TestUnsavedText: the summary says what could not be saved.
func TestUnsavedText(t *testing.T) {
	s := &Run{recording: recording{Unsaved: &unsaved{Steps: 3, Spans: 1200, From: 1.5, To: 9}}}
	if text := s.Text(); !strings.Contains(text, "unsaved  3 steps and 1,200 spans, of 1.50 s to 9.00 s after the start, are not in the session's file") {
		t.Errorf("%s", text)
	}
	s.Unsaved.Steps = 0
	if text := s.Text(); !strings.Contains(text, "unsaved  1,200 spans, of 1.50 s") {
		t.Errorf("%s", text)
	}
	if text := new(Run).Text(); strings.Contains(text, "unsaved") {
		t.Errorf("%s", text)
	}
}
