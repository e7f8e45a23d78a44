package report

import (
	"strings"
	"testing"

	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/trace"
)

// A device that seems slower says whose fault it is: where its threads are the host's and
// had no core, not its own.
func TestSlowerDevice(t *testing.T) {
	for _, c := range []struct {
		name    string
		starved float64 // percent
		says    string
	}{
		{"by itself", 0, "the device itself seems slower"},
		{"short of cores", 80, "the device seems slower"},
	} {
		m := &markdown{account: newAccount(scripts()["tuned"].run(t))}
		a, b := m.rows[0], m.rows[1]
		b.Breakdown.Busy *= 2
		at := m.tally(1)
		m.s.Gauges[trace.GaugeStarved] = []trace.Point{{T: (at.From + at.To) / 2, V: c.starved}}
		text := m.computeText(&a, &b, &evidence.Comparison{})
		waited := strings.Contains(text, "its threads waited for a core 80.0 % of the time, before 0.0 %")
		if !strings.HasPrefix(text, c.says) || waited != (c.starved > 0) {
			t.Errorf("%s: %q", c.name, text)
		}
	}
}
