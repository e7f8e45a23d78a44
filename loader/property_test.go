package loader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dev.gpustall/engine/trace"
	"pgregory.net/rapid"
)

var drawKnobs = rapid.Custom(func(t *rapid.T) Knobs {
	k := Knobs{
		NumWorkers:       rapid.IntRange(0, 6).Draw(t, "num_workers"),
		PinMemory:        rapid.Bool().Draw(t, "pin_memory"),
		InOrder:          rapid.Bool().Draw(t, "in_order"),
		BatchSize:        rapid.IntRange(1, 17).Draw(t, "batch_size"),
		Shuffle:          rapid.Bool().Draw(t, "shuffle"),
		DropLast:         rapid.Bool().Draw(t, "drop_last"),
		ReadsInFlight:    rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "reads_in_flight"),
		DeviceTransforms: rapid.Bool().Draw(t, "device_transforms"),
		Ceiling:          rapid.IntRange(0, 3).Draw(t, "ceiling") == 0,
	}
	if k.NumWorkers > 0 {
		k.PrefetchFactor = rapid.IntRange(0, 4).Draw(t, "prefetch_factor")
		k.PersistentWorkers = rapid.Bool().Draw(t, "persistent_workers")
		if rapid.IntRange(0, 3).Draw(t, "timeout") == 0 {
			k.Timeout = 200 * time.Microsecond
		}
	}
	micros := func(name string) time.Duration {
		return time.Duration(rapid.SampledFrom([]int{0, 0, 0, 20, 100}).Draw(t, name)) * time.Microsecond
	}
	k.Inject = Inject{Read: micros("read"), CPU: micros("cpu"), Delay: 2 * micros("delay")}
	k.Inject.Straggler = rapid.IntRange(0, 3).Draw(t, "straggler")
	return k
})

// TestExactlyOnce changes all knobs at random moments while batches are taken and another
// goroutine releases them. Samples may be faulty or slow. In every epoch each place of the
// order must be delivered exactly once, with the right samples and contents, and in order if
// in_order stayed on.
func TestExactlyOnce(t *testing.T) {
	var changes atomic.Int64
	rapid.Check(t, func(t *rapid.T) { changes.Add(exactlyOnce(t)) })
	t.Logf("%d knob changes during delivery", changes.Load())
}

