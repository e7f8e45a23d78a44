package loader

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxInject bounds an injected delay, so that a slip of the keyboard cannot hang
// the run.
const maxInject = 10 * time.Second

// ParseInject reads an injected bottleneck as flags write it: "read=5ms",
// "cpu=2ms", "straggler=3:50ms" (the third worker), several of them separated by
// commas, or "none".
func ParseInject(text string) (Inject, error) {
	var i Inject
	if text == "" || text == "none" {
		return i, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return Inject{}, fmt.Errorf("inject=%q: write read=5ms, cpu=2ms, straggler=3:50ms or none", part)
		}
		if err := i.set(strings.TrimSpace(name), value); err != nil {
			return Inject{}, err
		}
	}
	return i, i.validate()
}

func (i *Inject) set(name, value string) (err error) {
	switch name {
	case "read":
		i.Read, err = parseDuration("inject_read", value)
	case "cpu":
		i.CPU, err = parseDuration("inject_cpu", value)
	case "straggler":
		i.Straggler, i.Delay, err = parseStraggler(value)
	default:
		err = fmt.Errorf("inject: %q is not one of read, cpu, straggler", name)
	}
	return err
}

func parseStraggler(value string) (int, time.Duration, error) {
	if isOff(value) {
		return 0, 0, nil
	}
	w, d, ok := strings.Cut(value, ":")
	n, err := strconv.Atoi(w)
	if !ok || err != nil {
		return 0, 0, fmt.Errorf("inject_straggler=%q: write the worker, from 1, and the delay of each of its batches, as in 3:50ms, or off", value)
	}
	delay, err := parseDuration("inject_straggler", d)
	if err != nil || n == 0 || delay == 0 {
		return 0, 0, err
	}
	return n, delay, nil
}

// String is the inverse of ParseInject.
func (i Inject) String() string {
	var parts []string
	if i.Read > 0 {
		parts = append(parts, "read="+i.Read.String())
	}
	if i.CPU > 0 {
		parts = append(parts, "cpu="+i.CPU.String())
	}
	if i.Straggler > 0 && i.Delay > 0 {
		parts = append(parts, "straggler="+i.straggler())
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ",")
}

func (i Inject) straggler() string {
	if i.Straggler == 0 || i.Delay == 0 {
		return "off"
	}
	return fmt.Sprintf("%d:%s", i.Straggler, i.Delay)
}

func (i Inject) validate() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"inject_read", i.Read}, {"inject_cpu", i.CPU}, {"inject_straggler", i.Delay}} {
		if d.d < 0 || d.d > maxInject {
			return fmt.Errorf("%s=%v is out of range: choose 0 to %v", d.name, d.d, maxInject)
		}
	}
	if i.Straggler < 0 || i.Straggler > maxWorkers {
		return fmt.Errorf("inject_straggler=%d names no worker: choose 1 to %d, or off", i.Straggler, maxWorkers)
	}
	return nil
}

// IdleStraggler says that the straggler names a worker that there is not; empty
// when it names one, or when none is asked for. Without workers the step loop
// stands in for the first.
func (k Knobs) IdleStraggler() string {
	i := k.Inject
	if i.straggler() == "off" || i.Straggler <= max(1, k.NumWorkers) {
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
	return fmt.Sprintf("inject_straggler=%s has no effect: it names worker %d and %s; %s", i.straggler(), i.Straggler, there, mend)
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

var errNotDuration = errors.New("not a duration")

func isOff(s string) bool { return s == "off" || s == "none" || s == "0" || s == "" }

// parseDuration reads a knob's duration: "5ms", or "off" for 0.
func parseDuration(knob, value string) (time.Duration, error) {
	if isOff(value) {
		return 0, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("%s=%q: %w; write it as in 5ms or 1.5s, or off", knob, value, errNotDuration)
	}
	return d, nil
}
