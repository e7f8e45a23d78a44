package attribution

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"dev.gpustall/engine/trace"
)

// maxBuilds is the most batches that can be in flight: 64 workers times a
// prefetch_factor of 16.
const maxBuilds = 1024

// build is how one batch was made.
type build struct {
	batch  int32
	phases []phase
	sorted bool
	load   int64 // ns of worker time
}

type phase struct {
	start int64
	kind  trace.Kind
	track trace.TrackID
	mix   trace.Mix // how a fetch divides
}

func comparePhases(a, b phase) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.kind, b.kind), cmp.Compare(a.track, b.track))
}

// lane is what one loader track did apart from building.
type lane struct {
	build *build // the batch of its last phase
	born  int64  // start of its first span
	known bool
	waits []wait // by start
}

type wait struct {
	start, end int64
	cause      trace.Cause // startup or prefetch
}

func (l *lane) saw(start int64) {
	if !l.known || start < l.born {
		l.born, l.known = start, true
	}
}

// wait adds a KindBlocked or KindStart span, and drops those that end before cursor.
func (l *lane) wait(s *trace.Span, cursor int64) {
	l.saw(s.Start)
	if s.End <= cursor {
		return
	}
	w := wait{s.Start, s.End, trace.CauseStartup}
	if s.Kind == trace.KindBlocked {
		switch trace.BlockReason(s.Arg) {
		case trace.BlockPrefetch, trace.BlockSlot:
			w.cause = trace.CausePrefetch
		}
	}
	n := 0
	for n < len(l.waits) && l.waits[n].end <= cursor {
		n++
	}
	l.waits = slices.Delete(l.waits, 0, n)
	i := len(l.waits)
	for i > 0 && l.waits[i-1].start > w.start {
		i--
	}
	l.waits = slices.Insert(l.waits, i, w)
}

// at returns the wait at t; startup goes before prefetch. until is when that answer may change,
// which is end at the latest.
func (l *lane) at(t, end int64) (cause trace.Cause, ok bool, until int64) {
	until = end
	for _, w := range l.waits {
		if w.start >= end {
			break
		}
		switch {
		case w.start > t:
			until = min(until, w.start)
		case w.end > t:
			until = min(until, w.end)
			if !ok || w.cause == trace.CauseStartup {
				cause, ok = w.cause, true
			}
		}
	}
	return cause, ok, until
}

// phase adds a worker's phase to its batch.
func (a *Analyzer) phase(s *trace.Span) {
	l := &a.lanes[s.Track]
	l.saw(s.Start)
	if s.Batch < 0 {
		return
	}
	b := l.build
	if b == nil || b.batch != s.Batch {
		if b = a.builds[s.Batch]; b == nil {
			if n := len(a.freeBuilds); n > 0 {
				b, a.freeBuilds = a.freeBuilds[n-1], a.freeBuilds[:n-1]
				*b = build{phases: b.phases[:0]}
			} else {
				b = new(build)
			}
			b.batch, b.sorted = s.Batch, true
			a.builds[s.Batch] = b
		}
		l.build = b
	}
	p := phase{s.Start, s.Kind, s.Track, s.Mix()}
	if n := len(b.phases); n > 0 && comparePhases(b.phases[n-1], p) > 0 {
		b.sorted = false
	}
	b.phases = append(b.phases, p)
	b.load += s.End - s.Start
}

// turn is a sample of the queue: from start on, in_order made the ready batches wait for this one.
// The batch is -1 if the ready batches waited for none.
type turn struct {
	start int64
	batch int32
}

// sampled adds a sample of the queue.
func (a *Analyzer) sampled(s *trace.Span) {
	i := len(a.turns)
	for i > 0 && a.turns[i-1].start > s.Start {
		i--
	}
	a.turns = slices.Insert(a.turns, i, turn{s.Start, s.Batch})
}

// heldUp reports whether other batches waited for this one at t. until is when that answer may
// change.
func (a *Analyzer) heldUp(t int64, batch int32) (held bool, until int64) {
	i := sort.Search(len(a.turns), func(i int) bool { return a.turns[i].start > t })
	held = i > 0 && batch >= 0 && a.turns[i-1].batch == batch
	if i < len(a.turns) {
		return held, a.turns[i].start
	}
	return held, math.MaxInt64
}

// data charges [from, to), in which the step loop waited for a batch.
func (a *Analyzer) data(from, to int64, batch int32) {
	for from < to {
		held, until := a.heldUp(from, batch)
		until = min(until, to)
		if held {
			a.charge(from, until, batch, trace.CauseOrder)
		} else {
			a.building(from, until, batch)
		}
		from = until
	}
}

// building charges [from, to) to what the batch's worker was doing.
func (a *Analyzer) building(from, to int64, batch int32) {
	b := a.builds[batch]
	if batch < 0 || b == nil {
		cause := trace.CauseWorkers
		if batch < 0 {
			cause = trace.CauseDataLoader
		}
		a.charge(from, to, batch, cause)
		return
	}
	if !b.sorted {
		slices.SortFunc(b.phases, comparePhases)
		b.sorted = true
	}
	if first := b.phases[0]; from < first.start {
		until := min(to, first.start)
		a.notBegun(from, until, batch, first)
		from = until
	}
	i := sort.Search(len(b.phases), func(i int) bool { return b.phases[i].start > from }) - 1
	for ; from < to; i++ {
		until := to
		if i+1 < len(b.phases) {
			until = min(to, b.phases[i+1].start)
		}
		if until > from {
			a.during(&b.phases[i], from, until, batch)
			from = until
		}
	}
}

// notBegun charges the time before the awaited batch's first phase.
func (a *Analyzer) notBegun(from, to int64, batch int32, first phase) {
	if first.track == trace.TrackInline || first.track == trace.TrackPin { // otherwise it is a worker's
		a.during(&first, from, to, batch)
		return
	}
	l := &a.lanes[first.track]
	for len(l.waits) > 0 && l.waits[0].end <= from { // later calls ask about later times
		l.waits = l.waits[1:]
	}
	for from < to {
		cause, ok, until := l.at(from, to)
		if !ok {
			cause = trace.CauseWorkers
			if from < l.born {
				cause = trace.CauseStartup
				until = min(until, l.born)
			}
		}
		a.charge(from, until, batch, cause)
		from = until
	}
}

// during charges [from, to), in which the awaited batch's worker was in p.
func (a *Analyzer) during(p *phase, from, to int64, batch int32) {
	if p.mix == 0 {
		c, _ := p.kind.Cause()
		a.charge(from, to, batch, c)
		return
	}
	for k, part := range p.mix.Divide(to - from) {
		c, _ := k.Cause()
		a.charge(from, from+part, batch, c)
		from += part
	}
}
