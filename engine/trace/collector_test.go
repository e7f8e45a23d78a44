package trace

import (
	"errors"
	"iter"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// kept is a store in memory.
type kept struct {
	mu      sync.Mutex
	refuse  func() error // what Write fails with, if anything
	batch   Drained
	outcome Outcome
	closed  bool
}

func (k *kept) Write(b *Drained) error {
	k.mu.Lock()
	refuse := k.refuse
	k.mu.Unlock()
	if refuse != nil {
		if err := refuse(); err != nil {
			return err
		}
	}
	if n := len(k.batch.Steps); n > 0 && len(b.Steps) > 0 && b.Steps[0].Index <= k.batch.Steps[n-1].Index {
		return errors.New("steps out of order") // as the session file says
	}
	k.batch.append(b)
	return nil
}

func (k *kept) ReadSteps(from, to int32) iter.Seq2[*Step, error] {
	return stepList(k.batch.Steps).ReadSteps(from, to)
}

func (k *kept) FirstAfter(t int64) (int32, error) { return stepList(k.batch.Steps).FirstAfter(t) }

func (k *kept) KeepRoom() {}
func (k *kept) MakeRoom() {}

func (k *kept) Finish(o Outcome) error {
	k.outcome = o
	return nil
}

func (k *kept) Close() error {
	k.closed = true
	return nil
}

// fail makes Write fail; nil makes it succeed again.
func (k *kept) fail(refuse func() error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuse = refuse
}

// witness checks the promise to the analysis: a step arrives with everything that was recorded
// before it was announced.
type witness struct {
	t       *testing.T
	perStep map[int32]int
	want    int
	fed     int
}

func (w *witness) Feed(spans []Span, steps []Step) ([]Step, []Span) {
	for _, s := range spans {
		w.perStep[s.Step]++
	}
	var stalls []Span
	for i := range steps {
		s := &steps[i]
		if got := w.perStep[s.Index]; got != w.want {
			w.t.Errorf("step %d came with %d of its %d spans", s.Index, got, w.want)
		}
		s.Busy = int64(s.Index)
		stalls = append(stalls, Span{Start: s.Start, End: s.Start + 1, Step: s.Index, Kind: KindStall, Track: TrackStall})
	}
	w.fed += len(steps)
	return steps, stalls
}

func (w *witness) Finish(end int64) []Span {
	return []Span{{Start: end - 1, End: end, Step: -1, Kind: KindStall, Track: TrackStall}}
}

func TestCollectorHasEverySpanOfAStep(t *testing.T) {
	const workers, steps = 6, 3000
	r := NewRecorder(NewClock(), 0)
	s := NewSession(Meta{ID: "x"})
	st := new(kept)
	w := &witness{t: t, perStep: map[int32]int{}, want: workers + 1}
	c := NewCollector(r, s, w, st)
	c.Start()

	r.Segment(Segment{Index: 0})
	tokens := make([]chan int32, workers)
	var wg sync.WaitGroup
	done := make(chan struct{}, workers)
	for i := range workers {
		tokens[i] = make(chan int32)
		wg.Go(func() {
			tr := r.Track(Worker(i))
			for step := range tokens[i] {
				tr.Record(Span{Start: int64(step), End: int64(step) + 1, Step: step, Kind: KindRead})
				done <- struct{}{}
			}
		})
	}
	tr := r.Track(TrackStep)
	for step := range int32(steps) {
		for i := range workers {
			tokens[i] <- step
		}
		for range workers {
			<-done
		}
		tr.Record(Span{Step: step, Kind: KindNext})
		if step == 1000 {
			r.Segment(Segment{Index: 1, FirstStep: step})
		}
		seg := int32(0)
		if step >= 1000 {
			seg = 1
		}
		r.Step(Step{Index: step, Start: int64(step), Segment: seg})
		if snap := s.Snapshot(0, 0); len(snap.Recent) > 0 {
			last := snap.Recent[len(snap.Recent)-1]
			if int(last.Segment) >= len(snap.Segments) {
				t.Fatalf("step %d is shown before its segment %d", last.Index, last.Segment)
			}
		}
	}
	for i := range workers {
		close(tokens[i])
	}
	wg.Wait()
	r.Note("info", "done")
	r.Ops([]OpTime{{Name: "gemm"}})
	end := r.Now()
	if err := c.Stop(Outcome{Status: "finished", Ended: end, PeakBytes: 5}); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(Outcome{Status: "failed"}); err != nil {
		t.Fatal(err)
	}
	if w.fed != steps {
		t.Errorf("%d steps were fed, want %d", w.fed, steps)
	}
	stored := &Snapshot{Outcome: st.outcome, Recent: st.batch.Steps, Spans: st.batch.Spans, Segments: st.batch.Segments, Notes: st.batch.Notes, Ops: st.batch.Ops}
	for name, snap := range map[string]*Snapshot{"live": s.Snapshot(math.MinInt64, math.MaxInt64), "stored": stored} {
		stalls := 0
		for _, sp := range snap.Spans {
			if sp.Kind == KindStall {
				stalls++
			}
		}
		if len(snap.Recent) != steps || stalls != steps+1 || len(snap.Segments) != 2 || len(snap.Notes) != 1 || len(snap.Ops) != 1 {
			t.Errorf("%s: %d steps, %d stalls, %d segments, %d notes, %d ops", name, len(snap.Recent), stalls, len(snap.Segments), len(snap.Notes), len(snap.Ops))
		}
		if got := len(snap.Spans) - stalls; got != steps*(workers+1) {
			t.Errorf("%s: %d spans, want %d", name, got, steps*(workers+1))
		}
		if o := snap.Outcome; o.Status != "finished" || o.Ended != end || o.PeakBytes != 5 {
			t.Errorf("%s: outcome %+v", name, o)
		}
		if snap.Recent[100].Busy != 100 {
			t.Errorf("%s: the analysis of step 100 is missing", name)
		}
	}
}

// TestLastHandOver: what the last drain hands to a writer that has gone already is
// in the file all the same.
func TestLastHandOver(t *testing.T) {
	s := NewSession(Meta{ID: "x"})
	st := new(kept)
	c := NewCollector(NewRecorder(NewClock(), 0), s, nil, st) // not started: nobody writes
	c.writes <- &Drained{Steps: []Step{{Index: 0, End: 1}}, Spans: []Span{{End: 1}}}
	c.pending = &Drained{Steps: []Step{{Index: 1, Start: 1, End: 2}}}
	if err := c.Stop(Outcome{Status: "finished"}); err != nil {
		t.Fatal(err)
	}
	if b := &st.batch; len(b.Steps) != 2 || len(b.Spans) != 1 || !st.closed {
		t.Errorf("%d steps and %d spans, closed %v", len(b.Steps), len(b.Spans), st.closed)
	}
}

func TestCollectorCountsDrops(t *testing.T) {
	r := NewRecorder(&manual{}, 8)
	s := NewSession(Meta{})
	c := NewCollector(r, s, nil, nil) // not started: nothing drains meanwhile
	for range 20 {
		r.Track(Worker(1)).Record(Span{})
	}
	if err := c.Stop(Outcome{Status: "finished"}); err != nil {
		t.Fatal(err)
	}
	snap := s.Snapshot(0, math.MaxInt64)
	if got := snap.Outcome.Drops[Worker(1)]; got != 12 || len(snap.Spans) != 8 {
		t.Errorf("%d drops and %d spans, want 12 and 8", got, len(snap.Spans))
	}
}

type panicker struct{}

func (panicker) Feed([]Span, []Step) ([]Step, []Span) { panic("boom") }

func TestCollectorTurnsAPanicIntoAnError(t *testing.T) {
	r := NewRecorder(NewClock(), 8)
	s := NewSession(Meta{})
	st := new(kept)
	c := NewCollector(r, s, panicker{}, st)
	c.Start()
	for c.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if err := c.Stop(Outcome{Status: "failed"}); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("Stop says %v", err)
	}
	notes := s.Snapshot(0, 0).Notes
	if len(notes) != 1 || notes[0].Level != "error" || !strings.Contains(notes[0].Text, "boom") || strings.Contains(notes[0].Text, "\n") {
		t.Errorf("notes: %+v", notes)
	}
	if st.outcome.Status != "failed" || len(st.batch.Notes) != 1 {
		t.Errorf("stored: %+v, notes %+v", st.outcome, st.batch.Notes)
	}
}

