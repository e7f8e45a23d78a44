package loader

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"dev.gpustall/engine/fault"
	"dev.gpustall/engine/knob"
	"dev.gpustall/engine/trace"
)

// Inject slows the loader down on purpose. It is always labelled.
type Inject struct {
	Read      time.Duration // added to each sample's read
	CPU       time.Duration // added to each sample's transform, spent computing
	Straggler int           // 1-based: every worker with index Straggler-1 …
	Delay     time.Duration // … takes this much longer for a batch
}

// Any reports whether anything is injected.
func (i Inject) Any() bool { return i.Read > 0 || i.CPU > 0 || (i.Straggler > 0 && i.Delay > 0) }

// straggler is an Inject read and written as its slow worker alone.
type straggler Inject

func (s *straggler) String() string {
	if s.Straggler == 0 || s.Delay == 0 {
		return knob.Duration(0)
	}
	return fmt.Sprintf("%d:%s", s.Straggler, s.Delay)
}

// UnmarshalText reads a worker, from 1, and the delay of each of its batches.
func (s *straggler) UnmarshalText(text []byte) error {
	if trace.Off(string(text)) {
		s.Straggler, s.Delay = 0, 0
		return nil
	}
	w, d, ok := strings.Cut(string(text), ":")
	n, err := strconv.Atoi(w)
	if !ok || err != nil {
		return fault.Reason("no straggler", "write the worker, from 1, and the delay of each of its batches, as in 3:50ms, or off")
	}
	delay, err := knob.ParseDuration(d)
	switch most := maxInject * time.Millisecond; {
	case err != nil:
		return err
	case delay < 0 || delay > most:
		return fault.Reason("a delay out of range", fmt.Sprintf("choose 0 to %v", most))
	case n < 0 || n > maxWorkers:
		return fault.Reason("it names no worker", fmt.Sprintf("choose 1 to %d, or off", maxWorkers))
	case n == 0 || delay == 0:
		n, delay = 0, 0
	}
	s.Straggler, s.Delay = n, delay
	return nil
}

// idleStraggler says that the straggler names a worker that there is not; empty
// when it names one, or when none is asked for. Without workers the step loop
// stands in for the first.
func (k Knobs) idleStraggler() string {
	i := k.Inject
	if i.Straggler == 0 || i.Delay == 0 || i.Straggler <= max(1, k.NumWorkers) {
		return ""
	}
	there := fmt.Sprintf("there are %d", k.NumWorkers)
	mend := fmt.Sprintf("name one of 1 to %d, or raise num_workers", k.NumWorkers)
	switch k.NumWorkers {
	case 0:
		there, mend = "there are none", "raise num_workers, or name 1 for the step loop, which loads without them"
	case 1:
		there, mend = "there is 1", "name worker 1, or raise num_workers"
	}
	return fmt.Sprintf("it names worker %d and %s; %s", i.Straggler, there, mend)
}

// delay is what worker id's batches take longer.
func (i Inject) delay(id int) time.Duration {
	if i.Straggler == id+1 {
		return i.Delay
	}
	return 0
}

// sleep waits without computing, as a slow disk would have it. It ends early when
// ctx does.
func (w *worker) sleep(ctx context.Context, d time.Duration) error {
	w.timer.Reset(d)
	select {
	case <-w.timer.C:
		return nil
	case <-ctx.Done():
		w.timer.Stop()
		return context.Cause(ctx)
	}
}

// spin computes for what takes d on an idle core. It does a fixed amount of work
// and does not watch the clock: workers that share a core slow each other down,
// as they would with real work.
func (w *worker) spin(ctx context.Context, d time.Duration) error {
	const slice = time.Millisecond // between looks at ctx
	for ; d > 0; d -= slice {
		w.sink = churn(w.sink, int(float64(min(d, slice))*churnRate()))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// churn computes n rounds of a generator.
func churn(seed uint64, n int) uint64 {
	r := RNG{seed}
	var x uint64
	for range n {
		x ^= r.Uint64()
	}
	return x
}

// churnRate is the rounds a nanosecond on this machine: the best of several short
// measurements, because the others were disturbed.
var churnRate = sync.OnceValue(func() float64 {
	const rounds = 100_000
	best, x := 0.0, uint64(1)
	for range 16 {
		start := time.Now()
		x = churn(x, rounds)
		if d := time.Since(start); d > 0 {
			best = max(best, rounds/float64(d))
		}
	}
	runtime.KeepAlive(x)
	if best == 0 {
		return 1 // a clock too coarse to tell
	}
	return best
})
