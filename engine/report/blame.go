package report

import (
	"cmp"
	"fmt"
	"slices"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// blame lists the batches that starved the device longest and the samples that took a
// worker longest.
func (m *markdown) blame() {
	m.heading(2, "Appendix F: the worst batches and samples")
	defer m.skipped()
	defer m.stores()
	b := attribution.Blames(m.s)
	switch none := len(b.Batches) == 0 && len(b.Samples) == 0; {
	case none && m.s.Meta.Imported != "":
		m.para("%s.", sentence(advice.NoBatches))
		return
	case none:
		m.para("No batch was late, and no sample was timed.")
		return
	}
	apart := slices.ContainsFunc(slices.Concat(b.Batches, b.Samples), func(r attribution.Blamed) bool { return len(r.What()) > nameRoom })
	name := func(r *attribution.Blamed) string {
		if apart {
			return "-"
		}
		return or(r.What(), "-")
	}
	if len(b.Batches) == 0 {
		m.para("No batch was late: the device never waited for one.")
	} else {
		rows := [][]string{{">step", "by", ">worker time", ">rank", ">no core", ">blocked", ">starved", "slowest sample", "note"}}
		for i := range b.Batches {
			r := &b.Batches[i]
			rows = append(rows, []string{units.Count(r.Step), r.Who(), units.Prose.Time(r.Took), or(r.Percentile(), "-"),
				partOf(r.Split, r.Split.Waiting), partOf(r.Split, r.Split.Blocked), units.Prose.Time(r.Starved), name(r), or(r.Note(), "-")})
		}
		m.table(filled(rows))
	}
	if len(b.Samples) > 0 {
		rows := [][]string{{">step", "by", ">took", ">rank", ">no core", ">blocked", ">starved", "sample", ">seen"}}
		for i := range b.Samples {
			r := &b.Samples[i]
			rows = append(rows, []string{units.Count(r.Step), r.Who(), units.Prose.Time(r.Took), or(r.Percentile(), "-"),
				partOf(r.Split, r.Split.Waiting), partOf(r.Split, r.Split.Blocked), units.Prose.Time(r.Starved), name(r), units.Count(r.Seen)})
		}
		m.table(filled(rows))
	}
	if apart {
		m.slowest(b)
	}
	m.para("The worst of the whole run, by the time in which the device waited for a batch, and by the time that a sample took in its slowest phase; cached batches and those of a change of settings are left out, and of the samples those of a worker's first batch in an epoch. Rank is the percentile among all batches, or among the slowest samples of all batches. No core is the part in which the worker could have run and had no core; a dash means that it was not measured in that batch. Seen is how often a sample was the slowest of its batch: one that is seen once may have met a busy host, one that is slow again and again is itself to blame. Paths are below the data set's folder.")
}

// stores says what was asked of object stores.
func (m *markdown) stores() {
	requests := int(m.s.Latest(trace.GaugeStoreRequests))
	if requests == 0 {
		return
	}
	text := fmt.Sprintf("The data came from an object store: %s, %s of them made again because they failed, brought %s",
		units.Counted(requests, "request", "requests"), units.Count(int64(m.s.Latest(trace.GaugeStoreRetries))), units.Prose.Bytes(int64(m.s.Latest(trace.GaugeStoreRead))))
	if cached := m.s.Latest(trace.GaugeStoreCached); cached > 0 {
		text += ", and " + units.Prose.Bytes(int64(cached)) + " came from the cache"
	}
	m.para("%s.", text)
}

// skipped lists the samples that were left out of their batches.
func (m *markdown) skipped() {
	n := m.s.Skipped()
	if n == 0 {
		return
	}
	m.heading(3, "Samples that were skipped")
	told := 0
	for _, note := range m.s.SkippedNotes() {
		m.line("- %s after the start: %s", units.Prose.Time(note.T), note.Text)
		told++
	}
	if n > int64(told) {
		m.line("- %s in all: each is named once, however many epochs skipped it, and at most 100 are.", units.Counted(n, "skip", "skips"))
	}
	m.line("")
}

// nameRoom is how long the names of samples may be, in bytes, to stand in the tables: they
// are what leads to a sample, so they are never cut.
const nameRoom = 14

// slowest lists each step's slowest sample by its whole name.
func (m *markdown) slowest(b attribution.Blame) {
	m.line("The slowest sample of each of these steps:")
	m.line("")
	rows := slices.Concat(b.Batches, b.Samples)
	slices.SortStableFunc(rows, func(a, b attribution.Blamed) int { return cmp.Compare(a.Step, b.Step) })
	rows = slices.CompactFunc(rows, func(a, b attribution.Blamed) bool { return a.Step == b.Step })
	for i := range rows {
		if what := rows[i].What(); what != "" {
			m.line("- step %s: %s", units.Count(rows[i].Step), what)
		}
	}
	m.line("")
}

// filled are the columns of a table in which anything stands.
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

// partOf is a part of a time that was split, or a dash where it was not.
func partOf(s trace.Split, ns int64) string {
	if s.Total() == 0 {
		return "-"
	}
	return units.Prose.Time(ns)
}
