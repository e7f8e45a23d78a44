package devicetest

import (
	"errors"
	"testing"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// twoStreams runs programs that need scratch memory on two streams at once. They must not overwrite
// each other's.
func twoStreams(r *rig) {
	op := kernels.ConvBackwardWeight{Conv: kernels.Conv{N: 8, H: 8, W: 8, C: 32, K: 32, R: 3, S: 3, Stride: 1, Pad: 1}, Bias: true}
	args := op.Args()
	var progs [2]device.Program
	var out [2]device.Buffer
	var want [2][]byte
	for i := range progs {
		host := Case{Op: op}.inputs(args)
		for j := range kernels.Floats(host[1]) {
			kernels.Floats(host[1])[j] *= float32(i + 1)
		}
		bufs := make([]device.Buffer, len(args))
		for j, h := range host {
			bufs[j] = r.alloc(len(h))
			r.put(bufs[j], h)
		}
		op.Reference(host)
		out[i], want[i] = bufs[2], host[2]
		progs[i] = r.prepare(device.Launch{Op: op, Bufs: bufs})
	}
	streams := [2]device.Stream{r.main, r.second()}
	for round := range 12 {
		i := round % 2
		r.must(r.dev.Launch(streams[i], progs[i]))
		if round%3 == 2 { // and twice in a row on one stream
			r.must(r.dev.Launch(streams[i], progs[i]))
		}
	}
	r.finish(streams[0])
	r.finish(streams[1])
	for i := range out {
		if err := Compare(kernels.Floats(r.get(out[i])), kernels.Floats(want[i]), 2e-5); err != nil {
			r.Errorf("program %d: %v", i, err)
		}
	}
}

type unknown struct{}

func (unknown) Name() string   { return "unknown" }
func (unknown) FLOPs() float64 { return 0 }
func (unknown) Bytes() float64 { return 0 }

func prepareErrors(r *rig) {
	a := r.alloc(4 * 100)
	freed, err := r.dev.Alloc(4 * 100)
	r.must(err)
	r.dev.Free(freed)
	add := kernels.Add{N: 100}
	for _, c := range []struct {
		name string
		l    device.Launch
	}{
		{"no operation", device.Launch{}},
		{"too few buffers", device.Launch{Op: add, Bufs: []device.Buffer{a, a}}},
		{"too many buffers", device.Launch{Op: add, Bufs: []device.Buffer{a, a, a, a}}},
		{"a small buffer", device.Launch{Op: add, Bufs: []device.Buffer{a, a, a.Slice(0, 396)}}},
		{"a buffer past its end", device.Launch{Op: add, Bufs: []device.Buffer{a, a, {Addr: a.Addr + 64, Size: a.Size}}}},
		{"a zero buffer", device.Launch{Op: add, Bufs: []device.Buffer{a, {}, a}}},
		{"a foreign buffer", device.Launch{Op: add, Bufs: []device.Buffer{a, {Addr: 64, Size: 400}, a}}},
		{"a freed buffer", device.Launch{Op: add, Bufs: []device.Buffer{a, a, freed}}},
	} {
		p, err := r.dev.Prepare([]device.Launch{{Op: add, Bufs: []device.Buffer{a, a, a}, Layer: "ok"}, c.l})
		if err == nil {
			r.Errorf("%s: no error", c.name)
			r.dev.Release(p)
		}
	}
	if _, err := r.dev.Prepare([]device.Launch{{Op: unknown{}, Bufs: []device.Buffer{a}}}); !errors.Is(err, device.ErrUnsupported) {
		r.Errorf("an unknown operation: %v, want ErrUnsupported", err)
	}
	p := r.prepare(device.Launch{Op: add, Bufs: []device.Buffer{a, a, a}}) // the device lives on
	r.must(r.dev.Launch(r.main, p))
	r.finish(r.main)
	r.must(r.dev.Launch(r.main, r.prepare())) // an empty program is one too
}

func badHandles(r *rig) {
	a, e := r.alloc(64), r.event()
	p := r.prepare(device.Launch{Op: kernels.Zero{N: 64}, Bufs: []device.Buffer{a}})
	released, err := r.dev.Prepare([]device.Launch{{Op: kernels.Zero{N: 64}, Bufs: []device.Buffer{a}}})
	r.must(err)
	r.dev.Release(released)
	freed, err := r.dev.NewEvent()
	r.must(err)
	r.dev.FreeEvent(freed)
	query := func(e device.Event) error { _, err := r.dev.Query(e); return err }
	elapsed := func(a, b device.Event) error { _, err := r.dev.Elapsed(a, b); return err }
	for name, err := range map[string]error{
		"launch on stream 0":       r.dev.Launch(0, p),
		"launch on stream 99":      r.dev.Launch(99, p),
		"launch program 0":         r.dev.Launch(r.main, 0),
		"launch program 99999":     r.dev.Launch(r.main, 99999),
		"launch released program":  r.dev.Launch(r.main, released),
		"copy on stream -1":        r.dev.CopyIn(-1, a, make([]byte, 4)),
		"copy to a foreign buffer": r.dev.CopyIn(r.main, device.Buffer{Addr: 64, Size: 64}, make([]byte, 4)),
		"record event 0":           r.dev.Record(r.main, 0),
		"record on stream 0":       r.dev.Record(0, e),
		"wait on event 99999":      r.dev.Wait(r.main, 99999),
		"query a freed event":      query(freed),
		"sync event -1":            r.dev.Sync(-1),
		"elapsed of event 0":       elapsed(0, e),
	} {
		if err == nil {
			r.Errorf("%s: no error", name)
		}
	}
	r.dev.Release(0)
	r.dev.FreeEvent(0)
	r.dev.Free(device.Buffer{})
	r.dev.FreeHost(nil)
}

func timeOps(r *rig) {
	timer, ok := r.dev.(device.OpTimer)
	if !ok {
		r.Skip("the device does not time launches")
	}
	const n = 100_000
	y := r.alloc(4 * n)
	p := doubling(r, y, n, 3)
	ones := make([]float32, n)
	for i := range ones {
		ones[i] = 1
	}
	r.put(y, floatBytes(ones))
	r.must(r.dev.Launch(r.main, p))
	var timings [device.TimedRuns]device.Timing
	for i := range timings {
		var err error
		if timings[i], err = timer.LaunchTimed(r.main, p); err != nil || timings[i] == 0 {
			r.Fatalf("timed launch %d: timing %d, %v", i, timings[i], err)
		}
	}
	if t, err := timer.LaunchTimed(r.main, p); t != 0 || err != nil {
		r.Errorf("one timed launch more than may be unread: timing %d, %v", t, err)
	}
	r.finish(r.main)
	times := make([]time.Duration, 0, 3)
	for range 2 {
		for i, t := range timings {
			var err error
			if times, err = timer.OpTimes(t, times); err != nil || len(times) != 3 {
				r.Fatalf("timing %d: %d times for 3 launches, %v", i, len(times), err)
			}
			for j, d := range times {
				if d <= 0 {
					r.Errorf("timing %d: launch %d took %v", i, j, d)
				}
			}
			if _, err := timer.OpTimes(t, times); err == nil {
				r.Errorf("timing %d can be read twice", i)
			}
			if timings[i], err = timer.LaunchTimed(r.main, p); err != nil || timings[i] == 0 {
				r.Errorf("a timing that was read cannot be used again: %v", err)
			}
		}
		r.finish(r.main)
	}
	if r.dev.Info().Computes { // all of them ran: 1 + 4 + 1 + 8 launches doubled y three times each
		if got := kernels.Floats(r.get(y))[n-1]; got != 1<<(3*14) {
			r.Errorf("1 became %g in 14 launches, want 2^42", got)
		}
	}
	for _, bad := range []device.Timing{0, 1, -1, 1 << 20} {
		if _, err := timer.OpTimes(bad, nil); err == nil {
			r.Errorf("the times of timing %d, which does not exist", bad)
		}
	}
	if _, err := timer.LaunchTimed(r.main, 0); err == nil {
		r.Error("a timed launch of no program")
	}
	if _, err := timer.LaunchTimed(0, p); err == nil {
		r.Error("a timed launch on no stream")
	}
}

func memoryPeak(r *rig) {
	before := r.dev.MemoryPeak()
	const n = 32 << 20
	bufs := []device.Buffer{r.alloc(n), r.alloc(n)}
	after := r.dev.MemoryPeak()
	if after < 2*n || after < before {
		r.Errorf("peak %d before and %d after holding %d", before, after, len(bufs)*n)
	}
}

// noAllocation runs what a step of the engine calls.
func noAllocation(r *rig) {
	const n = 1024
	in, y, h := r.alloc(4*n), r.alloc(4*n), r.hostBytes(4*n)
	p := r.prepare(device.Launch{Op: kernels.Add{N: n}, Bufs: []device.Buffer{in, y, y}})
	from, copied, to := r.event(), r.event(), r.event()
	step := func() {
		_ = r.dev.CopyIn(r.second(), in, h)
		_ = r.dev.Record(r.second(), copied)
		_ = r.dev.Wait(r.main, copied)
		_ = r.dev.Record(r.main, from)
		_ = r.dev.Launch(r.main, p)
		_ = r.dev.Record(r.main, to)
		_ = r.dev.Wait(r.second(), to)
		_, _ = r.dev.Query(from)
		_ = r.dev.Sync(to)
		_, _ = r.dev.Elapsed(from, to)
	}
	step()
	if a := testing.AllocsPerRun(50, step); a >= 1 {
		r.Errorf("a step allocates %v times", a)
	}
	timer, ok := r.dev.(device.OpTimer)
	if !ok {
		return
	}
	var times []time.Duration
	timed := func() {
		t, _ := timer.LaunchTimed(r.main, p)
		_ = r.dev.Record(r.main, to)
		_ = r.dev.Sync(to)
		times, _ = timer.OpTimes(t, times)
	}
	for range device.TimedRuns + 1 { // what a timing needs is made once
		timed()
	}
	if a := testing.AllocsPerRun(50, timed); a >= 1 {
		r.Errorf("a timed launch allocates %v times", a)
	}
}
