package loader

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"dev.gpustall/engine/trace"
)

// record runs a loader to its end and returns its spans by track, each in order.
// step is called after each batch, before its release.
func record(t *testing.T, o Options, step func(l *Loader, b *Batch)) map[trace.TrackID][]trace.Span {
	t.Helper()
	o.Recorder = trace.NewRecorder(trace.NewClock(), 1<<15)
	l := open(t, o)
	for {
		b, err := l.Next(soon(t))
		if errors.Is(err, ErrEnd) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if step != nil {
			step(l, b)
		}
		b.Release()
	}
	l.Close()
	return drained(t, o.Recorder)
}

// drained returns what a closed loader has recorded, by track.
func drained(t *testing.T, rec *trace.Recorder) map[trace.TrackID][]trace.Span {
	t.Helper()
	session := trace.NewSession(trace.Meta{})
	c := trace.NewCollector(rec, session, nil, nil)
	c.Start()
	if err := c.Stop(trace.Outcome{}); err != nil {
		t.Fatal(err)
	}
	tracks := map[trace.TrackID][]trace.Span{}
	for _, s := range session.Snapshot(0, 1<<62).Spans {
		tracks[s.Track] = append(tracks[s.Track], s)
	}
	for id, spans := range tracks {
		slices.SortStableFunc(spans, func(a, b trace.Span) int { return cmp.Compare(a.Start, b.Start) })
		for i, s := range spans {
			if s.End < s.Start || i > 0 && s.Start < spans[i-1].End {
				t.Errorf("track %d: span %+v overlaps the one before", id, s)
			}
		}
	}
	for id, n := range rec.Drops() {
		if n > 0 {
			t.Errorf("track %d dropped %d", id, n)
		}
	}
	return tracks
}

// count counts the spans of a kind that satisfy all conditions, on worker tracks.
func count(tracks map[trace.TrackID][]trace.Span, kind trace.Kind, is ...func(trace.Span) bool) (n int) {
	for id, spans := range tracks {
		for _, s := range spans {
			ok := id.IsWorker() && s.Kind == kind
			for _, f := range is {
				ok = ok && f(s)
			}
			if ok {
				n++
			}
		}
	}
	return n
}

func ofBatch(n int32) func(trace.Span) bool { return func(s trace.Span) bool { return s.Batch == n } }
func injected(s trace.Span) bool            { return s.Flags&trace.FlagInjected != 0 }
func longer(d time.Duration) func(trace.Span) bool {
	return func(s trace.Span) bool { return s.End-s.Start >= int64(d) }
}

// TestSpansOfABatch: the phases of a batch fill its time on the track without gaps,
// in a bounded number of spans.
func TestSpansOfABatch(t *testing.T) {
	for _, workers := range []int{0, 2} {
		loads := map[int32]int64{}
		tracks := record(t, Options{Dataset: &numbers{samples: 1024}, Epochs: 1, Hold: 2, Knobs: Knobs{
			BatchSize: 256, InOrder: true, NumWorkers: workers,
		}}, func(_ *Loader, b *Batch) { loads[b.Seq] = b.Load })
		if workers == 0 && len(tracks[trace.TrackInline]) == 0 || workers > 0 && len(tracks[trace.Worker(1)]) == 0 {
			t.Errorf("%d workers: tracks are missing", workers)
		}
		for seq, load := range loads {
			var kinds [trace.NumKinds]int
			var first, last, sum int64
			n := 0
			for id, spans := range tracks {
				if !id.IsWorker() {
					continue
				}
				for _, s := range spans {
					if s.Batch != seq {
						continue
					}
					if n == 0 {
						first = s.Start
					}
					kinds[s.Kind]++
					sum += s.End - s.Start
					last = s.End
					n++
				}
			}
			if n < 3*8+1 || n > 3*16+2+10 { // 10 for samples that a busy machine made slow
				t.Errorf("batch %d: %d spans", seq, n)
			}
			for _, k := range []trace.Kind{trace.KindRead, trace.KindDecode, trace.KindTransform, trace.KindCollate} {
				if kinds[k] == 0 {
					t.Errorf("batch %d: no %v", seq, k)
				}
			}
			if sum != last-first {
				t.Errorf("batch %d: gaps of %d ns", seq, last-first-sum)
			}
			if load < sum {
				t.Errorf("batch %d: Load %d ns, its spans %d ns", seq, load, sum)
			}
		}
	}
}

