package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// forward is numbers as a stream.
type forward struct {
	*numbers
	opens, open atomic.Int64 // cursors: ever, and now
}

func (d *forward) Open(ctx context.Context, group int) (Cursor, error) {
	d.opens.Add(1)
	d.open.Add(1)
	c := &forwardCursor{d: d}
	c.next, c.end = d.groups.Bounds(group, d.samples)
	return c, ctx.Err()
}

type forwardCursor struct {
	d         *forward
	next, end int
	busy      atomic.Bool
}

func (c *forwardCursor) Next(ctx context.Context, s *Sample) error {
	if c.next == c.end {
		return errors.New("read beyond the end of the group")
	}
	if !c.busy.CompareAndSwap(false, true) {
		return errors.New("two goroutines move one cursor")
	}
	defer c.busy.Store(false)
	at := Sample{Index: c.next, Raw: s.Raw}
	c.next++ // even if it fails, because such a cursor is somewhere
	if err := c.d.Read(ctx, &at); err != nil {
		return err
	}
	s.Raw, s.Label = at.Raw, at.Label
	return nil
}

func (c *forwardCursor) Close() error {
	c.d.open.Add(-1)
	return nil
}

// TestStreamIsHandedOver: whatever happens to the workers, each epoch opens each group once and
// reads each sample once. Nothing is left open, and no more is kept than the shuffle buffer
// takes.
func TestStreamIsHandedOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const epochs = 3
		set := &numbers{samples: rapid.IntRange(20, 200).Draw(t, "samples")}
		groups := 0
		for i := 0; i < set.samples; i += rapid.IntRange(1, 60).Draw(t, "samples of a group") {
			set.groups.Starts = append(set.groups.Starts, int32(i))
			groups++
		}
		set.groups.Lanes = rapid.IntRange(1, 4).Draw(t, "lanes")
		stream := &forward{numbers: set}
		d := FromStream(stream)
		k := Knobs{BatchSize: rapid.IntRange(1, 9).Draw(t, "batch_size"), Shuffle: rapid.Bool().Draw(t, "shuffle"), InOrder: true}
		l, err := New(Options{Dataset: d, Transform: mix{}, Seed: 5, Epochs: epochs, Knobs: k})
		if err != nil {
			t.Fatal(err)
		}
		changes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Knobs {
			c := k
			if c.NumWorkers = rapid.IntRange(0, 6).Draw(t, "num_workers"); c.NumWorkers > 0 {
				c.PrefetchFactor = rapid.IntRange(0, 4).Draw(t, "prefetch_factor")
				c.PersistentWorkers = rapid.Bool().Draw(t, "persistent_workers")
			}
			c.InOrder = rapid.Bool().Draw(t, "in_order")
			c.ShuffleBuffer = rapid.IntRange(0, 50).Draw(t, "shuffle_buffer")
			c.ReadsInFlight = rapid.IntRange(0, 3).Draw(t, "reads_in_flight")
			return c
		}), 1, 20).Draw(t, "changes")
		var beside sync.WaitGroup
		beside.Go(func() {
			for _, c := range changes {
				if l.Set(c) != nil {
					return // it is closed
				}
				time.Sleep(50 * time.Microsecond)
			}
		})
		seen := map[string]int{}
		for {
			b, err := l.Next(context.Background())
			if errors.Is(err, ErrEnd) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := checkContent(b, 5); err != nil {
				t.Fatal(err)
			}
			for _, i := range b.Samples {
				seen[fmt.Sprint(b.Epoch, i)]++
			}
			b.Release()
		}
		beside.Wait()
		if err := errors.Join(l.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
		for at, n := range seen {
			if n != 1 {
				t.Fatalf("sample %s was delivered %d times", at, n)
			}
		}
		if len(seen) != epochs*set.samples || set.reads.Load() != int64(epochs*set.samples) {
			t.Fatalf("%d samples delivered and %d read, want %d", len(seen), set.reads.Load(), epochs*set.samples)
		}
		if stream.opens.Load() != int64(epochs*groups) || stream.open.Load() != 0 {
			t.Fatalf("%d cursors for %d groups in %d epochs, %d are open", stream.opens.Load(), groups, epochs, stream.open.Load())
		}
		if n := len(d.kept.samples); n != 0 {
			t.Fatalf("%d samples are kept in the end", n)
		}
	})
}