func exactlyOnce(t *rapid.T) int64 {
	samples := rapid.IntRange(17, 120).Draw(t, "samples")
	epochs := rapid.IntRange(0, 4).Draw(t, "epochs") // 0: until all changes were made
	seed := rapid.Int64().Draw(t, "seed")
	hold := rapid.IntRange(1, 4).Draw(t, "hold")
	pace := rapid.SampledFrom([]int{0, 0, 10, 200}).Draw(t, "microseconds a read")
	faults := rapid.SampledFrom([]int{0, 0, 3, 10}).Draw(t, "faults per hundred reads")
	first := drawKnobs.Draw(t, "first")
	n := rapid.IntRange(10, 60).Draw(t, "changes")
	knobs := rapid.SliceOfN(drawKnobs, n, n).Draw(t, "knobs")
	keepOrder := rapid.Bool().Draw(t, "always in_order")
	// The other knobs of a run stay as they are. So each combination of the switches
	// also meets changes of one kind over whole epochs.
	switch only := rapid.SampledFrom([]string{"any", "any", "batch_size", "num_workers", "batch_size, num_workers"}).Draw(t, "changing"); only {
	case "any":
	default:
		for i, k := range knobs {
			knobs[i] = first
			if strings.Contains(only, "batch_size") {
				knobs[i].BatchSize = k.BatchSize
			}
			if strings.Contains(only, "num_workers") && first.NumWorkers > 0 {
				knobs[i].NumWorkers = max(k.NumWorkers, 1)
			}
		}
	}
	gap := rapid.SampledFrom([]int{0, 1, 50, 300}).Draw(t, "microseconds between changes")
	cancels := rapid.SampledFrom([]int{0, 0, 7}).Draw(t, "cancel every")

	if keepOrder {
		first.InOrder = true
		for i := range knobs {
			knobs[i].InOrder = true
		}
	}
	var reads atomic.Int64
	fault := func(i int) error {
		n := int(reads.Add(1))
		if r := NewRNG(seed, n, i); r.IntN(100) >= faults {
			return nil
		}
		if n%2 == 0 {
			panic("a passing panic")
		}
		return errors.New("a passing fault")
	}
	set := &numbers{samples: samples}
	if rapid.Bool().Draw(t, "in shards") {
		first.ShuffleBuffer = rapid.IntRange(1, 2*samples).Draw(t, "shuffle_buffer")
		for i := range knobs { // the ledger knows one order of an epoch
			knobs[i].ShuffleBuffer = first.ShuffleBuffer
		}
		set.groups.Lanes = rapid.IntRange(0, 4).Draw(t, "lanes")
		for i := 0; i < samples; i += rapid.IntRange(1, 40).Draw(t, "samples of a shard") {
			set.groups.Starts = append(set.groups.Starts, int32(i))
		}
	}
	set.onRead = func(_ context.Context, i int) error {
		if pace > 0 {
			time.Sleep(time.Duration(pace) * time.Microsecond)
		}
		return fault(i)
	}
	set.onCode = func(i int) error {
		if i%3 == 0 {
			return fault(i)
		}
		return nil
	}
	var data Dataset = set
	if len(set.groups.Starts) > 0 && rapid.Bool().Draw(t, "a stream") {
		data = FromStream(&forward{numbers: set})
	}
	var alloc locker
	rec := trace.NewRecorder(trace.NewClock(), 64)
	l, err := New(Options{Dataset: data, Transform: mix{}, Seed: seed, Recorder: rec, Alloc: &alloc, Epochs: epochs, Knobs: first, Hold: hold})
	if err != nil {
		t.Fatal(err)
	}

	// The releaser holds on to batches for a while. The consumer has at most hold-1 of
	// them out when it calls Next.
	out := make(chan *Batch, hold)
	quota := make(chan struct{}, hold)
	var helpers sync.WaitGroup
	helpers.Go(func() {
		for b := range out {
			if b.Seq%5 == 0 {
				time.Sleep(20 * time.Microsecond)
			}
			b.Release()
			<-quota
		}
	})
	var made, inTime int64
	var over, changed atomic.Bool
	helpers.Go(func() {
		defer changed.Store(true)
		for _, k := range knobs {
			if err := l.Set(k); err != nil {
				panic(err)
			}
			made++
			if !over.Load() {
				inTime = made
			}
			time.Sleep(time.Duration(gap) * time.Microsecond)
		}
	})
	check := newLedger(samples, NewSampler(seed, samples).Grouped(set.groups).Mixing(first.Mixed()), keepOrder)
	enough := func(b *Batch) bool { return epochs == 0 && b.Last && changed.Load() }
	err = consume(l, check, seed, cancels, func(b *Batch) { out <- b }, func() { quota <- struct{}{} }, enough)
	over.Store(true)
	close(out)
	helpers.Wait()
	if err == nil {
		err = check.finish(epochs)
	}
	if err == nil {
		if s := l.Stats(); s.Held != 0 || epochs > 0 && (s.InFlight != 0 || s.Ready != 0) {
			err = fmt.Errorf("at the end: %+v", s)
		}
	}
	if cerr := errors.Join(l.Close(), data.Close()); err == nil {
		err = cerr
	}
	if err == nil && alloc.leaks() != "" {
		err = errors.New(alloc.leaks())
	}
	if s := l.Stats(); err == nil && (s.SlotBytes != 0 || s.PinnedBytes != 0 || s.Workers != 0) {
		err = fmt.Errorf("after Close: %+v", s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return inTime
}

// consume takes every batch until ErrEnd or enough, as a patient caller does: it calls Next
// again after a passing error.
func consume(l *Loader, check *ledger, seed int64, cancels int, out func(*Batch), wait func(), enough func(*Batch) bool) error {
	watchdog := time.AfterFunc(30*time.Second, func() { panic(fmt.Sprintf("stuck: %+v, knobs %+v", l.Stats(), l.Knobs())) })
	defer watchdog.Stop()
	for n := 1; ; n++ {
		wait()
	again:
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if cancels > 0 && n%cancels == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(n%13)*10*time.Microsecond)
			n++
		}
		b, err := l.Next(ctx)
		cancel()
		var fault *SampleError
		switch {
		case errors.Is(err, ErrEnd):
			return nil
		case errors.As(err, &fault):
			if fault.Index < 0 || fault.Index >= check.samples {
				return fmt.Errorf("an error that names no sample: %w", err)
			}
			goto again
		case errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded):
			goto again
		case err != nil:
			return err
		}
		if err := check.add(b); err != nil {
			return err
		}
		if b.Flags&trace.FlagCeiling == 0 {
			if err := checkContent(b, seed); err != nil {
				return err
			}
		}
		done := enough(b)
		out(b)
		if done {
			return nil
		}
	}
}

