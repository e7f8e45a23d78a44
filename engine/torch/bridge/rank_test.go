//go:build linux

package bridge

import "testing"

// TestFollowed: of a step that the GPU ends about when the loop has enqueued it, the GPU followed the
// loop. Where it ends far later, the loop was ahead.
func TestFollowed(t *testing.T) {
	var sums totals
	next := func(step int32, at int64) {
		sums.next(&record{Kind: kindNext, Step: step, Start: at - 1, End: at, Flags: flagTrain})
	}
	run := func(step int32, at, enqueued, device int64) {
		next(step, at)
		sums.spend(&record{Kind: kindBody, Step: step, Start: at, End: at + enqueued, Flags: flagTrain})
		sums.computed(&record{Kind: kindDevice, Step: step, Start: at, End: at + device, Flags: flagTrain})
	}
	run(0, 0, 900, 900) // the first step counts in nothing
	run(1, 1000, 100, 105)
	run(2, 2000, 100, 400)
	if k := sums.sum; k.Device != 505 || k.Followed != 105 {
		t.Errorf("of %d ns on the GPU it followed the loop in %d, want 505 and 105", k.Device, k.Followed)
	}
}
