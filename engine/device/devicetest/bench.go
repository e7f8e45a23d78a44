package devicetest

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// Batch is the batch size of Bench.
const Batch = 128

// benchmarks returns the launches of ResNet-18 in its CIFAR form that cost the most.
func benchmarks(t kernels.Type) []kernels.Op {
	var ops []kernels.Op
	for _, l := range []struct{ size, c, k, stride int }{
		{32, 64, 64, 1}, {32, 64, 128, 2}, {16, 128, 128, 1}, {8, 256, 256, 1}, {4, 512, 512, 1},
	} {
		c := kernels.Conv{N: Batch, H: l.size, W: l.size, C: l.c, K: l.k, R: 3, S: 3, Stride: l.stride, Pad: 1}
		ops = append(ops,
			kernels.ConvForward{Conv: c, Type: t},
			kernels.ConvBackwardData{Conv: c, Type: t},
			kernels.ConvBackwardWeight{Conv: c, Type: t})
	}
	rows := Batch * 32 * 32
	return append(ops,
		kernels.BatchNormForward{Rows: rows, C: 64, Type: t, Eps: 1e-5, Momentum: 0.1, Train: true, ReLU: true, Residual: true},
		kernels.BatchNormBackward{Rows: rows, C: 64, Type: t, ReLU: true, Residual: true},
		kernels.AvgPool{N: Batch, H: 4, W: 4, C: 512, Type: t},
		kernels.Linear{N: Batch, In: 512, Out: 10, Type: t},
		kernels.LinearBackward{Linear: kernels.Linear{N: Batch, In: 512, Out: 10, Type: t}},
		kernels.Optimizer{N: 11_173_962, Copy: t})
}

func describe(op kernels.Op) string {
	s := op.Name()
	switch op := op.(type) {
	case kernels.ConvForward:
		s += geometry(op.Conv)
	case kernels.ConvBackwardData:
		s += geometry(op.Conv)
	case kernels.ConvBackwardWeight:
		s += geometry(op.Conv)
	}
	return s
}

func geometry(c kernels.Conv) string {
	return fmt.Sprintf(" %dx%dx%d-%d", c.H, c.W, c.C, c.K)
}

// Bench measures each operation's device time with events and reports its
// GFLOP/s and GB/s, and the bandwidth of copies from pinned and other memory.
func Bench(b *testing.B, dev device.Device) {
	s, err := dev.NewStream("bench")
	if err != nil {
		b.Fatal(err)
	}
	for _, pinned := range []bool{true, false} {
		name := "copy pageable"
		if pinned {
			name = "copy pinned"
		}
		b.Run(name, func(b *testing.B) { benchCopy(b, dev, s, pinned) })
	}
	for _, t := range types {
		if !supports(dev, t) {
			continue
		}
		for _, op := range benchmarks(t) {
			b.Run(t.String()+"/"+describe(op), func(b *testing.B) { benchOp(b, dev, s, op) })
		}
	}
}

// timed runs enqueue b.N times between two events.
func timed(b *testing.B, dev device.Device, s device.Stream, enqueue func() error) {
	var e [2]device.Event
	for i := range e {
		var err error
		if e[i], err = dev.NewEvent(); err != nil {
			b.Fatal(err)
		}
		defer dev.FreeEvent(e[i])
	}
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	check(enqueue()) // warm up
	check(dev.Record(s, e[0]))
	check(dev.Sync(e[0]))
	b.ResetTimer()
	check(dev.Record(s, e[0]))
	for range b.N {
		check(enqueue())
	}
	check(dev.Record(s, e[1]))
	check(dev.Sync(e[1]))
	b.StopTimer()
	t, err := dev.Elapsed(e[0], e[1])
	check(err)
	b.ReportMetric(float64(t.Nanoseconds())/float64(b.N), "device-ns/op")
}

func perSecond(b *testing.B, work float64, unit string) {
	if s := b.Elapsed().Seconds(); s > 0 && work > 0 {
		b.ReportMetric(work*float64(b.N)/s/1e9, unit)
	}
}

func benchCopy(b *testing.B, dev device.Device, s device.Stream, pinned bool) {
	const n = 16 << 20
	dst, err := dev.Alloc(n)
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Free(dst)
	src := make([]byte, n)
	if pinned {
		if src, err = dev.AllocHost(n); err != nil {
			b.Fatal(err)
		}
		defer dev.FreeHost(src)
	}
	clear(src) // touch every page
	timed(b, dev, s, func() error { return dev.CopyIn(s, dst, src) })
	perSecond(b, n, "GB/s")
}

func benchOp(b *testing.B, dev device.Device, s device.Stream, op kernels.Op) {
	// Random inputs: a processor draws less power, and may clock higher, on zeros.
	rng := rand.New(rand.NewPCG(1, 1))
	var bufs []device.Buffer
	var imgs [][]byte
	for _, a := range op.Args() {
		buf, err := dev.Alloc(a.Size())
		if err != nil {
			b.Fatal(err)
		}
		defer dev.Free(buf)
		bufs = append(bufs, buf)
		img := floatBytes(make([]float32, (a.Size()+3)/4))[:a.Size()]
		fill(rng, a, img)
		imgs = append(imgs, img)
		if err := dev.CopyIn(s, buf, img); err != nil {
			b.Fatal(err)
		}
	}
	p, err := dev.Prepare([]device.Launch{{Op: op, Bufs: bufs}})
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Release(p)
	timed(b, dev, s, func() error { return dev.Launch(s, p) })
	runtime.KeepAlive(imgs) // the device may have read them until its first event
	perSecond(b, op.FLOPs(), "GFLOP/s")
	perSecond(b, op.Bytes(), "moved-GB/s")
}
