package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// paced is a data set whose reads take a second of virtual time each.
func paced(samples int) *numbers {
	return &numbers{samples: samples, onRead: func(ctx context.Context, _ int) error {
		select {
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
}

func mustNext(t *testing.T, l *Loader) *Batch {
	t.Helper()
	b, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustSet(t *testing.T, l *Loader, k Knobs) {
	t.Helper()
	if err := l.Set(k); err != nil {
		t.Fatal(err)
	}
}

// TestWorkersGrowAtOnceAndRetireAfterTheirBatch runs in virtual time. A batch takes exactly a
// second, so the times of delivery tell who worked.
func TestWorkersGrowAtOnceAndRetireAfterTheirBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := Knobs{BatchSize: 1, InOrder: true, NumWorkers: 1, PrefetchFactor: 1}
		l := open(t, Options{Dataset: paced(100), Hold: 1, Knobs: k})
		start := time.Now()
		at := func(want time.Duration) {
			t.Helper()
			if got := time.Since(start); got != want {
				t.Fatalf("at %v, want %v", got, want)
			}
		}
		mustNext(t, l).Release()
		at(1 * time.Second)

		k.NumWorkers = 4 // batch 1 was begun at the delivery of 0
		mustSet(t, l, k)
		if n := l.Stats().Workers; n != 4 {
			t.Errorf("%d workers right after the change, want 4", n)
		}
		for range 4 {
			mustNext(t, l).Release()
		}
		at(2 * time.Second)
		synctest.Wait()

		k.NumWorkers, k.PrefetchFactor = 1, 2 // four batches are being loaded
		mustSet(t, l, k)
		synctest.Wait()
		if n := l.Stats().Workers; n != 4 {
			t.Errorf("%d workers, want 4 until their batches are done", n)
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if s := l.Stats(); s.Workers != 1 || s.Ready != 4 || s.InFlight != 4 {
			t.Errorf("after the batches: %+v", s)
		}
		at(3500 * time.Millisecond)

		k.NumWorkers, k.PrefetchFactor = 0, 0
		mustSet(t, l, k)
		for i := range int32(4) {
			b := mustNext(t, l)
			if b.Seq != 5+i {
				t.Errorf("batch %d, want %d", b.Seq, 5+i)
			}
			b.Release()
		}
		at(3500 * time.Millisecond)
		mustNext(t, l).Release() // inline
		at(4500 * time.Millisecond)
		synctest.Wait()
		if s := l.Stats(); s.Workers != 0 || s.InFlight != 0 {
			t.Errorf("inline: %+v", s)
		}
	})
}

// TestInOrder: with in_order a slow sample delays all later batches; without it, only the next
// epoch.
func TestInOrder(t *testing.T) {
	for _, c := range []struct {
		inOrder bool
		order   []int32
		when    []int // seconds
	}{
		// A batch takes a second, and batch 0 takes ten. There are two workers, and
		// four batches in flight.
		{true, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8}, []int{10, 10, 10, 10, 11, 11, 12, 12, 13}},
		{false, []int32{1, 2, 3, 4, 5, 0, 6, 7, 8}, []int{1, 2, 3, 4, 5, 10, 10, 10, 10}},
	} {
		t.Run(fmt.Sprint(c.inOrder), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := paced(6)
				read, late := set.onRead, new(atomic.Bool)
				set.onRead = func(ctx context.Context, i int) error {
					if i == 0 && !late.Swap(true) {
						time.Sleep(9 * time.Second)
					}
					return read(ctx, i)
				}
				l := open(t, Options{Dataset: set, Knobs: Knobs{
					BatchSize: 1, InOrder: c.inOrder, NumWorkers: 2, PrefetchFactor: 2, PersistentWorkers: true,
				}})
				start := time.Now()
				var order []int32
				var when []int
				for range c.order {
					b := mustNext(t, l)
					order = append(order, b.Seq)
					when = append(when, int(time.Since(start).Seconds()))
					if b.Last != (len(order) == 6) {
						t.Errorf("batch %d, delivered %d of 6: last %v", b.Seq, len(order), b.Last)
					}
					b.Release()
				}
				if !slices.Equal(order, c.order) || !slices.Equal(when, c.when) {
					t.Errorf("order %v at %v, want %v at %v", order, when, c.order, c.when)
				}
			})
		})
	}
}

