package trace

import (
	"math/bits"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tsc reads the processor's time-stamp counter: about 10 ns where the operating
// system's clock takes 25 (RDTSC, Intel SDM volume 2).
func tsc() uint64

// ticks turns the counter into nanoseconds. The zero value does nothing.
type ticks struct {
	mult uint64 // ns a tick, times 2^32; 0: do not use the counter
	from uint64
	// The counter went back, because it was reset while the machine slept.
	broken atomic.Bool
}

func newTicks() *ticks { return &ticks{mult: rate(), from: tsc()} }

// ns returns the nanoseconds since newTicks; false when the counter cannot be used.
func (t *ticks) ns() (int64, bool) {
	d := tsc() - t.from
	if t.mult == 0 || int64(d) < 0 || t.broken.Load() {
		t.broken.Store(t.mult != 0)
		return 0, false
	}
	hi, lo := bits.Mul64(d, t.mult)
	return int64(hi<<32 | lo>>32), true
}

// clocksource is the file that names Linux's clock. It says "tsc" only where the kernel has found
// that the counter runs at one rate and is alike on all processors. The kernel goes on watching it.
const clocksource = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

// rate measures the counter against the monotonic clock once, to about 5 ppm. It is 0 where the
// counter cannot be trusted.
var rate = sync.OnceValue(func() uint64 {
	b, err := os.ReadFile(clocksource)
	if err != nil || strings.TrimSpace(string(b)) != "tsc" {
		return 0
	}
	origin := time.Now()
	t0, n0 := pair(origin)
	time.Sleep(10 * time.Millisecond)
	t1, n1 := pair(origin)
	if t1 <= t0 || n1 <= n0 {
		return 0
	}
	hi, lo := uint64(n1-n0)>>32, uint64(n1-n0)<<32
	if hi >= t1-t0 {
		return 0
	}
	mult, _ := bits.Div64(hi, lo, t1-t0)
	return mult
})

// pair reads both clocks at about the same moment. It takes the closest of some tries, because the
// thread may be moved between two readings.
func pair(origin time.Time) (uint64, int64) {
	var at uint64
	var ns int64
	best := ^uint64(0)
	for range 20 {
		a := tsc()
		n := int64(time.Since(origin))
		b := tsc()
		if b-a < best {
			best, at, ns = b-a, a+(b-a)/2, n
		}
	}
	return at, ns
}
