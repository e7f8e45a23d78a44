package lab

import (
	"fmt"
	"math"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/report"
)

// sides sets two results side by side; b may be nil.
func sides(a, b *sweep.Result) [][]string {
	rows := [][]string{{"measurement", ">baseline"}}
	if b != nil {
		rows[0] = append(rows[0], ">optimized", ">change")
	}
	add := func(name string, of func(*sweep.Result) string, change string) {
		row := []string{name, of(a)}
		if b != nil {
			row = append(row, of(b), change)
		}
		rows = append(rows, row)
	}
	var rate, epoch, wait, memory string
	if b != nil {
		c := &b.Against.Throughput
		rate, epoch = c.String(), reduction(c)
		wait = units.Points(b.Stats.DataShare() - a.Stats.DataShare())
		memory = less(a.Memory, b.Memory)
	}
	add("throughput (samples/s)", func(r *sweep.Result) string { return units.Rate(r.Rate.Value) }, rate)
	add("time of an epoch", func(r *sweep.Result) string { return r.EpochTime(r.Stats.Active()) }, epoch)
	add("step, median", func(r *sweep.Result) string { return units.Prose.Time(r.P50) }, "")
	add("step, 95 of 100 below", func(r *sweep.Result) string { return units.Prose.Time(r.P95) }, "")
	add("device utilisation", func(r *sweep.Result) string { return units.Prose.Percent(r.Stats.Utilisation()) }, "")
	add("wait for data", func(r *sweep.Result) string { return units.Prose.Percent(r.Stats.DataShare()) }, wait)
	add("device memory", func(r *sweep.Result) string { return sweep.Held(r.Memory) }, memory)
	return rows
}

// speedUp shows a change of throughput as a factor. A change that is not known for sure is
// that of the rates, without an interval.
func speedUp(c *stats.Change, a, b *sweep.Result) string {
	if c.Answer == stats.Unknown {
		return units.Prose.Ratio(units.Rough(b.Rate.Value / a.Rate.Value))
	}
	return sweep.SpeedUp(c, false)
}

// reduction says how much less time a sample takes, with the interval, where the time
// changed for sure.
func reduction(c *stats.Change) string {
	if c.Answer != stats.Different {
		return c.String()
	}
	e := report.Reduction(c)
	return fmt.Sprintf("%s less (%s)", units.Prose.PercentOf(e), units.Prose.PercentRange(e))
}

// less says how much less or more memory it is.
func less(before, after int64) string {
	switch s := saved(before, after); {
	case before <= 0 || after <= 0:
		return "-"
	case math.Abs(s) < 0.0005:
		return "the same"
	case s < 0:
		return units.Prose.Percent(-s) + " more"
	default:
		return units.Prose.Percent(s) + " less"
	}
}

// saved returns the share of memory that is saved, negative where it grew; 0 where that
// is not known.
func saved(before, after int64) float64 {
	if before <= 0 || after <= 0 {
		return 0
	}
	return 1 - float64(after)/float64(before)
}

// sizes shows two sizes of memory.
func sizes(before, after int64) string {
	if before <= 0 || after <= 0 {
		return "-"
	}
	return units.Prose.Bytes(before) + " -> " + units.Prose.Bytes(after)
}
