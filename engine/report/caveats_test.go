package report

import (
	"testing"

	"dev.gpustall/engine/trace"
)

// A label of the whole run does not list every segment of it.
func TestSegmentNames(t *testing.T) {
	m := &markdown{account: &account{s: &trace.Snapshot{Segments: make([]trace.Segment, 5)}}}
	for _, c := range []struct {
		of   []int32
		want string
	}{
		{[]int32{0, 1, 2, 3, 4}, "all 5 segments"},
		{[]int32{1, 2, 3, 4}, "segments #1, #2, #3, #4"},
		{[]int32{3}, "segment #3"},
	} {
		if got := m.segmentNames(c.of); got != c.want {
			t.Errorf("%v: %q, want %q", c.of, got, c.want)
		}
	}
}
