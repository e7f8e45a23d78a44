package sweep

import (
	"cmp"
	"fmt"
	"slices"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
)

// PerEpoch returns what a time over all steps makes in an epoch, in ns.
func (r *Result) PerEpoch(ns int64) int64 {
	if r.Stats.Samples == 0 {
		return 0
	}
	return int64(float64(ns) / float64(r.Stats.Samples) * float64(r.Epoch))
}

// EpochTime shows what a time over all steps makes in an epoch; "-" where its length is not known.
func (r *Result) EpochTime(ns int64) string {
	if r.Epoch == 0 {
		return "-"
	}
	return units.Prose.Time(r.PerEpoch(ns))
}

// share returns how much of an epoch's loading each worker has to do, in ns.
func (r *Result) share() int64 { return r.PerEpoch(r.Stats.Load) / int64(max(1, r.Workers)) }

// Workers says which num_workers is best among configurations that are otherwise equal,
// and why: by what an epoch takes to load and to compute. It is empty where fewer than two
// were measured.
func (r *Results) Workers() []string {
	best := r.Best()
	if best < 0 {
		return nil
	}
	line := r.family(best)
	if len(line) < 2 {
		return nil
	}
	at := slices.Index(line, best)
	b := &r.Rows[best]
	out := []string{fmt.Sprintf("num_workers=%d was the fastest that was measured: %s samples/s", b.Workers, units.Rate(b.Rate.Value))}
	out = append(out, "why: "+b.load())
	if at > 0 {
		less := &r.Rows[line[at-1]]
		out = append(out, fmt.Sprintf("with %d: %s; %d against it: %v",
			less.Workers, less.load(), b.Workers, r.compare(line[at-1], best)))
	}
	if at < len(line)-1 {
		more := &r.Rows[line[at+1]]
		c := r.compare(best, line[at+1])
		text := fmt.Sprintf("with %d: %s; it against %d: %v", more.Workers, more.load(), b.Workers, c)
		if c.Answer == stats.Different && c.Ratio < 1 {
			text += ", so that more workers are in the way"
		}
		out = append(out, text)
	} else {
		enough, _ := advice.Thresholds()
		if b.Stats.DataShare() >= enough {
			out = append(out, "it is the largest that was measured and the device still waits: measure more")
		}
	}
	for _, i := range line[:at] {
		if r.compare(best, i).Answer == stats.Same {
			out = append(out, fmt.Sprintf("num_workers=%d is the same within %s and takes less memory and fewer cores: prefer it",
				r.Rows[i].Workers, units.Prose.Percent(stats.DefaultMargin)))
			break
		}
	}
	return out
}

// compare relates the throughput of row b to that of a.
func (r *Results) compare(a, b int) *stats.Change {
	c := r.runs.Compare(a, b, stats.DefaultMargin)
	return &c.Throughput
}

// load says how long an epoch takes to load and to compute, and which is the longer.
func (r *Result) load() string {
	if r.Epoch == 0 {
		return fmt.Sprintf("the length of an epoch is not known, and the device waits for data %s of the time", units.Prose.Percent(r.Stats.DataShare()))
	}
	compute, all, each := r.PerEpoch(r.Stats.Busy), r.PerEpoch(r.Stats.Load), r.share()
	text := fmt.Sprintf("an epoch takes %s to load", units.Prose.Time(all))
	switch {
	case r.Workers == 0:
		text += " in the step loop itself"
	case r.Workers > 1:
		text += fmt.Sprintf(", %s for each worker", units.Prose.Time(each))
	}
	text += fmt.Sprintf(", and %s to compute", units.Prose.Time(compute))
	which := "loading is the longer, and the device waits for data %s of the time"
	if each <= compute {
		which = "computing is the longer, and the device waits for data %s of the time"
	}
	return text + ": " + fmt.Sprintf(which, units.Prose.Percent(r.Stats.DataShare()))
}

// family returns a row and the measured rows that differ from it in num_workers alone, in
// the order of their number of workers.
func (r *Results) family(of int) (rows []int) {
	for i := range r.Rows {
		if r.Rows[i].Measured() && r.but(i, "num_workers") == r.but(of, "num_workers") {
			rows = append(rows, i)
		}
	}
	slices.SortStableFunc(rows, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.Rows[a].Workers, r.Rows[b].Workers), cmp.Compare(r.Rows[b].Rate.Value, r.Rows[a].Rate.Value))
	})
	return slices.CompactFunc(rows, func(a, b int) bool { return r.Rows[a].Workers == r.Rows[b].Workers })
}

// but names the settings of a row, without one of them.
func (r *Results) but(i int, name string) string {
	all := slices.DeleteFunc(r.Plan.All(i), func(k knob.Setting) bool { return k.Name == name })
	slices.SortFunc(all, func(a, b knob.Setting) int { return cmp.Compare(a.Name, b.Name) })
	return title(all)
}
