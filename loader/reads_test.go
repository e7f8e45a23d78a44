package loader

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dev.gpustall/engine/trace"
)

// TestReadsInFlight: a worker has as many reads in flight as it may. Reads that wait then take
// less time, and batches stay the same.
func TestReadsInFlight(t *testing.T) {
	for _, c := range []struct{ workers, reads, most int }{{0, 1, 1}, {0, 4, 4}, {2, 8, 16}, {1, 64, 64}} {
		synctest.Test(t, func(t *testing.T) {
			var now, most atomic.Int32
			set := &numbers{samples: 128, onRead: func(context.Context, int) error {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Millisecond)
				now.Add(-1)
				return nil
			}}
			l := open(t, Options{Dataset: set, Epochs: 1, Seed: 3, Knobs: Knobs{
				BatchSize: 64, InOrder: true, NumWorkers: c.workers, PrefetchFactor: min(1, c.workers), ReadsInFlight: c.reads,
			}})
			start := time.Now() // a process's first loader measures the clock
			var got []int32
			drain(t, t.Context(), l, 3, func(b *Batch) { got = append(got, b.Samples...) })
			took, want := time.Since(start), 128*time.Millisecond/time.Duration(c.most)
			if len(got) != 128 || !slices.IsSorted(got) || int(most.Load()) != c.most || took != max(want, 128/64*time.Millisecond/time.Duration(max(1, c.workers))) {
				t.Errorf("%+v: %d samples in %v with %d reads at once, want %v", c, len(got), took, most.Load(), want)
			}
			l.Close()
		})
	}
}

// TestAnnounced: the first sample of a batch is read at once, and all others are announced
// before they are read. With several reads at a time, all but the first ones are.
func TestAnnounced(t *testing.T) {
	for _, c := range []struct{ reads, first int }{{1, 1}, {4, ahead}} {
		set := &announced{numbers: numbers{samples: 128}, told: map[int]int{}}
		set.onRead = func(_ context.Context, i int) error {
			set.mu.Lock()
			defer set.mu.Unlock()
			set.read = max(set.read, i)
			return nil
		}
		l := open(t, Options{Dataset: set, Epochs: 1, Knobs: Knobs{BatchSize: 64, InOrder: true, ReadsInFlight: c.reads}})
		drain(t, soon(t), l, 0, func(*Batch) {})
		for i := range 128 {
			after, told := set.told[i]
			if told != (i%64 >= c.first) {
				t.Errorf("%d reads at a time: sample %d announced: %v", c.reads, i, told)
			}
			if told && (i > after+ahead+c.reads || c.reads == 1 && i%64 > ahead && i != after+ahead+1) {
				t.Errorf("%d reads at a time: sample %d was announced when %d had been read", c.reads, i, after)
			}
		}
	}
}

// announced is numbers in files. told says which sample was read last when a sample was
// announced.
type announced struct {
	numbers
	mu   sync.Mutex
	told map[int]int
	read int
}

func (d *announced) Announce(i int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told[i] = d.read
}

// TestReadsFail: if a sample's read fails, panics or ends its goroutine, that sample is named,
// and all others are delivered.
func TestReadsFail(t *testing.T) {
	broken := errors.New("bad sector")
	for how, fail := range map[string]func() error{
		"error":  func() error { return broken },
		"panic":  func() error { panic(broken) },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		set := &numbers{samples: 40, onRead: func(_ context.Context, i int) error {
			if i == 13 || i == 14 {
				return fail()
			}
			return nil
		}}
		k := Knobs{BatchSize: 20, InOrder: true, NumWorkers: 1, ReadsInFlight: 4}
		l := open(t, Options{Dataset: set, Epochs: 1, Knobs: k})
		_, err := l.Next(soon(t))
		if e, ok := errors.AsType[*SampleError](err); !ok || e.Index != 13 || e.Op != "read" {
			t.Errorf("%s: %v", how, err)
		}
		k.OnError = Skip
		if err := l.Set(k); err != nil {
			t.Fatal(err)
		}
		n := 0
		drain(t, soon(t), l, 0, func(b *Batch) { n += b.N })
		if n != 38 || l.Stats().Skipped != 2 {
			t.Errorf("%s: %d samples delivered, %d skipped", how, n, l.Stats().Skipped)
		}
	}
}

// TestReadsBlame: of several reads at the same time, the slowest sample is named, with its
// own time.
func TestReadsBlame(t *testing.T) {
	set := &numbers{samples: 32, onRead: func(_ context.Context, i int) error {
		if i == 21 {
			time.Sleep(long)
		}
		return nil
	}}
	var built []trace.Built
	record(t, Options{Dataset: set, Epochs: 1, Knobs: Knobs{BatchSize: 32, InOrder: true, ReadsInFlight: 8}}, func(_ *Loader, b *Batch) { built = append(built, b.Built) })
	if got := built[0].Slowest; got.Sample != 21 || got.Kind != trace.KindRead || got.Took < int64(long) {
		t.Errorf("slowest %+v", got)
	}
}
