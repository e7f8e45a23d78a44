package trace

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// Analyzer charges idle device time to causes as steps arrive. Feed gets every span once; the spans
// of a step arrive with the step or before it. It returns the steps that it completed, and the
// stalls found in them as spans of TrackStall. What it returns is valid until the next call.
type Analyzer interface {
	Feed(spans []Span, steps []Step) (done []Step, stalls []Span)
}

// Store keeps a session beyond the process. The collector makes one call at a time.
type Store interface {
	// Write adds all of b, or nothing when it fails.
	Write(b *Drained) error
	// KeepRoom sets some room aside, and MakeRoom gives it back for the last batch.
	KeepRoom()
	MakeRoom()
	// Finish writes how the run ended; Write is not called after it.
	Finish(o Outcome) error
	Close() error
	// StepReader reads what was written, at any time and from any goroutine.
	StepReader
}

// Finisher is an Analyzer that can account for the time after the last step.
type Finisher interface {
	Finish(end int64) (stalls []Span)
}

const (
	drainEvery = 16 * time.Millisecond
	storeEvery = 500 * time.Millisecond
)

// Collector moves spans from the recorder's rings through the analysis into the
// session, and from there into the file. It owns two goroutines: one drains, one
// writes, so that a slow disk never fills the rings.
type Collector struct {
	// Due says when to drain the rings. Where it is nil, that is every 16 ms. Set it before Start.
	Due <-chan time.Time

	rec     *Recorder
	session *Session
	analyze Analyzer
	store   Store

	quit     chan struct{}
	writes   chan *Drained // at most one in flight
	written  chan *Drained // the same ones back, with the rows that could not be written
	group    sync.WaitGroup
	stopOnce sync.Once
	stopErr  error

	drained Drained          // of the current drain
	last    int64            // Index of the last step that was drained
	refused int64            // steps that were dropped because their Index was not above last
	files   map[int32]string // names of samples' files that were handed to the store
	pending *Drained         // for the file, since the last write

	mu      sync.Mutex
	err     error
	unsaved Unsaved
}

// NewCollector returns a collector. Both a and st may be nil: without a, steps pass unanalysed;
// without st, nothing is stored.
func NewCollector(r *Recorder, s *Session, a Analyzer, st Store) *Collector {
	if st != nil {
		s.older = st
	}
	return &Collector{
		rec: r, session: s, analyze: a, store: st,
		quit: make(chan struct{}), writes: make(chan *Drained, 1), written: make(chan *Drained, 1),
		pending: new(Drained), last: math.MinInt64,
	}
}

// Start begins to drain, until Stop.
func (c *Collector) Start() {
	c.group.Go(c.drainLoop)
	if c.store != nil {
		c.store.KeepRoom()
		c.written <- new(Drained)
		c.group.Go(c.writeLoop)
	}
}

// Err returns what went wrong so far. The session can still be shown, but it or its file is
// incomplete.
func (c *Collector) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stop drains what is left and completes the session with o, whose Drops it fills in, and Ended
// where that is 0. It writes and closes the file and returns what went wrong. The writers of the
// tracks must have stopped. Later calls return the same.
func (c *Collector) Stop(o Outcome) error {
	c.stopOnce.Do(func() {
		close(c.quit)
		c.group.Wait()
		c.finish(o)
		c.stopErr = c.Err()
	})
	return c.stopErr
}

func (c *Collector) finish(o Outcome) {
	if o.Ended == 0 {
		o.Ended = c.rec.Now()
	}
	c.collect(func() error {
		c.drain()
		if s := c.rec.unheld.Load(); s != nil && int64(s.Index) > c.last {
			c.rec.steps.push(*s) // nobody records any more; the steps before it count with it
			c.drain()
		}
		if f, ok := c.analyze.(Finisher); ok {
			last := Drained{Now: o.Ended, Drops: c.drained.Drops, Spans: f.Finish(o.Ended)}
			c.keep(&last)
			c.session.Add(&last)
		}
		return nil
	})
	if c.store != nil {
		c.fail(Guard("store the session", func() error { return c.storeEnd(&o) }))
	}
	c.session.finish(o)
}

// storeEnd writes what is left and how the run ended. Where the disk has no room for all of it, it
// gives up the spans first. Steps and outcome have some room set aside.
func (c *Collector) storeEnd(o *Outcome) error {
	c.name()
	b := c.pending
	for _, ch := range []chan *Drained{c.writes, c.written} { // the other Drained is in one of the two, and is older
		select {
		case b = <-ch:
			b.append(c.pending)
		default:
		}
	}
	err := c.write(b)
	if err != nil {
		c.store.MakeRoom()
		if c.write(b) != nil {
			c.lose(b.Steps, nil)
		}
	}
	o.Drops = c.drops()
	c.mu.Lock()
	o.Unsaved = c.unsaved
	c.mu.Unlock()
	return errors.Join(err, c.store.Finish(*o), c.store.Close())
}

// lose counts rows that the file will never have, and publishes the count.
func (c *Collector) lose(steps []Step, spans []Span) {
	c.mu.Lock()
	c.unsaved.add(steps, spans)
	u := c.unsaved
	c.mu.Unlock()
	c.session.lost(u)
}

