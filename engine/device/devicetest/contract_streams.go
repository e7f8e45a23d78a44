package devicetest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

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

// queryDoesNotBlock enqueues much work and calls Query until it returns true. A device may be done
// already, so only the sequence is checked: a completed event stays completed, and Elapsed fails as
// long as Query returns false.
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

// Pipeline runs steps of copy in, compute and copy out over two streams, as the engine does. It
// returns how many steps saw a wrong batch. Without the waits between the streams, a device with
// asynchronous streams should get batches wrong. So a test can show that the waits are needed.
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

func readBehindCompute(r *rig) {
	if bad := ReadBack(r.T, r.dev, 60, true); bad != 0 {
		r.Errorf("%d of 60 steps read another step's result", bad)
	}
}

// ReadBack runs steps that compute on one stream and copy the result to the host on
// another one, as the engine reads metrics. It returns how many steps read a wrong
// result. Two result buffers take turns. The copy waits for its step, and the step that
// overwrites a result waits for its copy. Without the waits it is a race that a device
// with asynchronous streams should lose.
func ReadBack(t *testing.T, dev device.Device, steps int, waits bool) (bad int) {
	t.Helper()
	r := newRig(t, dev)
	const n = 64 << 10
	one := make([]float32, n)
	for i := range one {
		one[i] = 1
	}
	ones, count := r.alloc(4*n), r.alloc(4*n)
	r.put(ones, floatBytes(one))
	r.put(count, make([]byte, 4*n))
	var programs [2]device.Program
	var results [2]device.Buffer
	out := [2][]byte{r.hostBytes(4 * n), r.hostBytes(4 * n)}
	computed, read := [2]device.Event{r.event(), r.event()}, [2]device.Event{r.event(), r.event()}
	for i := range programs {
		results[i] = r.alloc(4 * n)
		programs[i] = r.prepare(
			device.Launch{Op: kernels.Add{N: n}, Bufs: []device.Buffer{count, ones, count}},
			device.Launch{Op: kernels.Zero{N: 4 * n}, Bufs: []device.Buffer{results[i]}},
			device.Launch{Op: kernels.Add{N: n}, Bufs: []device.Buffer{results[i], count, results[i]}},
		)
	}
	check := func(step int) {
		r.must(dev.Sync(read[step%2]))
		for _, v := range kernels.Floats(out[step%2]) {
			if v != float32(step+1) {
				bad++
				return
			}
		}
	}
	for step := range steps {
		if step >= 2 {
			check(step - 2)
		}
		i := step % 2
		if waits {
			r.must(dev.Wait(r.main, read[i]))
		}
		r.must(dev.Launch(r.main, programs[i]))
		r.must(dev.Record(r.main, computed[i]))
		if waits {
			r.must(dev.Wait(r.second(), computed[i]))
		}
		r.must(dev.CopyOut(r.second(), out[i], results[i]))
		r.must(dev.Record(r.second(), read[i]))
	}
	for step := max(steps-2, 0); step < steps; step++ {
		check(step)
	}
	r.finish(r.main)
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
