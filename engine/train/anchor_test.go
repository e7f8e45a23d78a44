package train

import "testing"

// TestClampToHost: times are moved where the host saw them, in their order, and cut where
// there is no room for them.
func TestClampToHost(t *testing.T) {
	for name, c := range map[string]struct {
		at, want       [4]int64
		enqueued, seen int64
	}{
		"inside":                   {[4]int64{10, 20, 30, 40}, [4]int64{10, 20, 30, 40}, 10, 40},
		"early":                    {[4]int64{5, 15, 25, 35}, [4]int64{10, 20, 30, 40}, 10, 60},
		"late":                     {[4]int64{30, 40, 50, 60}, [4]int64{20, 30, 40, 50}, 10, 50},
		"early, seen at once":      {[4]int64{5, 15, 25, 35}, [4]int64{8, 18, 28, 38}, 8, 38},
		"longer than the host saw": {[4]int64{0, 10, 90, 100}, [4]int64{20, 20, 80, 90}, 20, 90},
		"late and too long":        {[4]int64{50, 60, 90, 150}, [4]int64{20, 20, 30, 90}, 20, 90},
		"long before":              {[4]int64{-100, -90, -10, 0}, [4]int64{20, 20, 80, 90}, 20, 90},
	} {
		clampToHost(&c.at, c.enqueued, c.seen)
		if c.at != c.want {
			t.Errorf("%s: %v, want %v", name, c.at, c.want)
		}
	}
}