// long is what a sample takes that is to be the slowest one, also where others lose their core for a while.
const long = 300 * time.Millisecond

func TestSlowSampleHasItsOwnSpan(t *testing.T) {
	set := &numbers{samples: 64, onRead: func(_ context.Context, i int) error {
		if i == 37 {
			time.Sleep(long)
		}
		return nil
	}}
	tracks := record(t, Options{Dataset: set, Epochs: 1, Knobs: Knobs{BatchSize: 64, InOrder: true}}, nil)
	if n := count(tracks, trace.KindRead, longer(long)); n != 1 {
		t.Errorf("%d reads of %v, want 1", n, long)
	}
	if n := count(tracks, trace.KindRead); n < 17 { // 16 chunks, one of them split
		t.Errorf("%d reads", n)
	}
}

// TestSlowestPiece: each batch says who built it, and which sample took that worker longest. It
// also says in which phase and, if measured, what the thread did meanwhile.
func TestSlowestPiece(t *testing.T) {
	set := &numbers{samples: 64, onCode: func(i int) error {
		if i == 37 {
			time.Sleep(long)
		}
		return nil
	}}
	for _, c := range []struct {
		knobs  Knobs
		worker trace.TrackID
	}{
		{Knobs{BatchSize: 32, InOrder: true}, trace.TrackInline},
		{Knobs{BatchSize: 32, InOrder: true, NumWorkers: 1, PrefetchFactor: 2}, trace.Worker(0)},
	} {
		var built []trace.Built
		record(t, Options{Dataset: set, Epochs: 1, Knobs: c.knobs}, func(_ *Loader, b *Batch) { built = append(built, b.Built) })
		if len(built) != 2 || built[0].Worker != c.worker || built[1].Worker != c.worker {
			t.Fatalf("%+v", built)
		}
		if got := built[1].Slowest; got.Sample != 37 || got.Kind != trace.KindDecode || got.Took < int64(long) {
			t.Errorf("slowest %+v", got)
		}
		if s := built[1].Slowest.Split; s.Total() > 0 && (s.Bound() != trace.BoundIO || s.Total() < int64(long*19/20)) {
			t.Errorf("a sleep is split %+v", s)
		}
		// The batch's memory, or its collation, may take longer than any of its samples.
		if got := built[0].Slowest; got.Sample == 37 {
			t.Errorf("without a slow sample: %+v", got)
		}
	}
	whole := Knobs{BatchSize: 32, InOrder: true, NumWorkers: 1, PrefetchFactor: 2, Inject: Inject{Straggler: 1, Delay: 20 * time.Millisecond}}
	record(t, Options{Dataset: &numbers{samples: 32}, Epochs: 1, Knobs: whole}, func(_ *Loader, b *Batch) {
		if p := &b.Built.Slowest; p.OfSample() || p.Took < int64(20*time.Millisecond) {
			t.Errorf("a delay of the whole batch is blamed on a sample: %+v", p)
		}
	})
}