// TestCollectorOutlivesItsFile: when the file can no longer be written, the run loses nothing but
// the file.
func TestCollectorOutlivesItsFile(t *testing.T) {
	r := NewRecorder(NewClock(), 8)
	s := NewSession(Meta{})
	st := new(kept)
	c := NewCollector(r, s, nil, st)
	c.Start()
	st.fail(func() error { return errors.New("x: the disk is full") })
	for i := int32(0); c.Err() == nil; i++ {
		r.Step(Step{Index: i})
		time.Sleep(time.Millisecond)
	}
	const last = 1 << 30
	r.Step(Step{Index: last})
	if err := c.Stop(Outcome{Status: "finished"}); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("Stop says %v", err)
	}
	snap := s.Snapshot(0, 0)
	if n := len(snap.Recent); n == 0 || snap.Recent[n-1].Index != last {
		t.Errorf("the steps after the failure are missing")
	}
	if len(snap.Notes) == 0 || snap.Notes[0].Level != "error" {
		t.Errorf("notes: %+v", snap.Notes)
	}
}

// TestWriteFailsBeforeTheEnd ends a run at each point at which a batch whose write
// failed can be: its steps are in the file or counted.
func TestWriteFailsBeforeTheEnd(t *testing.T) {
	const steps = 60
	for _, at := range []struct {
		name  string
		until func(c *Collector) bool // the run ends; nil: there is no writer
		again bool                    // what came back is offered again before
	}{
		{"not handed over", nil, false},
		{"with the writer", func(c *Collector) bool { return c.Err() != nil }, false},
		{"handed back", func(c *Collector) bool { return c.Err() != nil && len(c.written) == 1 }, false},
		{"offered again", func(c *Collector) bool { return c.Err() != nil && len(c.written) == 1 }, true},
	} {
		for _, repair := range []string{"room again", "still full", "panics"} {
			t.Run(at.name+", "+repair, func(t *testing.T) {
				st := &kept{}
				st.fail(func() error { return errors.New("no room") })
				r, s := NewRecorder(&manual{}, 0), NewSession(Meta{})
				c := NewCollector(r, s, nil, st)
				c.written <- new(Drained) // as Start does; the drains are this test's
				record := func(from int32) {
					for i := range int32(steps / 2) {
						r.Step(Step{Index: from + i, Start: int64(from+i) * 1e6, End: int64(from+i+1) * 1e6})
					}
					c.drain()
				}
				record(0)
				c.offer()
				if at.until != nil {
					c.group.Go(c.writeLoop)
					for !at.until(c) {
						time.Sleep(time.Millisecond)
					}
				}
				record(steps / 2)
				switch repair {
				case "room again":
					st.fail(nil)
				case "panics":
					st.fail(func() error { panic("no store") })
				}
				if at.again {
					c.offer()
					for len(c.writes) > 0 { // the writer has it
						time.Sleep(time.Millisecond)
					}
				}
				err := c.Stop(Outcome{Status: "finished", Ended: 1 << 41})
				if failed := repair != "room again" || at.until != nil; (err != nil) != failed {
					t.Errorf("the error is %v", err)
				}
				unsaved := s.Snapshot(0, 0).Outcome.Unsaved.Steps
				stored := int64(len(st.batch.Steps))
				if stored+unsaved != steps {
					t.Errorf("%d steps stored and %d unsaved, of %d", stored, unsaved, steps)
				}
				if repair == "room again" && unsaved > 0 {
					t.Errorf("%d steps are unsaved, though there is room", unsaved)
				}
			})
		}
	}
}

