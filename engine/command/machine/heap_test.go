package machine

import (
	"testing"
)

// TestGCPercent: the garbage is garbageBytes. In a small heap it is as much as the memory in
// use. In a huge heap it is a tenth, or the collector would run all the time.
func TestGCPercent(t *testing.T) {
	for heap, want := range map[int64]int{0: 100, 10 << 20: 100, 48 << 20: 100, 192 << 20: 25, 480 << 20: 10, 64 << 30: 10} {
		if got := gcPercent(heap); got != want {
			t.Errorf("%d MiB: %d %%, want %d %%", heap>>20, got, want)
		}
	}
}
