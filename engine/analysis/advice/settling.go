package advice

import (
	"fmt"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// settling describes a run whose first epochs differ from those since.
type settling struct {
	attribution.Settling
	left     bool  // they were among the steps to judge, and were left out ...
	from, to int32 // ... so that those steps are of these epochs
}

// settled returns the steps of t to judge, and how the run settled, or nil. It leaves out the steps
// before the run settled, because first epochs do not come again. If memory has too few of the
// later steps, all of t is judged.
func settled(s *trace.Snapshot, t *trace.Tally) (*trace.Tally, *settling) {
	x, ok := attribution.SettlingOf(s, t.Segment, moderate)
	if !ok {
		return t, nil
	}
	if t.First >= x.Step {
		return t, &settling{Settling: x}
	}
	var since trace.Tally
	from, to := x.Last, x.Last
	for i := range s.Recent {
		if st := &s.Recent[i]; st.Segment == t.Segment && st.Index >= x.Step && st.Index <= t.Last {
			since.Add(st)
			from, to = min(from, st.Epoch), st.Epoch
		}
	}
	if int(since.Steady.Steps) < enough(s) {
		return t, &settling{Settling: x}
	}
	return &since, &settling{x, true, from, to}
}

// judged names the epochs of the judged steps. It is empty where none was left out.
func (x *settling) judged() string {
	if x == nil || !x.left {
		return ""
	}
	return epochRange(x.from, x.to)
}

// epochRange names epochs as people count, from 1: "epoch 1", "epochs 2 and 3", "epochs 2 to 9".
func epochRange(from, to int32) string {
	switch {
	case from >= to:
		return fmt.Sprintf("epoch %d", to+1)
	case to == from+1:
		return fmt.Sprintf("epochs %d and %d", from+1, to+1)
	}
	return fmt.Sprintf("epochs %d to %d", from+1, to+1)
}

// firstEpochs is for first epochs that waited for data far more, or far less, than those since.
// If loading itself became cheaper, it says what was read or made once and then kept.
func firstEpochs(s *situation) (f Finding, ok bool) {
	x := s.time.settling
	if x == nil {
		return f, false
	}
	first, whose := epochRange(x.First, x.Until), "its"
	if x.Until > x.First {
		whose = "their"
	}
	f.Evidence = fmt.Sprintf("%s waited for data in %s of %s time, %s in %s", first,
		units.Prose.Percent(x.Before.DataShare()), whose, epochRange(x.Until+1, x.Last), units.Prose.Percent(x.Since.DataShare()))
	if x.left {
		f.Evidence += ", on which the advice rests"
	}
	const cold = ", so that what makes a first pass faster (shards, faster storage, a warm cache) helps only where each run starts cold"
	if !x.cheaper() {
		return f, true
	}
	f.Evidence += ": "
	from := s.session.First.Start
	to := from + x.Before.Wall
	once, known := s.session.fromStorage(from, to)
	again, _ := s.session.fromStorage(to, s.session.to)
	if known && once >= leastStorage && 10*again*float64(x.Before.Samples) <= once*float64(x.Since.Samples) {
		f.Evidence += fmt.Sprintf("~%s came from storage then, and from the page cache later", units.Prose.Bytes(int64(once)))
	} else {
		f.Evidence += "what was loaded then was in memory later, in the page cache or kept by the data set"
	}
	f.Evidence += cold
	return f, true
}

// cheaper reports whether the first epochs waited more and loading itself became cheaper since. At
// least half of the saved time must be computing or blocked time, because waits for a core depend
// on other processes.
func (x *settling) cheaper() bool {
	each := func(b *attribution.Breakdown) (all, own float64) {
		load, w := b.Load, b.Work.Batch.Of(b.Load)
		return float64(load) / float64(max(1, b.Samples)), float64(load-w.Waiting) / float64(max(1, b.Samples))
	}
	before, its := each(&x.Before)
	since, theirs := each(&x.Since)
	return x.Before.DataShare() > x.Since.DataShare() && before > since && 2*(its-theirs) >= before-since
}
