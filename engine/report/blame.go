package report

import (
	"cmp"
	"fmt"
	"slices"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// blame is the appendix about the worst of the data. It lists the batches that starved
// the device longest, the slowest samples, the requests to object stores, and the
// samples that were skipped.
type blame struct{ s *trace.Snapshot }

func (b *blame) write(d *markup.Document) {
	d.Heading(2, "Appendix F: the worst batches and samples")
	b.worst(d)
	b.stores(d)
	b.skipped(d)
}

// worst writes the tables of batches and of samples.
func (b *blame) worst(d *markup.Document) {
	worst := attribution.Blames(b.s)
	if len(worst.Batches) == 0 && len(worst.Samples) == 0 {
		if b.s.Meta.Imported != "" {
			d.Para("%s.", markup.Sentence(advice.NoBatches))
		} else {
			d.Para("No batch was late, and no sample was timed.")
		}
		return
	}
	all := slices.Concat(worst.Batches, worst.Samples)
	apart := slices.ContainsFunc(all, func(r attribution.Blamed) bool { return len(r.What()) > nameRoom })
	name := func(r *attribution.Blamed) string {
		if apart {
			return "-"
		}
		return cmp.Or(r.What(), "-")
	}
	cells := func(r *attribution.Blamed, last string) []string {
		return []string{units.Count(r.Step), r.Who(), units.Prose.Time(r.Took), cmp.Or(r.Percentile(), "-"),
			partOf(r.Split, r.Split.Waiting), partOf(r.Split, r.Split.Blocked), units.Prose.Time(r.Starved), name(r), last}
	}
	if len(worst.Batches) == 0 {
		d.Para("No batch was late: the device never waited for one.")
	} else {
		rows := [][]string{{">step", "by", ">took", ">pctl", ">no core", ">blocked", ">stall", "slowest sample", "note"}}
		for i := range worst.Batches {
			r := &worst.Batches[i]
			rows = append(rows, cells(r, cmp.Or(r.Note(), "-")))
		}
		d.Table(filled(rows))
	}
	if len(worst.Samples) > 0 {
		rows := [][]string{{">step", "by", ">took", ">pctl", ">no core", ">blocked", ">stall", "sample", ">seen"}}
		for i := range worst.Samples {
			r := &worst.Samples[i]
			rows = append(rows, cells(r, units.Count(r.Seen)))
		}
		d.Table(filled(rows))
	}
	if apart {
		namesOf(d, all)
	}
	d.Sentences(
		"The worst of the whole run, by the time in which the device waited for a batch,",
		"and by the time that a sample took in its slowest phase;",
		"cached batches and those of a change of settings are left out,",
		"and of the samples those of a worker's first batch in an epoch.",
		"Took is the worker's time; pctl its percentile among all batches, or among the slowest samples of all batches.",
		"Stall is how long the device waited meanwhile.",
		"No core is the part in which the worker could have run and had no core;",
		"a dash means that it was not measured in that batch.",
		"Seen is how often a sample was the slowest of its batch: one that is seen once may have met a busy host,",
		"one that is slow again and again is itself to blame.",
		"Paths are below the data set's folder.")
}

// nameRoom is how long, in bytes, the name of a sample may be to stand in the tables.
// Names lead to a sample, so they are never cut. Longer names stand below the tables.
const nameRoom = 14

// namesOf lists each step's slowest sample by its whole name.
func namesOf(d *markup.Document, rows []attribution.Blamed) {
	d.Line("The slowest sample of each of these steps:")
	d.Line("")
	slices.SortStableFunc(rows, func(a, b attribution.Blamed) int { return cmp.Compare(a.Step, b.Step) })
	rows = slices.CompactFunc(rows, func(a, b attribution.Blamed) bool { return a.Step == b.Step })
	for i := range rows {
		if what := rows[i].What(); what != "" {
			d.Line("- step %s: %s", units.Count(rows[i].Step), what)
		}
	}
	d.Line("")
}

// stores writes the requests to object stores.
func (b *blame) stores(d *markup.Document) {
	requests := int(b.s.Latest(trace.GaugeStoreRequests))
	if requests == 0 {
		return
	}
	retries, read := b.s.Latest(trace.GaugeStoreRetries), b.s.Latest(trace.GaugeStoreRead)
	text := fmt.Sprintf("The data came from an object store: %s, %s of them made again because they failed, brought %s",
		units.Counted(requests, "request", "requests"), units.Count(int64(retries)), units.Prose.Bytes(int64(read)))
	if cached := b.s.Latest(trace.GaugeStoreCached); cached > 0 {
		text += ", and " + units.Prose.Bytes(int64(cached)) + " came from the cache"
	}
	d.Para("%s.", text)
}

// skipped lists the samples that were left out of their batches.
func (b *blame) skipped(d *markup.Document) {
	n := b.s.Skipped()
	if n == 0 {
		return
	}
	d.Heading(3, "Samples that were skipped")
	told := 0
	for _, note := range b.s.SkippedNotes() {
		d.Line("- %s after the start: %s", units.Prose.Time(note.T), note.Text)
		told++
	}
	if n > int64(told) {
		d.Line("- %s in all: each is named once, however many epochs skipped it, and at most 100 are.", units.Counted(n, "skip", "skips"))
	}
	d.Line("")
}
