package trace

import (
	"sync"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

func TestSpanIs32BytesWithoutPointers(t *testing.T) {
	if n := unsafe.Sizeof(Span{}); n != 32 {
		t.Errorf("a span takes %d bytes, want 32", n)
	}
}

func TestRingKeepsItsEndsApart(t *testing.T) {
	var r ring[Span]
	if d := unsafe.Offsetof(r.tail) - unsafe.Offsetof(r.dropped); d < line {
		t.Errorf("producer's and consumer's words are %d bytes apart, want %d", d, line)
	}
	if d := unsafe.Offsetof(r.head) - unsafe.Offsetof(r.mask); d < line {
		t.Errorf("the shared header and the producer's words are %d bytes apart, want %d", d, line)
	}
}

// TestTrackDropsTheNewest compares the ring with a model: it keeps what fits in order, and drops
// and counts what does not. It never drops what is already there.
func TestTrackDropsTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := newTrack(TrackCopy, rapid.IntRange(1, 20).Draw(t, "capacity"))
		size := len(tr.ring.buf)
		var want, got []Span
		var held, dropped int
		next := int32(0)
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			for range rapid.IntRange(0, 2*size).Draw(t, "records") {
				s := Span{Step: next, Track: TrackCopy}
				next++
				tr.Record(s)
				if held < size {
					want = append(want, s)
					held++
				} else {
					dropped++
				}
			}
			if rapid.Bool().Draw(t, "drain") {
				got = tr.ring.drain(got)
				held = 0
			}
		}
		got = tr.ring.drain(got)
		if len(got) != len(want) {
			t.Fatalf("%d spans came out, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("span %d is %v, want %v", i, got[i], want[i])
			}
		}
		if tr.Dropped() != int64(dropped) {
			t.Fatalf("%d drops counted, want %d", tr.Dropped(), dropped)
		}
	})
}

// Under the race detector: nothing is torn, reordered or lost without a count.
func TestTrackOneWriterOneReader(t *testing.T) {
	const n = 200_000
	tr := newTrack(Worker(3), 256)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range int64(n) {
			tr.Record(Span{Start: i, End: -i, Arg: uint32(i)})
		}
	})
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	var buf []Span
	last, seen := int64(-1), int64(0)
	check := func() {
		buf = tr.ring.drain(buf[:0])
		for _, s := range buf {
			if s.Start <= last || s.End != -s.Start || s.Arg != uint32(s.Start) || s.Track != Worker(3) {
				t.Fatalf("got %+v after %d", s, last)
			}
			last = s.Start
		}
		seen += int64(len(buf))
	}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		check()
	}
	check()
	if seen+tr.Dropped() != n {
		t.Errorf("%d spans seen and %d dropped of %d", seen, tr.Dropped(), n)
	}
}

func TestTrackBeyondTheLastDropsEverything(t *testing.T) {
	r := NewRecorder(&manual{}, 4)
	tr := r.Track(TrackID(NumTracks))
	tr.Record(Span{})
	if tr.Dropped() != 1 {
		t.Errorf("%d drops, want 1", tr.Dropped())
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	r := NewRecorder(NewClock(), 64)
	tr := r.Track(TrackStep)
	if n := testing.AllocsPerRun(1000, func() {
		start := r.Now()
		tr.Record(Span{Start: start, End: r.Now(), Kind: KindNext})
		r.Step(Step{Index: 1})
	}); n != 0 {
		t.Errorf("a record allocates %v times", n)
	}
}

// BenchmarkRecord is the cost of one span; withClock adds the two clock reads of
// a real one. The consumer's share is included: the ring is emptied as it fills.
func BenchmarkRecord(b *testing.B) {
	for _, withClock := range []bool{false, true} {
		name := "span"
		if withClock {
			name = "withClock"
		}
		b.Run(name, func(b *testing.B) {
			r := NewRecorder(NewClock(), 1<<14)
			tr := r.Track(TrackStep)
			buf := make([]Span, 0, 1<<14)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i&(1<<13-1) == 0 {
					buf = tr.ring.drain(buf[:0])
				}
				s := Span{Step: int32(i), Batch: 7, Kind: KindNext}
				if withClock {
					s.Start = r.Now()
					s.End = r.Now()
				}
				tr.Record(s)
			}
			if tr.Dropped() > 0 {
				b.Errorf("%d spans were dropped", tr.Dropped())
			}
		})
	}
}

// BenchmarkRecordContended has the collector drain on another core meanwhile.
func BenchmarkRecordContended(b *testing.B) {
	tr := newTrack(TrackStep, 1<<14)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var buf []Span
		for {
			select {
			case <-quit:
				return
			default:
				buf = tr.ring.drain(buf[:0])
			}
		}
	})
	for i := 0; b.Loop(); i++ {
		tr.Record(Span{Step: int32(i)})
	}
	close(quit)
	wg.Wait()
	b.ReportMetric(100*float64(tr.Dropped())/float64(b.N), "%dropped")
}
