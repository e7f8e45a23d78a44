package report

import (
	"fmt"
	"math"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
)

// The report mentions a change of the device's own time from these sizes on.
const (
	slowed      = 0.05 // where the change is certain
	perhapsSlow = 0.15 // where it may be chance
)

// computeText says that the device's own time for a sample changed between two rows,
// which no waiting explains. It is empty if no such change can be told.
func (a *account) computeText(before, after *attribution.SegmentStats, c *stats.Comparison) string {
	x, y := perSample(before), perSample(after)
	certain := c.Busy.Answer == stats.Different && c.Pairs == 0 // the answer of an A/B test is about other steps
	least := slowed
	if !certain {
		least = perhapsSlow
	}
	if x == 0 || y == 0 || math.Abs(y/x-1) < least || c.Busy.Answer == stats.Same {
		return ""
	}
	is, way, size := "seems", "slower", change(x, y)+", which may be chance"
	if y < x {
		way = "faster"
	}
	if certain {
		is, size = "was", units.Prose.Gain(c.Busy.Estimate())
	}
	cores := advice.SlowedMore(a.s, a.s.Tally(before.Segment.Index), a.s.Tally(after.Segment.Index))
	device := "the device itself"
	if cores != "" { // the host's cores have a part in it
		device = "the device"
	}
	text := fmt.Sprintf("%s %s %s: it computed %s for a sample where it had computed %s (%s); that is no waiting, so utilisation does not show it",
		device, is, way, timeOf(y), timeOf(x), size)
	changed := advice.Changed(before.Segment.Knobs, after.Segment.Knobs)
	switch {
	case has(changed, "batch_size"):
		text += "; the batch size changed, and with it the work of a launch"
	case a.s.Meta.DeviceKind == "cpu" && has(changed, "num_workers"):
		text += "; on the cpu device the workers and the training share the host's cores"
	}
	if cores != "" {
		text += "; " + cores
	}
	return text
}