// TestBatchSizeMidEpoch: boundaries are cut at dispatch, so a change moves only later
// ones. drop_last drops what is then the rest.
func TestBatchSizeMidEpoch(t *testing.T) {
	for _, drop := range []bool{false, true} {
		k := Knobs{BatchSize: 4, InOrder: true, DropLast: drop}
		l := open(t, Options{Dataset: &numbers{samples: 20}, Epochs: 2, Knobs: k})
		var got [][2]int
		for i := 0; ; i++ {
			if i == 2 {
				k.BatchSize = 5
				mustSet(t, l, k)
			}
			b, err := l.Next(t.Context())
			if errors.Is(err, ErrEnd) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, [2]int{b.Pos, b.N})
			b.Release()
		}
		want := [][2]int{{0, 4}, {4, 4}, {8, 5}, {13, 5}, {18, 2}, {0, 5}, {5, 5}, {10, 5}, {15, 5}}
		if drop {
			want = slices.Delete(want, 4, 5)
		}
		if !slices.Equal(got, want) {
			t.Errorf("drop_last %v: batches (place, samples) %v, want %v", drop, got, want)
		}
	}
}

func TestDropLast(t *testing.T) {
	for samples := 1; samples <= 12; samples++ {
		for size := 1; size <= samples; size++ {
			for _, drop := range []bool{false, true} {
				l := open(t, Options{Dataset: &numbers{samples: samples}, Epochs: 1, Knobs: Knobs{BatchSize: size, InOrder: true, DropLast: drop}})
				batches, delivered := 0, 0
				for {
					b, err := l.Next(t.Context())
					if errors.Is(err, ErrEnd) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					batches++
					delivered += b.N
					b.Release()
				}
				wantBatches, want := (samples+size-1)/size, samples
				if drop {
					wantBatches, want = samples/size, samples/size*size
				}
				if batches != wantBatches || delivered != want {
					t.Errorf("%d samples by %d, drop_last %v: %d in %d batches, want %d in %d", samples, size, drop, delivered, batches, want, wantBatches)
				}
			}
		}
	}
}

// TestPrefetchGoesOnWhileTheCallerWorks: the next batch is begun when a batch is delivered,
// not when that batch is released.
func TestPrefetchGoesOnWhileTheCallerWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Dataset: paced(10), Hold: 1, Knobs: Knobs{BatchSize: 1, InOrder: true, NumWorkers: 1, PrefetchFactor: 1}})
		b := mustNext(t, l)
		time.Sleep(1500 * time.Millisecond)
		if s := l.Stats(); s.Ready != 1 || s.InFlight != 1 || s.Held != 1 {
			t.Errorf("while the caller works: %+v", s)
		}
		b.Release()
	})
}

// TestRetryInlineAfterWorkersWentAway: the first batch in the queue failed, num_workers
// went to 0, and a retiring worker is busy with a later batch.
func TestRetryInlineAfterWorkersWentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := &numbers{samples: 3}
		failed := false
		set.onRead = func(_ context.Context, i int) error {
			switch i {
			case 1:
				time.Sleep(10 * time.Second)
			default:
				time.Sleep(time.Second)
				if i == 0 && !failed {
					failed = true
					return io.ErrUnexpectedEOF
				}
			}
			return nil
		}
		k := Knobs{BatchSize: 1, InOrder: true, NumWorkers: 2, PrefetchFactor: 1}
		l := open(t, Options{Dataset: set, Epochs: 1, Knobs: k})
		start := time.Now()
		if _, err := l.Next(t.Context()); err == nil {
			t.Fatal("no error")
		}
		k.NumWorkers, k.PrefetchFactor = 0, 0
		mustSet(t, l, k)
		for i, want := range []int{2, 10, 11} {
			b := mustNext(t, l)
			if at := int(time.Since(start).Seconds()); at != want || int(b.Seq) != i {
				t.Errorf("batch %d at %d s, want batch %d at %d s", b.Seq, at, i, want)
			}
			b.Release()
		}
	})
}
