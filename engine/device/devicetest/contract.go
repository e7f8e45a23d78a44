package devicetest

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// contract is what every device promises.
var contract = []struct {
	name     string
	computes bool // needs a device that holds data
	run      func(*rig)
}{
	{"info", false, info},
	{"alloc", false, alloc},
	{"out of memory", false, outOfMemory},
	{"host memory", false, hostMemory},
	{"round trip", true, roundTrip},
	{"copy sizes", false, copySizes},
	{"order within a stream", true, streamOrder},
	{"new event", false, newEvent},
	{"event times", false, eventTimes},
	{"query does not block", false, queryDoesNotBlock},
	{"copy then compute", true, copyThenCompute},
	{"wait keeps its record", true, waitKeepsItsRecord},
	{"host memory reuse", true, hostReuse},
	{"free in use", true, freeInUse},
	{"prepare errors", false, prepareErrors},
	{"bad handles", false, badHandles},
	{"time ops", false, timeOps},
	{"memory peak", false, memoryPeak},
	{"no allocation", false, noAllocation},
}

func info(r *rig) {
	i := r.dev.Info()
	if i.Kind == "" || i.Name == "" || len(i.Types) == 0 {
		r.Errorf("incomplete: %+v", i)
	}
	if i.Emulated && i.Computes {
		r.Error("a modelled device must not claim to compute")
	}
}

func alloc(r *rig) {
	var bufs []device.Buffer
	for _, n := range []int{1, 63, 64, 4096, 1 << 20} {
		b := r.alloc(n)
		if b.Size != n || b.Addr%64 != 0 {
			r.Errorf("Alloc(%d) = %+v, want that size and an address that is a multiple of 64", n, b)
		}
		for _, o := range bufs {
			if b.Addr < o.Addr+uint64(o.Size) && o.Addr < b.Addr+uint64(b.Size) {
				r.Errorf("%+v overlaps %+v", b, o)
			}
		}
		bufs = append(bufs, b)
	}
	for _, n := range []int{0, -1} {
		if _, err := r.dev.Alloc(n); err == nil {
			r.Errorf("Alloc(%d) gave no error", n)
		}
		if _, err := r.dev.AllocHost(n); err == nil {
			r.Errorf("AllocHost(%d) gave no error", n)
		}
	}
}

func outOfMemory(r *rig) {
	_, err := r.dev.Alloc(1 << 50)
	if !errors.Is(err, device.ErrOutOfMemory) || !strings.Contains(err.Error(), "batch_size") {
		r.Errorf("Alloc(1 PiB): %v, want ErrOutOfMemory that names batch_size", err)
	}
	r.alloc(1 << 16) // the device lives on
}

func hostMemory(r *rig) {
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { // workers allocate their own slots
			for n := 1; n < 1<<20; n = n*7 + 1 {
				b, err := r.dev.AllocHost(n)
				if err != nil {
					r.Error(err)
					return
				}
				if len(b) != n || uintptr(unsafe.Pointer(&b[0]))%4096 != 0 {
					r.Errorf("AllocHost(%d): %d bytes at %p, want that many on a page", n, len(b), &b[0])
				}
				b[0], b[n-1] = byte(i), byte(i)
				r.dev.FreeHost(b)
			}
		})
	}
	wg.Wait()
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*31) + seed
	}
	return b
}

func roundTrip(r *rig) {
	for _, n := range []int{1, 4, 1000, 1 << 20} {
		b := r.alloc(n)
		want := pattern(n, 5)
		r.put(b, want)
		if got := r.get(b); !bytes.Equal(got, want) {
			r.Errorf("%d bytes came back changed", n)
		}
		if n > 500 { // a part, from pinned memory
			part := b.Slice(100, 300)
			h := r.hostBytes(300)
			copy(h, pattern(300, 99))
			r.put(part, h)
			copy(want[100:400], h)
			if got := r.get(b); !bytes.Equal(got, want) {
				r.Errorf("a copy into a part of %d bytes went elsewhere", n)
			}
		}
	}
}

func copySizes(r *rig) {
	b := r.alloc(64)
	if r.dev.CopyIn(r.main, b, make([]byte, 65)) == nil {
		r.Error("CopyIn of 65 bytes into 64 gave no error")
	}
	if r.dev.CopyOut(r.main, make([]byte, 65), b) == nil {
		r.Error("CopyOut of 65 bytes from 64 gave no error")
	}
	r.must(r.dev.CopyIn(r.main, b, make([]byte, 10)))
	r.finish(r.main)
}

// doubling returns a program that doubles the n floats of y times times.
func doubling(r *rig, y device.Buffer, n, times int) device.Program {
	var ls []device.Launch
	for range times {
		ls = append(ls, device.Launch{Op: kernels.Add{N: n}, Bufs: []device.Buffer{y, y, y}})
	}
	return r.prepare(ls...)
}

