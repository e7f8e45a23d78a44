package loader

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/splitmix"
	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/trace"
)

// Inject slows the loader down on purpose. Injected time is always labelled.
type Inject struct {
	Read      time.Duration // added to each sample's read
	CPU       time.Duration // added to each sample's transform: CPU time of the worker's thread
	Straggler int           // 1-based: every worker with index Straggler-1 …
	Delay     time.Duration // … takes this much longer for a batch
}

// Any reports whether anything is injected.
func (i Inject) Any() bool { return i.Read > 0 || i.CPU > 0 || (i.Straggler > 0 && i.Delay > 0) }

// straggler reads and writes only the slow worker of an Inject.
type straggler Inject

func (s *straggler) String() string {
	if s.Straggler == 0 || s.Delay == 0 {
		return knob.Duration(0)
	}
	return fmt.Sprintf("%d:%s", s.Straggler, s.Delay)
}

// UnmarshalText reads a worker, from 1, and the delay of each of its batches.
func (s *straggler) UnmarshalText(text []byte) error {
	if knob.Off(string(text)) {
		s.Straggler, s.Delay = 0, 0
		return nil
	}
	w, d, ok := strings.Cut(string(text), ":")
	n, err := strconv.Atoi(w)
	if !ok || err != nil {
		return errs.Reason("no straggler", "write the worker, from 1, and the delay of each of its batches, as in 3:50ms, or off")
	}
	delay, err := knob.ParseDuration(d)
	switch most := maxInject * time.Millisecond; {
	case err != nil:
		return err
	case delay < 0 || delay > most:
		return errs.Reason("a delay out of range", fmt.Sprintf("choose 0 to %v", most))
	case n < 0 || n > maxWorkers:
		return errs.Reason("it names no worker", fmt.Sprintf("choose 1 to %d, or off", maxWorkers))
	case n == 0 || delay == 0:
		n, delay = 0, 0
	}
	s.Straggler, s.Delay = n, delay
	return nil
}

// idleStraggler says that the straggler names a worker that does not exist. It is empty if the
// worker exists or no straggler is asked for. Without workers the step loop counts as the
// first one.
func (k Knobs) idleStraggler() string {
	i := k.Inject
	if i.Straggler == 0 || i.Delay == 0 || i.Straggler <= max(1, k.NumWorkers) {
		return ""
	}
	there := fmt.Sprintf("there are %d", k.NumWorkers)
	hint := fmt.Sprintf("name one of 1 to %d, or raise num_workers", k.NumWorkers)
	switch k.NumWorkers {
	case 0:
		there, hint = "there are none", "raise num_workers, or name 1 for the step loop, which loads without them"
	case 1:
		there, hint = "there is 1", "name worker 1, or raise num_workers"
	}
	return fmt.Sprintf("it names worker %d and %s; %s", i.Straggler, there, hint)
}

// delay returns how much longer each batch of worker id takes.
func (i Inject) delay(id int) time.Duration {
	if i.Straggler == id+1 {
		return i.Delay
	}
	return 0
}

// sleeper waits without computing, like a read from a slow disk. A thread wakes up some
// microseconds late, so the next sleep is that much shorter, and the average is right. The
// longer delays of a busy host stay, as they would with a disk.
type sleeper struct {
	timer *time.Timer
	late  int64 // ns that the last sleep took too long
}

// sleep waits for d. It ends early when ctx does, up to timer.Coarse late.
func (p *sleeper) sleep(ctx context.Context, clock trace.Clock, d time.Duration) error {
	const most = 100_000 // ns that an idle host wakes a thread late, at the most
	end := clock.Now() + int64(d) - min(p.late, int64(d), most)
	if left := end - clock.Now() - timer.Coarse; left > 0 {
		p.timer.Reset(time.Duration(left))
		select {
		case <-p.timer.C:
		case <-ctx.Done():
			p.timer.Stop()
			return context.Cause(ctx)
		}
	}
	timer.Nap(clock, end)
	p.late = clock.Now() - end
	return nil
}

// spinner computes without a result, as a transform would.
type spinner struct {
	owed  int64   // ns still to compute; negative after computing too long
	speed float64 // rounds of churn in a ns
	sink  uint64
}

// spin computes until the thread has spent d of CPU time, not until so much time has passed. So
// workers that share a core slow each other down, as they would with real work. If one spin
// took too long, the next is shorter by that.
func (p *spinner) spin(ctx context.Context, d time.Duration) error {
	const (
		least = 500                     // ns between readings of the thread's clock, which takes as long
		most  = int64(time.Millisecond) // between looks at ctx
	)
	runtime.LockOSThread() // CPU time is read of this thread
	defer runtime.UnlockOSThread()
	p.owed += int64(d)
	for last := timer.CPU(); p.owed > 0; {
		// This leaves an eighth for another round, because the speed changes with the core's
		// other work.
		slice := min(max(p.owed-p.owed/8, least), most)
		rounds := 1 + float64(slice)*p.speed
		p.sink = churn(p.sink, int(rounds))
		now := timer.CPU()
		p.owed -= now - last
		if now-last > 8*least {
			p.speed = rounds / float64(now-last)
		}
		last = now
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// churn computes n rounds of a generator.
func churn(seed uint64, n int) uint64 {
	r := splitmix.Source(seed)
	var x uint64
	for range n {
		x ^= r.Uint64()
	}
	return x
}
