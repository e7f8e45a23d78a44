package attribution

import (
	"sort"

	"dev.gpustall/engine/trace"
)

// The window reaches back from the newest step. It is as long as the longer of these two, but does
// not reach into an earlier segment. Verdict, gauges, breakdown and predictions are about the
// window.
const (
	WindowTime  = int64(5e9) // ns
	WindowSteps = 50

	WindowMost = 4096 // the most steps of a window: 5 s of steps of 1.2 ms
)

// Window picks the window's steps among the newest of a snapshot.
func Window(s *trace.Snapshot) []trace.Step {
	steps := s.Recent
	n := len(steps)
	if n == 0 {
		return nil
	}
	last := &steps[n-1] // its segment is the newest that has steps
	lo := sort.Search(n, func(i int) bool { return steps[i].Segment >= last.Segment })
	for i := range s.Segments {
		if g := &s.Segments[i]; g.Index == last.Segment && steps[lo].Index <= g.FirstStep && lo+int(g.TransitionSteps) < n {
			lo += int(g.TransitionSteps)
		}
	}
	from := n
	for from > lo && n-from < WindowMost && (n-from < WindowSteps || steps[from].Start > last.End-WindowTime) {
		from--
	}
	return steps[from:]
}