func streamOrder(r *rig) {
	const n = 3000
	y := r.alloc(4 * n)
	p := doubling(r, y, n, 5)
	one := make([]float32, n)
	for i := range one {
		one[i] = float32(i + 1)
	}
	out := r.hostBytes(4 * n)
	for round := range 5 {
		r.must(r.dev.CopyIn(r.main, y, make([]byte, 4*n)))
		r.must(r.dev.CopyIn(r.main, y, floatBytes(one)))
		r.must(r.dev.Launch(r.main, p))
		r.must(r.dev.Launch(r.main, p))
		r.must(r.dev.CopyOut(r.main, out, y))
		r.finish(r.main)
		for i, v := range kernels.Floats(out) {
			if v != one[i]*1024 {
				r.Fatalf("round %d: y[%d] = %v, want %v", round, i, v, one[i]*1024)
			}
		}
	}
}

func newEvent(r *rig) {
	e := r.event()
	if ok, err := r.dev.Query(e); !ok || err != nil {
		r.Errorf("Query of an event never recorded: %v, %v; want true", ok, err)
	}
	r.must(r.dev.Sync(e))
	r.must(r.dev.Wait(r.main, e))
	if _, err := r.dev.Elapsed(e, e); !errors.Is(err, device.ErrNotReady) {
		r.Errorf("Elapsed of an event never recorded: %v, want ErrNotReady", err)
	}
}

func eventTimes(r *rig) {
	from, mid, to := r.event(), r.event(), r.event()
	b, h := r.alloc(8<<20), r.hostBytes(8<<20)
	for range 3 { // events are recorded again and again
		r.must(r.dev.Record(r.main, from))
		r.must(r.dev.CopyIn(r.main, b, h))
		r.must(r.dev.Record(r.main, mid))
		r.must(r.dev.CopyIn(r.main, b, h))
		r.must(r.dev.Record(r.main, to))
		r.must(r.dev.Sync(to))
		for _, e := range []device.Event{from, mid, to} {
			if ok, err := r.dev.Query(e); !ok || err != nil {
				r.Errorf("Query after Sync of a later event: %v, %v", ok, err)
			}
		}
		a, err := r.dev.Elapsed(from, mid)
		r.must(err)
		c, err := r.dev.Elapsed(mid, to)
		r.must(err)
		all, err := r.dev.Elapsed(from, to)
		r.must(err)
		if a <= 0 || c <= 0 {
			r.Errorf("copies of 8 MiB took %v and %v", a, c)
		}
		// CUDA gives float32 milliseconds: a few us of slack at most.
		if d := all - a - c; d < -10*time.Microsecond || d > 10*time.Microsecond {
			r.Errorf("%v + %v is not %v", a, c, all)
		}
	}
}

// queryDoesNotBlock enqueues much work and sees Query say no at once, then yes.
// A device is allowed to be done already, so only the sequence is checked: a
// completed event stays completed, and Elapsed refuses what Query refused.
func queryDoesNotBlock(r *rig) {
	e := r.event()
	b, h := r.alloc(16<<20), r.hostBytes(16<<20)
	for range 4 {
		r.must(r.dev.CopyIn(r.main, b, h))
	}
	r.must(r.dev.Record(r.main, e))
	done, err := r.dev.Query(e)
	r.must(err)
	if !done {
		if _, err := r.dev.Elapsed(e, e); err != nil && !errors.Is(err, device.ErrNotReady) {
			r.Errorf("Elapsed of a pending event: %v, want ErrNotReady or a time", err)
		}
	}
	r.must(r.dev.Sync(e))
	if done, err := r.dev.Query(e); !done || err != nil {
		r.Errorf("Query after Sync: %v, %v", done, err)
	}
}

func copyThenCompute(r *rig) {
	if bad := Pipeline(r.T, r.dev, 60, true); bad != 0 {
		r.Errorf("%d of 60 steps computed on data that had not arrived", bad)
	}
}