func TestInjectedIsLabelled(t *testing.T) {
	on := Knobs{BatchSize: 4, InOrder: true, NumWorkers: 2, Inject: Inject{
		Read: 2 * time.Millisecond, CPU: time.Millisecond, Straggler: 2, Delay: 5 * time.Millisecond,
	}}
	off := on
	off.Inject = Inject{}
	flags := map[int32]uint16{}
	tracks := record(t, Options{Dataset: &numbers{samples: 80}, Epochs: 1, Knobs: on}, func(l *Loader, b *Batch) {
		flags[b.Seq] = b.Flags
		if b.Index == 9 {
			if err := l.Set(off); err != nil {
				t.Fatal(err)
			}
		}
	})
	for seq := int32(0); seq < 20; seq++ {
		want := seq <= 9
		if seq > 9 && seq < 15 { // in flight at the change
			continue
		}
		if got := flags[seq] == trace.FlagInjected; got != want {
			t.Errorf("batch %d: injected %v, want %v", seq, got, want)
		}
		for _, k := range []trace.Kind{trace.KindRead, trace.KindTransform} {
			if got := count(tracks, k, ofBatch(seq), injected) > 0; got != want {
				t.Errorf("batch %d: %v labelled %v, want %v", seq, k, got, want)
			}
		}
		if count(tracks, trace.KindDecode, ofBatch(seq), injected) > 0 {
			t.Errorf("batch %d: decode is labelled", seq)
		}
	}
	delays := func(id trace.TrackID) int {
		return count(map[trace.TrackID][]trace.Span{id: tracks[id]}, trace.KindRead, injected, longer(on.Inject.Delay))
	}
	if delays(trace.Worker(1)) == 0 {
		t.Error("the straggler was never late")
	}
	if n := count(tracks, trace.KindRead, injected, longer(on.Inject.Read*9/10)); n < 4*10 {
		t.Errorf("%d slow reads, want at least 40", n)
	}
}

func TestQueueIsSampled(t *testing.T) {
	tracks := record(t, Options{Dataset: &numbers{samples: 64}, Epochs: 1, Knobs: Knobs{BatchSize: 4, InOrder: true, NumWorkers: 2, PrefetchFactor: 3}}, nil)
	level := 0
	for i, s := range tracks[trace.TrackQueue] {
		if s.Kind != trace.KindQueue || s.Start != s.End || s.Flags != 6 {
			t.Fatalf("%+v", s)
		}
		if step := int(s.Arg) - level; step != 1 && step != -1 {
			t.Fatalf("sample %d: from %d to %d", i, level, s.Arg)
		}
		level = int(s.Arg)
	}
	if n := len(tracks[trace.TrackQueue]); n != 2*16 || level != 0 {
		t.Errorf("%d samples ending at %d, want 32 ending at 0", n, level)
	}
}

