//go:build linux

package watch

import (
	"math"
	"testing"

	"dev.gpustall/engine/trace"
)

// TestWithoutCore: the run-queue wait of a training's threads counts as far as its loop ran or
// was ready to run.
func TestWithoutCore(t *testing.T) {
	before := trace.Rank{Body: 1000, Core: 500, Waiting: 100}
	for _, c := range []struct {
		name                string
		body, core, waiting int64 // after that
		share               float64
		threads             int
		want                float64
		counted             bool
	}{
		{"the loop's own", 100, 60, 20, 0, 4, 0.2, true},
		{"other threads', which it waits for while it runs", 100, 50, 0, 0.4, 4, 0.2, true},
		{"both: which is more", 100, 40, 20, 0.5, 4, 0.3, true},
		{"alone: other threads are nobody's loss", 100, 50, 5, 0.4, 1, 0.05, true},
		{"asleep with its batch: hardly any thread runs", 100, 1, 0, 0.9, 4, 0.009, true},
		{"more than there is", 100, 90, 120, 0.5, 4, 1, true},
		{"not counted since", 0, 0, 0, 0.5, 4, 0, false},
	} {
		now := trace.Rank{Body: before.Body + c.body, Core: before.Core + c.core, Waiting: before.Waiting + c.waiting}
		if got, counted := withoutCore(c.share, &before, &now, c.threads); math.Abs(got-c.want) > 1e-12 || counted != c.counted {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, got, counted, c.want, c.counted)
		}
	}
	// A loop whose time is not split may sleep, however long its threads wait when they are ready.
	if got, counted := withoutCore(0.75, &trace.Rank{Body: 10}, &trace.Rank{Body: 20}, 4); got != 0 || counted {
		t.Errorf("not measured: %v, %v", got, counted)
	}
}
