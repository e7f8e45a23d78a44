package train

import "testing"

// TestTransition: a transition lasts until the queue is back at its level, or cannot be.
// Batches left over from the old settings are part of it.
func TestTransition(t *testing.T) {
	for _, c := range []struct {
		name                 string
		ready, flight, limit int
		levels               []int // of ready batches, after each delivery
		want                 int   // deliveries
	}{
		{"refilled", 3, 4, 8, []int{1, 2, 3, 8}, 3},
		{"never refilled", 3, 4, 2, []int{2, 0, 0, 0, 0, 0, 0}, 6},
		{"empty before, and after", 0, 2, 4, []int{0, 0, 0, 0, 0, 0, 0}, 6},
		{"left over", 5, 6, 2, []int{5, 5, 5, 5, 5}, 4},
		{"left over, and inline now", 3, 4, 0, []int{3, 2, 1, 0, 0, 0}, 5},
	} {
		var tr transition
		tr.begin(1, c.ready, c.flight, c.limit)
		got := 0
		for _, ready := range c.levels {
			tr.delivered()
			if got++; tr.refilled(ready) {
				break
			}
		}
		if got != c.want || !tr.refilled(c.levels[got-1]) {
			t.Errorf("%s: over after %d deliveries, want %d", c.name, got, c.want)
		}
	}
}
