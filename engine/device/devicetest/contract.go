package devicetest

import (
	"bytes"
	"errors"
	"strings"
	"sync"
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
	{"reservation", false, reservation},
	{"host memory", false, hostMemory},
	{"round trip", true, roundTrip},
	{"copy sizes", false, copySizes},
	{"order within a stream", true, streamOrder},
	{"new event", false, newEvent},
	{"event times", false, eventTimes},
	{"query does not block", false, queryDoesNotBlock},
	{"copy then compute", true, copyThenCompute},
	{"read back behind compute", true, readBehindCompute},
	{"wait keeps its record", true, waitKeepsItsRecord},
	{"host memory reuse", true, hostReuse},
	{"free in use", true, freeInUse},
	{"programs on two streams", true, twoStreams},
	{"loss scale", true, lossScale},
	{"optimizers follow PyTorch", true, optimizers},
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
	if i.Kind == "emu" && i.Computes {
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

// reservation checks that reserved memory can be allocated, once, and that a reservation that fails
// changes nothing.
func reservation(r *rig) {
	d, ok := r.dev.(device.Reserver)
	if !ok {
		r.Skip("the device reserves nothing")
	}
	huge := device.Reservation{Sizes: []int{4096, 1 << 50}}
	if d.Fits(huge) {
		r.Error("a PiB fits")
	}
	if _, err := d.Reserve(huge); !errors.Is(err, device.ErrOutOfMemory) {
		r.Errorf("Reserve of a PiB: %v, want ErrOutOfMemory", err)
	}
	op := kernels.ConvBackwardWeight{Conv: kernels.Conv{N: 4, H: 8, W: 8, C: 16, K: 16, R: 3, S: 3, Stride: 1, Pad: 1}}
	res := device.Reservation{Sizes: []int{1 << 20, 300, 5 << 20}, Launches: []device.Launch{{Op: op}}}
	if !d.Fits(res) {
		r.Fatal("six MiB do not fit")
	}
	if _, err := d.Reserve(res); err != nil {
		r.Fatal(err)
	}
	reserved := func(res device.Reservation, when string) {
		r.Helper()
		if took, err := d.Reserve(res); err != nil || took != 0 {
			r.Errorf("%s: took %d bytes more, %v", when, took, err)
		}
	}
	reserved(res, "again, with nothing allocated")
	var bufs []device.Buffer
	for _, n := range res.Sizes {
		bufs = append(bufs, r.alloc(n))
	}
	reserved(device.Reservation{Sizes: res.Sizes, Instead: bufs, Launches: res.Launches}, "in place of what is allocated")
	if n := d.Overhead(res.Launches); n < 0 {
		r.Errorf("an overhead of %d bytes", n)
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
				if len(b) != n || uintptr(unsafe.Pointer(&b[0]))%64 != 0 {
					r.Errorf("AllocHost(%d): %d bytes at %p, want that many at a multiple of 64", n, len(b), &b[0])
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
