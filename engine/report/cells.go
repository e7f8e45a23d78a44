package report

import (
	"math"
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// A cell of a table shows "-" where there is no value, and notRecorded where an
// imported trace does not hold one.
const notRecorded = "not recorded"

// rate shows a row's samples a second.
func rate(r *attribution.SegmentStats) string {
	if math.IsNaN(r.SamplesPerSecond) {
		return notRecorded
	}
	return units.Rate(r.SamplesPerSecond) + "/s"
}

// deviceTime shows how long the device computes for a sample.
func deviceTime(r *attribution.SegmentStats) string {
	if r.Breakdown.Samples == 0 {
		return notRecorded
	}
	return timeOf(perSample(r))
}

// loadTime shows worker time, which an imported trace need not hold.
func loadTime(m *trace.Meta, ns int64) string {
	if ns == 0 && m.Imported != "" {
		return notRecorded
	}
	return units.Prose.Time(ns)
}

// share shows a share of a row's time.
func share(r *attribution.SegmentStats, v float64) string {
	if r.Steps == 0 {
		return "-"
	}
	return units.Prose.Percent(v)
}

// points shows the difference of two rows' shares.
func points(a, b *attribution.SegmentStats, difference float64) string {
	if a.Steps == 0 || b.Steps == 0 {
		return "-"
	}
	return units.Points(difference)
}

// partOf shows a part of a time that was split into its parts.
func partOf(s trace.Split, ns int64) string {
	if s.Total() == 0 {
		return "-"
	}
	return units.Prose.Time(ns)
}

// positive shows a time in ns that may be missing.
func positive(ns float64) string {
	if ns <= 0 {
		return "-"
	}
	return timeOf(ns)
}

// timeOf shows a time in ns.
func timeOf(ns float64) string { return units.Prose.Time(int64(math.Round(ns))) }

// change shows the change of a quantity whose interval is not known.
func change(a, b float64) string {
	if a <= 0 || b <= 0 {
		return "-"
	}
	return units.Prose.Gain(units.Rough(b / a))
}

// certain shows a change with the digits that its interval allows, where the interval is
// known. It marks a change from which a drift was taken out.
func certain(c *stats.Change, a, b float64) string {
	if c.Answer == stats.Unknown {
		return change(a, b)
	}
	return units.Prose.Gain(c.Estimate()) + c.Mark()
}

// Reduction returns the share of A's time that B saves; it is negative where B takes
// longer.
func Reduction(c *stats.Change) units.Estimate {
	saved := func(ratio float64) float64 { return 1 - 1/ratio }
	e := c.Estimate()
	return units.Estimate{Value: saved(e.Value), Lo: saved(e.Lo), Hi: saved(e.Hi)}
}

// filled leaves out the columns of a table that hold nothing but "-".
func filled(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for c := range rows[0] {
		if !slices.ContainsFunc(rows[1:], func(r []string) bool { return r[c] != "-" }) {
			continue
		}
		for i := range rows {
			out[i] = append(out[i], rows[i][c])
		}
	}
	return out
}