// TestStreamKeepsLittle: with the ceiling on, nobody asks for some samples. They are dropped
// once they are more than the shuffle buffer and a margin. If one of them is asked for
// later, it is read again.
func TestStreamKeepsLittle(t *testing.T) {
	const samples = 5 * passedSpare
	set := &numbers{samples: samples, groups: Grouping{Starts: []int32{0}}}
	d := FromStream(&forward{numbers: set})
	defer d.Close()
	d.mixing(10)
	for _, i := range []int{samples - 1, 3, samples - 2, 0} {
		s := Sample{Index: i}
		if err := d.Read(t.Context(), &s); err != nil || s.Label != int32(i*7) {
			t.Fatalf("sample %d: class %d, %v", i, s.Label, err)
		}
		if n := len(d.kept.samples); n > passedSpare+10 {
			t.Errorf("%d samples are kept", n)
		}
	}
	if n := len(d.kept.order); n > 4*passedSpare {
		t.Errorf("the order of %d samples is kept", n)
	}
}

// TestStreamFails: a cursor's error belongs to one sample, and the next try goes on after what
// was read.
func TestStreamFails(t *testing.T) {
	bad := true
	set := &numbers{samples: 20, groups: Grouping{Starts: []int32{0, 10}}}
	set.onRead = func(_ context.Context, i int) error {
		if i == 13 && bad {
			return errors.New("a passing fault")
		}
		return nil
	}
	stream := &forward{numbers: set}
	d := FromStream(stream)
	for i := range 20 {
		s := Sample{Index: i}
		err := d.Read(t.Context(), &s)
		if (err != nil) != (i == 13) {
			t.Fatal(i, err)
		}
		if i == 13 {
			bad = false
			if err := d.Read(t.Context(), &s); err != nil || s.Label != 13*7 {
				t.Fatal(err)
			}
		}
	}
	if err := d.Close(); err != nil || stream.open.Load() != 0 || stream.opens.Load() != 3 {
		t.Errorf("%d of %d cursors are open, %v", stream.open.Load(), stream.opens.Load(), err)
	}
	// A damaged sample is passed, and is an error only for who asks for it.
	set.onRead = func(_ context.Context, i int) error {
		if i == 4 {
			return fmt.Errorf("sample 4: %w", ErrDamaged)
		}
		return nil
	}
	d = FromStream(stream)
	opens := stream.opens.Load()
	for _, i := range []int{9, 4, 3, 4} {
		s := Sample{Index: i}
		if err := d.Read(t.Context(), &s); errors.Is(err, ErrDamaged) != (i == 4) || err != nil && i != 4 {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	if err := d.Close(); err != nil || stream.open.Load() != 0 || stream.opens.Load() != opens+1 {
		t.Errorf("%d cursors were needed, %v", stream.opens.Load()-opens, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Read(over, &Sample{Index: 3, Epoch: 9}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestStreamMemory: the plan counts what shuffling keeps of a stream. It counts nothing without
// shuffling, or for data that is read in place.
func TestStreamMemory(t *testing.T) {
	info := Info{Samples: 500, H: 1, W: 1, C: 1, Bytes: 500 * 1000}
	k := Knobs{BatchSize: 1, ShuffleBuffer: 100, Shuffle: true}
	plain := k.Memory(info, 1).Workers
	info.Stream = true
	if got := k.Memory(info, 1).Workers - plain; got != 100*1000+takenBytes {
		t.Errorf("shuffled: %d bytes", got)
	}
	if k.ShuffleBuffer = 0; k.Memory(info, 1).Workers-plain != 500*1000+takenBytes { // all of them: fewer than the default
		t.Errorf("by default: %d bytes", k.Memory(info, 1).Workers-plain)
	}
	if k.Shuffle = false; k.Memory(info, 1).Workers-plain != takenBytes {
		t.Errorf("unshuffled: %d bytes", k.Memory(info, 1).Workers-plain)
	}
}