// ledger checks that the places of each epoch's order are delivered exactly once.
type ledger struct {
	samples int
	sampler Sampler
	inOrder bool

	epoch   int32
	last    bool // the epoch's last batch was delivered
	covered []bool
	next    int // in order: the next place
	seqs    map[int32]bool
	plain   []int32 // the order without shuffling
	mixed   []int32 // and with
	isMixed bool    // what was delivered is consistent with it
	isPlain bool
}

func newLedger(samples int, sampler Sampler, inOrder bool) *ledger {
	c := &ledger{samples: samples, sampler: sampler, inOrder: inOrder, seqs: map[int32]bool{}}
	c.begin(0)
	return c
}

func (c *ledger) begin(epoch int32) {
	c.epoch, c.last, c.covered, c.next = epoch, false, make([]bool, c.samples), 0
	c.plain = c.sampler.Order(nil, int(epoch), false)
	c.mixed = c.sampler.Order(nil, int(epoch), true)
	c.isMixed, c.isPlain = true, true
}

func (c *ledger) add(b *Batch) error {
	if c.last {
		if err := c.closeEpoch(); err != nil {
			return err
		}
		c.begin(c.epoch + 1)
	}
	if b.Epoch != c.epoch {
		return fmt.Errorf("batch %d is of epoch %d; epoch %d is not over", b.Seq, b.Epoch, c.epoch)
	}
	if c.seqs[b.Seq] {
		return fmt.Errorf("batch %d was delivered twice", b.Seq)
	}
	c.seqs[b.Seq] = true
	if c.inOrder && b.Pos != c.next {
		return fmt.Errorf("batch %d starts at place %d, want %d", b.Seq, b.Pos, c.next)
	}
	c.next = b.Pos + b.N
	ceiling := b.Flags&trace.FlagCeiling != 0
	same := func(order []int32) bool {
		for i, index := range b.Samples {
			if order[b.Pos+i] != index {
				return false
			}
		}
		return true
	}
	if !ceiling {
		c.isPlain = c.isPlain && same(c.plain)
		c.isMixed = c.isMixed && same(c.mixed)
		if !c.isPlain && !c.isMixed {
			return fmt.Errorf("batch %d at place %d of epoch %d has samples %v: neither the shuffled order nor the plain one", b.Seq, b.Pos, b.Epoch, b.Samples)
		}
	}
	for i := b.Pos; i < b.Pos+b.N; i++ {
		if c.covered[i] {
			return fmt.Errorf("place %d of epoch %d was delivered twice", i, b.Epoch)
		}
		c.covered[i] = true
	}
	c.last = b.Last
	return nil
}

// closeEpoch allows a rest to be missing at the end, shorter than a batch
// (drop_last is among the random knobs).
func (c *ledger) closeEpoch() error {
	n := c.samples
	for n > 0 && !c.covered[n-1] {
		n--
	}
	if c.samples-n >= 17 {
		return fmt.Errorf("epoch %d: %d samples dropped", c.epoch, c.samples-n)
	}
	for i := range n {
		if !c.covered[i] {
			return fmt.Errorf("place %d of epoch %d was never delivered", i, c.epoch)
		}
	}
	return nil
}

func (c *ledger) finish(epochs int) error {
	if !c.last || epochs > 0 && int(c.epoch) != epochs-1 {
		return fmt.Errorf("ended in epoch %d (last batch seen: %v), want %d epochs", c.epoch, c.last, epochs)
	}
	for i := range int32(len(c.seqs)) {
		if !c.seqs[i] {
			return fmt.Errorf("batch number %d was skipped", i)
		}
	}
	return c.closeEpoch()
}
