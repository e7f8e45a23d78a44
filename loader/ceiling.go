package loader

import "dev.gpustall/engine/trace"

// The ceiling keeps l.hold full batches and serves them again and again. The caller
// holds at most l.hold-1 of them when it calls Next, so one is always free. Until that
// many are kept, and for the short batch at the end of an epoch, batches are loaded as
// usual. Every function here is called with mu held.

// full reports whether the next batch of e will be as large as batches get.
func (l *Loader) full(e *epoch) bool {
	full := min(l.k.BatchSize, l.info.Samples)
	return e.next(full) >= full
}

// saturated reports whether the next batch is the ceiling's to serve, so that no
// worker shall load it.
func (l *Loader) saturated(e *epoch) bool {
	return l.k.Ceiling && l.keep >= l.hold && l.full(e)
}

// serveKept returns a kept batch in the place of the next one, or nil.
func (l *Loader) serveKept() *slot {
	if l.opened <= l.current || l.flight.n > 0 || l.kept.n == 0 {
		return nil
	}
	e := &l.ep[l.current&1]
	if e.closed || !l.saturated(e) {
		return nil
	}
	s := l.kept.pop()
	e.cut(s, l.k.BatchSize, l.k.DropLast)
	l.number(s, l.current)
	s.Flags, s.Ready = trace.FlagCeiling, l.clock.Now()
	return s
}

// forgetKept makes ordinary slots of the kept ones.
func (l *Loader) forgetKept() {
	for _, s := range l.slots {
		s.keep = false
	}
	l.keep = 0
	for s := l.kept.pop(); s != nil; s = l.kept.pop() {
		s.state = free
		l.free.push(s)
	}
}
