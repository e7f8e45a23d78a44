package trace

import (
	"slices"
	"testing"
)

// TestCount: no value is counted twice or lost, few as they are or many.
func TestCount(t *testing.T) {
	for _, n := range []int64{10, 5000} {
		var d Distribution
		for v := range n {
			d.Add(v * 100)
		}
		counts := make([]int64, 3)
		d.Count([]int64{0, n * 50, n * 75, n * 101}, counts) // a bucket's middle lies above some of its values
		if want := []int64{n / 2, n / 4, n - n/2 - n/4}; n == 5000 && (counts[0] < want[0]-25 || counts[0] > want[0]+25) || n == 10 && !slices.Equal(counts, []int64{5, 3, 2}) {
			t.Errorf("%d values: %v, want about %v", n, counts, want)
		}
		if sum := counts[0] + counts[1] + counts[2]; sum != n {
			t.Errorf("%d of %d values counted", sum, n)
		}
		below := make([]int64, 1)
		d.Count([]int64{n * 200, n * 300}, below)
		if below[0] != 0 {
			t.Errorf("%d values where there are none", below[0])
		}
	}
}
