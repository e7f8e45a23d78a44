package panel

import (
	"strings"
	"testing"
)

// TestVerdictWraps: no line begins with a percent sign, and no name is changed.
func TestVerdictWraps(t *testing.T) {
	const text = "the device waits 7 % of 100 % for num_workers and 14 % for prefetch_factor"
	for w := 16; w < 80; w++ {
		lines := wrapWords(text, w)
		if got := strings.Join(lines, " "); got != text {
			t.Fatalf("%d columns: %q", w, got)
		}
		for _, l := range lines {
			if strings.HasPrefix(l, "%") {
				t.Errorf("%d columns: %q", w, lines)
			}
		}
	}
}
