package trace

import (
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// witness checks the promise to the analysis: a step arrives with everything
// that was recorded before it was announced.
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
	st, err := CreateStore(filepath.Join(t.TempDir(), "x"+Ext), s.Meta())
	if err != nil {
		t.Fatal(err)
	}
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
	back, err := Open(st.Path())
	if err != nil {
		t.Fatal(err)
	}
	for name, snap := range map[string]*Snapshot{"live": s.Snapshot(minTime, maxTime), "stored": back.Snapshot(minTime, maxTime)} {
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
	st, err := CreateStore(filepath.Join(t.TempDir(), "x"+Ext), s.Meta())
	if err != nil {
		t.Fatal(err)
	}
	c := NewCollector(NewRecorder(NewClock(), 0), s, nil, st) // not started: nobody writes
	c.writes <- &batch{steps: []Step{{Index: 0, End: 1}}, spans: []Span{{End: 1}}}
	c.pending = &batch{steps: []Step{{Index: 1, Start: 1, End: 2}}}
	if err := c.Stop(Outcome{Status: "finished"}); err != nil {
		t.Fatal(err)
	}
	back, err := Open(st.Path())
	if err != nil {
		t.Fatal(err)
	}
	if snap := back.Snapshot(minTime, maxTime); len(snap.Recent) != 2 || len(snap.Spans) != 1 {
		t.Errorf("%d steps and %d spans", len(snap.Recent), len(snap.Spans))
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
	st, err := CreateStore(filepath.Join(t.TempDir(), "x"+Ext), Meta{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
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
	back, err := Open(st.Path())
	if err != nil {
		t.Fatal(err)
	}
	if o := back.Snapshot(0, 0); o.Outcome.Status != "failed" || len(o.Notes) != 1 {
		t.Errorf("stored: %+v, notes %+v", o.Outcome, o.Notes)
	}
}

// A file that can no longer be written costs the run nothing but the file.
func TestCollectorOutlivesItsFile(t *testing.T) {
	r := NewRecorder(NewClock(), 8)
	s := NewSession(Meta{})
	st, err := CreateStore(filepath.Join(t.TempDir(), "x"+Ext), Meta{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	c := NewCollector(r, s, nil, st)
	c.Start()
	if err := st.db.Close(); err != nil { // as a full disk would make every write fail
		t.Fatal(err)
	}
	for i := int32(0); c.Err() == nil; i++ {
		r.Step(Step{Index: i})
		time.Sleep(time.Millisecond)
	}
	r.Step(Step{Index: -7})
	if err := c.Stop(Outcome{Status: "finished"}); err == nil || !strings.Contains(err.Error(), st.Path()) {
		t.Errorf("Stop says %v", err)
	}
	snap := s.Snapshot(0, 0)
	if n := len(snap.Recent); n == 0 || snap.Recent[n-1].Index != -7 {
		t.Errorf("the steps after the failure are missing")
	}
	if len(snap.Notes) == 0 || snap.Notes[0].Level != "error" {
		t.Errorf("notes: %+v", snap.Notes)
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