// Each step has an index of its own, whatever is recorded.
func TestRepeatedStepIsRefused(t *testing.T) {
	r := NewRecorder(NewClock(), 0)
	s := NewSession(Meta{})
	st := new(kept)
	c := NewCollector(r, s, nil, st)
	c.Start()
	for _, i := range []int32{0, 1, 1, 0, 2} {
		r.Step(Step{Index: i, Samples: 1})
	}
	if err := c.Stop(Outcome{Status: "finished"}); err != nil {
		t.Fatal(err)
	}
	snap := s.Snapshot(0, 0)
	if len(snap.Recent) != 3 || snap.Total.Steps != 3 || len(st.batch.Steps) != 3 {
		t.Errorf("%d steps in memory, %d in the digest, %d stored; want 3", len(snap.Recent), snap.Total.Steps, len(st.batch.Steps))
	}
	if got := snap.Outcome.Drops[TrackStep]; got != 2 {
		t.Errorf("%d steps count as dropped, want 2", got)
	}
	if len(snap.Notes) != 1 || !strings.Contains(snap.Notes[0].Text, "step 1 was recorded after step 1") {
		t.Errorf("the notes say %v", snap.Notes)
	}
}

// BenchmarkCollect is one drain of 64 workers' spans without analysis, per span.
func BenchmarkCollect(b *testing.B) {
	r := NewRecorder(NewClock(), 1<<12)
	s := NewSession(Meta{})
	c := NewCollector(r, s, nil, nil)
	tracks := make([]*Track, 64)
	for i := range tracks {
		tracks[i] = r.Track(Worker(i))
	}
	const each = 8 // 64*8 spans in 16 ms are 32,000 a second
	t := int64(0)
	for b.Loop() {
		for i, tr := range tracks {
			for j := range int64(each) {
				tr.Record(Span{Start: t + j*1000 + int64(i), End: t + j*1000 + int64(i) + 900, Kind: KindDecode})
			}
		}
		t += each * 1000
		c.drain()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(64*each), "ns/span")
	runtime.KeepAlive(s)
}

// TestPendingIsBounded: while nothing can be written, what waits is bounded, and
// what is given up is counted.
func TestPendingIsBounded(t *testing.T) {
	s := NewSession(Meta{})
	st := new(kept)
	c := NewCollector(NewRecorder(&manual{}, 0), s, nil, st) // not started: nobody writes
	const n = 3 * maxPendingSteps
	for i := range int32(n) {
		c.keep(&Drained{Steps: []Step{{Index: i, Start: int64(i), End: int64(i) + 1}}})
		if len(c.pending.Steps) > maxPendingSteps+1 {
			t.Fatalf("%d steps are waiting", len(c.pending.Steps))
		}
	}
	if err := c.Stop(Outcome{Status: "finished"}); err != nil {
		t.Fatal(err)
	}
	if u := s.Snapshot(0, 0).Outcome.Unsaved; u.Steps == 0 || u.Steps+int64(len(st.batch.Steps)) != n || u.From != 0 {
		t.Errorf("%d steps are stored and %+v unsaved, of %d", len(st.batch.Steps), u, n)
	}
}
