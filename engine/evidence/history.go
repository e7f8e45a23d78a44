package evidence

import "time"

// History is what a session has learnt about its host.
type History struct {
	Longest time.Duration // the longest correlation time measured so far
}

// Learn takes note of a stretch. Stretches too short to show a correlation are left
// out.
func (h *History) Learn(m Stretch) {
	if m.Enough() {
		h.Longest = max(h.Longest, m.Step.Correlation)
	}
}