// TestQueueSaysWhatIsHeldUp: batch 0 is late, and the three after it are ready before it.
func TestQueueSaysWhatIsHeldUp(t *testing.T) {
	type sample struct {
		ready uint32
		held  int32
	}
	delivered := []sample{{4, -1}, {3, -1}, {2, -1}, {1, -1}, {0, -1}}
	for _, c := range []struct {
		name    string
		inOrder bool
		turnOff bool // once three are ready
		want    []sample
	}{
		{"in order", true, false, []sample{{1, 0}, {2, 0}, {3, 0}}},
		{"out of order", false, false, []sample{{1, -1}, {2, -1}, {3, -1}}},
		{"turned off", true, true, []sample{{1, 0}, {2, 0}, {3, 0}, {3, -1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			late := make(chan struct{})
			set := &numbers{samples: 4, onRead: func(_ context.Context, i int) error {
				if i == 0 {
					<-late
				}
				return nil
			}}
			knobs := Knobs{BatchSize: 1, InOrder: c.inOrder, NumWorkers: 2, PrefetchFactor: 2}
			rec := trace.NewRecorder(trace.NewClock(), 1<<10)
			l := open(t, Options{Dataset: set, Epochs: 1, Knobs: knobs, Recorder: rec})
			ready := func(n int) {
				for l.Stats().Ready < n {
					time.Sleep(time.Millisecond)
				}
			}
			ready(3)
			if c.turnOff {
				knobs.InOrder = false
				if err := l.Set(knobs); err != nil {
					t.Fatal(err)
				}
			}
			close(late)
			ready(4)
			for range 4 {
				mustNext(t, l).Release()
			}
			l.Close()
			var got []sample
			for _, s := range drained(t, rec)[trace.TrackQueue] {
				got = append(got, sample{s.Arg, s.Batch})
			}
			if want := slices.Concat(c.want, delivered); !slices.Equal(got, want) {
				t.Errorf("samples %v, want %v", got, want)
			}
		})
	}
}

func TestPersistentWorkers(t *testing.T) {
	const epochs, workers = 4, 3
	for _, persistent := range []bool{false, true} {
		var ahead, between int
		tracks := record(t, Options{Dataset: &numbers{samples: 24}, Epochs: epochs, Knobs: Knobs{
			BatchSize: 4, InOrder: true, NumWorkers: workers, PrefetchFactor: 4, PersistentWorkers: persistent,
		}}, func(l *Loader, b *Batch) {
			if !b.Last || b.Epoch == epochs-1 {
				return
			}
			between++
			// Workers now either start on the next epoch, or end.
			for range 2000 {
				s := l.Stats()
				if s.InFlight > 0 {
					ahead++
					break
				}
				if s.Workers == 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
		})
		wantAhead := 0
		if persistent {
			wantAhead = between
		}
		if between != epochs-1 || ahead != wantAhead {
			t.Errorf("persistent %v: loaded ahead at %d of %d epoch ends", persistent, ahead, between)
		}
		for id := range workers {
			starts := 0
			for _, s := range tracks[trace.Worker(id)] {
				if s.Kind == trace.KindStart && s.Batch < 0 {
					starts++
				}
			}
			// An epoch's opening is a start-up too, by any one of the workers.
			if persistent && starts > 1+epochs || !persistent && starts < epochs {
				t.Errorf("persistent %v: worker %d started up %d times", persistent, id, starts)
			}
		}
	}
}

func TestBlockedSaysWhy(t *testing.T) {
	reasons := func(tracks map[trace.TrackID][]trace.Span) map[trace.BlockReason]int {
		got := map[trace.BlockReason]int{}
		for id, spans := range tracks {
			for _, s := range spans {
				if id.IsWorker() && s.Kind == trace.KindBlocked {
					got[trace.BlockReason(s.Arg)]++
				}
			}
		}
		return got
	}
	knobs := Knobs{BatchSize: 2, InOrder: true, NumWorkers: 2, PrefetchFactor: 1, PersistentWorkers: true}
	wait := func(*Loader, *Batch) { time.Sleep(2 * time.Millisecond) }

	got := reasons(record(t, Options{Dataset: &numbers{samples: 40}, Epochs: 1, Hold: 4, Knobs: knobs}, wait))
	if got[trace.BlockPrefetch] == 0 || got[trace.BlockSlot] > 0 {
		t.Errorf("a slow caller: %v", got)
	}
	// Close wakes the workers that were idle, which records it.
	if got[trace.BlockIdle] == 0 {
		t.Errorf("at the end: %v", got)
	}

	// The caller holds one batch more than it said, which takes all three slots. A worker
	// that has loaded the last of them then finds no other. So every third batch comes
	// late.
	const batches = 20
	var held atomic.Int32 // batches that the caller had
	last := func(ctx context.Context, i int) error {
		for batch := int32(i / 2); batch%3 == 2 && held.Load() < batch; {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			time.Sleep(100 * time.Microsecond)
		}
		return nil
	}
	got = reasons(record(t, Options{Dataset: &numbers{samples: 2 * batches, onRead: last}, Epochs: 1, Hold: 1, Knobs: knobs}, func(l *Loader, b *Batch) {
		held.Add(1)
		if b.Index+2 >= batches {
			return
		}
		var more []*Batch
		for range 2 {
			b, err := l.Next(soon(t))
			if err != nil {
				t.Fatal(err)
			}
			held.Add(1)
			more = append(more, b)
		}
		time.Sleep(20 * time.Millisecond) // the workers park meanwhile, on a busy machine too
		for _, b := range more {
			b.Release()
		}
	}))
	if got[trace.BlockSlot] == 0 {
		t.Errorf("a caller that holds all slots: %v", got)
	}

	knobs.Ceiling = true
	got = reasons(record(t, Options{Dataset: &numbers{samples: 40}, Epochs: 1, Hold: 1, Knobs: knobs}, wait))
	if got[trace.BlockPaused] == 0 {
		t.Errorf("under the ceiling: %v", got)
	}
}