// Pipeline trains nothing: it runs steps of copy in, compute and copy out over
// two streams, as the engine does, and returns how many steps saw a wrong
// batch. Without the waits between the streams it is a race that a device
// with asynchronous streams should lose, which is how a test shows that the
// waits are what makes it right.
func Pipeline(t *testing.T, dev device.Device, steps int, waits bool) (bad int) {
	t.Helper()
	r := newRig(t, dev)
	const n = 64 << 10
	in, sum, out := r.alloc(4*n), r.alloc(4*n), make([][]byte, 2)
	p := r.prepare(
		device.Launch{Op: kernels.Zero{N: 4 * n}, Bufs: []device.Buffer{sum}},
		device.Launch{Op: kernels.Add{N: n}, Bufs: []device.Buffer{in, sum, sum}},
		device.Launch{Op: kernels.Add{N: n}, Bufs: []device.Buffer{in, sum, sum}},
	)
	slots := [2][]byte{r.hostBytes(4 * n), r.hostBytes(4 * n)}
	out[0], out[1] = r.hostBytes(4*n), r.hostBytes(4*n)
	copied, computed := r.event(), r.event()
	finished := [2]device.Event{r.event(), r.event()}
	check := func(step int) {
		r.must(dev.Sync(finished[step%2]))
		want := 2 * float32(step+1)
		for _, v := range kernels.Floats(out[step%2]) {
			if v != want {
				bad++
				return
			}
		}
	}
	for step := range steps {
		if step >= 2 {
			check(step - 2)
		}
		slot := kernels.Floats(slots[step%2])
		for i := range slot {
			slot[i] = float32(step + 1)
		}
		if waits {
			r.must(dev.Wait(r.second(), computed)) // the input buffer is free again
		}
		r.must(dev.CopyIn(r.second(), in, slots[step%2]))
		r.must(dev.Record(r.second(), copied))
		if waits {
			r.must(dev.Wait(r.main, copied))
		}
		r.must(dev.Launch(r.main, p))
		r.must(dev.Record(r.main, computed))
		r.must(dev.CopyOut(r.main, out[step%2], sum))
		r.must(dev.Record(r.main, finished[step%2]))
	}
	for step := max(steps-2, 0); step < steps; step++ {
		check(step)
	}
	r.finish(r.second())
	return bad
}

// waitKeepsItsRecord checks that a Wait holds for the Record before it, not for
// one that comes after it.
func waitKeepsItsRecord(r *rig) {
	const n = 1 << 20
	a, b := r.alloc(n), r.alloc(n)
	e := r.event()
	want := pattern(n, 1)
	src := r.hostBytes(n)
	copy(src, want)
	r.must(r.dev.CopyIn(r.second(), a, src))
	r.must(r.dev.Record(r.second(), e))
	r.must(r.dev.Wait(r.main, e))
	got := r.hostBytes(n)
	r.must(r.dev.CopyOut(r.main, got, a))
	// Were the Wait for this later Record, which waits for main, both streams
	// would wait for ever.
	e2 := r.event()
	r.must(r.dev.Record(r.main, e2))
	r.must(r.dev.Wait(r.second(), e2))
	r.must(r.dev.CopyIn(r.second(), b, src))
	r.must(r.dev.Record(r.second(), e))
	r.must(r.dev.Sync(e))
	r.finish(r.main)
	if !bytes.Equal(got, want) {
		r.Error("the copy out did not wait for the copy in")
	}
}

func hostReuse(r *rig) {
	const n = 1 << 20
	b, e := r.alloc(n), r.event()
	for _, pinned := range []bool{true, false} {
		src := make([]byte, n)
		if pinned {
			src = r.hostBytes(n)
		}
		for round := range 5 {
			copy(src, pattern(n, byte(round)))
			r.must(r.dev.CopyIn(r.main, b, src))
			r.must(r.dev.Record(r.main, e))
			r.must(r.dev.Sync(e))
			clear(src) // completed: the memory is ours again
			if got := r.get(b); !bytes.Equal(got, pattern(n, byte(round))) {
				r.Fatalf("pinned %v, round %d: the device read memory after its event completed", pinned, round)
			}
		}
	}
}

func freeInUse(r *rig) {
	const n = 1 << 20
	for range 5 {
		y, err := r.dev.Alloc(4 * n)
		r.must(err)
		p, err := r.dev.Prepare([]device.Launch{{Op: kernels.Add{N: n}, Bufs: []device.Buffer{y, y, y}}})
		r.must(err)
		r.must(r.dev.Launch(r.main, p))
		r.dev.Free(y) // must not pull the memory from under the launch
		r.dev.Release(p)
	}
	r.finish(r.main)
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
	r.must(r.dev.Launch(r.main, p)) // not counted
	r.finish(r.main)
	r.must(timer.TimeOps(p, true))
	for range 4 {
		r.must(r.dev.Launch(r.main, p))
		r.finish(r.main)
	}
	times := timer.OpTimes(p, nil)
	r.must(timer.TimeOps(p, false))
	r.must(r.dev.Launch(r.main, p)) // not counted
	r.finish(r.main)
	times = timer.OpTimes(p, times)
	if len(times) != 3 {
		r.Fatalf("%d times for 3 launches", len(times))
	}
	for i, o := range times {
		if o.Calls != 4 || o.Total <= 0 {
			r.Errorf("launch %d: %d calls, %v; want 4 and some time", i, o.Calls, o.Total)
		}
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
}