// collect runs f. When f fails, a note in the session says so.
func (c *Collector) collect(f func() error) {
	err := Guard("collect spans", f)
	if c.fail(err) {
		line, _, _ := strings.Cut(err.Error(), "\n")
		b := Drained{Now: c.rec.Now(), Drops: c.drops()}
		b.Notes = []Note{{b.Now, "error", line + "; what follows is not recorded"}}
		c.keep(&b)
		c.session.Add(&b)
	}
}

func (c *Collector) drainLoop() {
	due := c.Due
	if due == nil {
		tick := time.NewTicker(drainEvery)
		defer tick.Stop()
		due = tick.C
	}
	c.collect(func() error {
		for {
			select {
			case <-c.quit:
				return nil
			case <-due:
				c.drain()
				c.offer()
			}
		}
	})
}

// drain moves one round from the rings into the session.
func (c *Collector) drain() {
	b := &c.drained
	b.reset()
	c.rec.drain(b)
	c.refuse(b)
	if c.analyze != nil {
		done, stalls := c.analyze.Feed(b.Spans, b.Steps)
		b.Steps, b.Spans = append(b.Steps[:0], done...), append(b.Spans, stalls...)
	}
	c.keep(b)
	c.session.Add(b)
}

// refuse drops steps whose Index is not above that of the step before, because the digest and the
// file hold one step for each Index. Their time becomes part of the next step's window. They count
// as dropped, a note tells of the first. A counted step behind a gap is marked FlagLost.
func (c *Collector) refuse(b *Drained) {
	kept := b.Steps[:0]
	for _, s := range b.Steps {
		if int64(s.Index) > c.last {
			if s.Through > 0 && int64(s.Index) > c.last+1 {
				s.Flags |= FlagLost
			}
			c.last = int64(s.Index)
			kept = append(kept, s)
			continue
		}
		if c.refused == 0 {
			b.Notes = append(b.Notes, Note{b.Now, "error", fmt.Sprintf("step %d was recorded after step %d: left out, as all such steps are, and counted as dropped", s.Index, c.last)})
		}
		c.refused++
	}
	b.Steps, b.Drops = kept, c.drops()
}

// drops returns what the recorder dropped, with the steps that were refused.
func (c *Collector) drops() [NumTracks]int64 {
	d := c.rec.Drops()
	d[TrackStep] += c.refused
	return d
}

// What waits for the file at most: 16 MiB and 22 MiB.
const (
	maxPendingSpans = 1 << 19
	maxPendingSteps = 1 << 16
)

// keep adds a copy of b to what waits for the file.
func (c *Collector) keep(b *Drained) {
	if c.store != nil {
		c.bound()
		c.pending.append(b)
	}
}

// bound limits what waits for a file that cannot keep up: it gives up the oldest rows and counts
// them.
func (c *Collector) bound() {
	if p := c.pending; len(p.Spans) > maxPendingSpans {
		c.lose(nil, p.Spans)
		p.Spans = p.Spans[:0]
	}
	if p := c.pending; len(p.Steps) > maxPendingSteps {
		c.lose(p.Steps[:maxPendingSteps/2], nil)
		p.Steps = slices.Delete(p.Steps, 0, maxPendingSteps/2)
	}
}

// offer hands what is pending to the writer, if the writer is free. Rows that the writer could not
// write go first, because the file takes steps in order only.
func (c *Collector) offer() {
	if c.store == nil {
		return
	}
	select {
	case back := <-c.written:
		c.name()
		if !back.empty() {
			back.append(c.pending)
			c.pending.reset()
			c.pending, back = back, c.pending
			c.bound()
		}
		c.writes <- c.pending
		c.pending = back
	default:
	}
}

// name adds to what is pending where the worst samples lie, if that has changed.
func (c *Collector) name() {
	c.session.mu.Lock()
	files := c.session.worstFiles()
	c.session.mu.Unlock()
	if !maps.Equal(files, c.files) {
		c.files, c.pending.Files = files, files
	}
}

// writeLoop writes what it is handed, one transaction at a time and at most one every storeEvery.
// It hands it back empty, or with the rows to try again.
func (c *Collector) writeLoop() {
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.quit:
			return // storeEnd takes what is handed over from here on
		case b := <-c.writes:
			if err := c.write(b); c.fail(err) {
				line, _, _ := strings.Cut(err.Error(), "\n")
				c.rec.Note("error", line+"; the run goes on, its file is incomplete: make room")
			}
			select {
			case <-c.quit:
			case <-tick.C:
			}
			c.written <- b
		}
	}
}

// write stores b and empties it. When that fails, also by a panic, it gives up the spans and counts
// them. The rest is small and stays in b for another try.
func (c *Collector) write(b *Drained) error {
	err := Guard("store the session", func() error { return c.store.Write(b) })
	if err == nil {
		b.reset()
		return nil
	}
	c.lose(nil, b.Spans)
	b.Spans = b.Spans[:0]
	return err
}

// fail keeps the first error, and reports whether err is that one.
func (c *Collector) fail(err error) bool {
	if err == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.err = err
	return true
}

// Guard turns a panic of f into an error.
func Guard(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v\n%s", what, p, debug.Stack())
		}
	}()
	return f()
}
