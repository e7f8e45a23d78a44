package advice

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// undoRules take back changes that did not help.
var undoRules = []Rule{
	{Name: "undo", Back: true, Check: undo},
	{Name: "spare workers", Back: true, Check: spareWorkers},
	{Name: "repeated samples", Back: true, Check: repeatedSamples},
}

// undo goes back from a value that was measured to be slower than the one before it.
func undo(s *situation) (f Finding, ok bool) {
	i := slices.IndexFunc(s.tried.trials, func(t Trial) bool { return t.Segment == s.time.segment })
	if i < 0 {
		return f, false
	}
	t := &s.tried.trials[i]
	f = s.knobs.turn(t.Knob, t.From, fmt.Sprintf("%s %s measured %s throughput", t.Knob, t.To, &t.Change.Throughput))
	f.Share = 1
	return f, t.Outcome == Loss && t.To == s.knobs.value(t.Knob)
}

// repeatedSamples goes back to fewer workers where each worker yields all of an iterable data set.
func repeatedSamples(s *situation) (f Finding, ok bool) {
	fewer, why := repeats(s.session.Snapshot)
	f = s.knobs.turn("num_workers", fmt.Sprint(fewer), why+"; or have its __iter__ take a part by torch.utils.data.get_worker_info()")
	f.Share, f.Before = 1, true
	return f, why != "" && fewer < s.loader.workers
}

// repeats says that epochs became longer in proportion to the number of workers, and how many
// workers there were before. why is empty where they did not.
func repeats(s *trace.Snapshot) (fewer int, why string) {
	type epoch struct {
		workers int
		samples int64
	}
	var seen []epoch
	for i := range s.Segments {
		g := &s.Segments[i]
		if g.ByScript { // its data may be another set
			seen = nil
		}
		workers, err := strconv.Atoi(knob.ValueOf(g.Knobs, "num_workers"))
		for _, e := range s.Epochs {
			if e.Segment == g.Index && e.Complete && err == nil {
				seen = append(seen, epoch{workers, e.Totals.Samples})
			}
		}
	}
	if !s.Meta.Watched() || len(seen) == 0 {
		return 0, ""
	}
	least := slices.MinFunc(seen, func(a, b epoch) int { return a.workers - b.workers })
	for _, e := range slices.Backward(seen) {
		times := float64(e.workers) / float64(max(1, least.workers))
		if times > 1 && math.Abs(float64(e.samples)/float64(max(1, least.samples))/times-1) < 0.02 {
			return least.workers, fmt.Sprintf("with %d workers an epoch had %s samples, with %d %s: each worker yields all that the data set has",
				e.workers, units.Count(e.samples), least.workers, units.Count(least.samples))
		}
	}
	return 0, ""
}

// repeatedBefore is repeatedSamples for earlier settings than the judged ones.
func repeatedBefore(s *situation) (f Finding, ok bool) {
	fewer, why := repeats(s.session.Snapshot)
	return Finding{Evidence: why}, why != "" && fewer >= s.loader.workers
}

// spareWorkers takes back workers that gained nothing.
func spareWorkers(s *situation) (f Finding, ok bool) {
	fewer, ok := s.tried.measuredSame("num_workers")
	if !ok || fewer >= s.loader.workers {
		return f, false
	}
	f = s.knobs.turn("num_workers", fmt.Sprint(fewer), "it measured the same, and each worker holds memory")
	return f, !s.time.ceiling()
}

// takeTurns advises an A/B test of a value that looks better but is not known to be.
func (f *Finding) takeTurns(why string) {
	f.Remedy, f.Evidence, f.turns = fmt.Sprintf("let %s %s and %s take turns (%s)", f.Knob, f.From, f.Value, stats.Turns), why, true
}
