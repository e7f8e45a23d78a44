//go:build linux

package bridge

import (
	"testing"
	"time"
)

func TestThreadsBeside(t *testing.T) {
	const ms = time.Millisecond
	before := map[int]time.Duration{7: 100 * ms, 8: 10 * ms, 9: 20 * ms}
	for _, c := range []struct {
		name  string
		after map[int]time.Duration
		want  time.Duration
	}{
		{"a pool of threads, one of them new", map[int]time.Duration{7: 300 * ms, 8: 110 * ms, 9: 100 * ms, 10: 60 * ms}, 140 * ms},
		{"only the thread that sends", map[int]time.Duration{7: 300 * ms, 8: 110 * ms}, 0},
		{"none", map[int]time.Duration{7: 300 * ms}, 0},
	} {
		if got := beside(7, before, c.after); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
