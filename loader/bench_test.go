package loader

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"dev.gpustall/engine/trace"
)

// blank is a data set in memory with samples of a given size. Reading and transforming
// a sample are copies.
type blank struct {
	info Info
	data []byte
}

func newBlank(bytes int) *blank {
	return &blank{
		info: Info{Name: "blank", Samples: 1 << 16, H: 1, W: bytes, C: 1, Bytes: int64(bytes) << 16},
		data: make([]byte, bytes),
	}
}

func (d *blank) Info() Info { return d.info }

func (d *blank) Read(_ context.Context, s *Sample) error {
	s.Raw = d.data
	return nil
}

func (d *blank) Decode(s *Sample) error {
	s.Pixels, s.H, s.W, s.C = s.Raw, 1, len(s.Raw), 1
	return nil
}

func (d *blank) Close() error { return nil }

type copying struct{}

func (copying) Host(s *Sample, _ *RNG, dst []float32) { dst[0] = float32(s.Pixels[0]) }

func (copying) Device(s *Sample, _ *RNG, dst []byte, _ []int32) int { return copy(dst, s.Pixels) }

func (copying) Normalisation() (mean, std [4]float32) { return }

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	for _, workers := range []int{0, 1, 4} {
		for _, ceiling := range []bool{false, true} {
			l := open(t, Options{
				Dataset: newBlank(64), Transform: copying{}, Hold: 2, Recorder: trace.NewRecorder(trace.NewClock(), 0),
				Knobs: Knobs{BatchSize: 8, NumWorkers: workers, InOrder: true, Shuffle: true, DeviceTransforms: true, Ceiling: ceiling,
					Inject: Inject{Read: time.Microsecond, CPU: time.Microsecond}},
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			step := func() {
				b, err := l.Next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				b.Release()
			}
			for range 100 {
				step()
			}
			if n := testing.AllocsPerRun(200, step); n != 0 {
				t.Errorf("%d workers, ceiling %v: %v allocations a batch", workers, ceiling, n)
			}
		}
	}
}

// BenchmarkNext measures the loader's own cost, with samples that are almost free. In batches
// of one it measures the cost of a batch, for which the aim is 5 us.
func BenchmarkNext(b *testing.B) {
	for _, batch := range []int{1, 128} {
		for _, workers := range []int{0, 1, 2, 8} {
			for _, recorded := range []bool{false, true} {
				b.Run(fmt.Sprintf("batch=%d/workers=%d/recorded=%v", batch, workers, recorded), func(b *testing.B) {
					var rec *trace.Recorder
					if recorded {
						rec = trace.NewRecorder(trace.NewClock(), 0)
					}
					benchmark(b, newBlank(1), Knobs{BatchSize: batch, NumWorkers: workers, InOrder: true, DeviceTransforms: true}, rec)
				})
			}
		}
	}
}

// BenchmarkCopy moves 128 samples of 3 KiB a batch through the loader. memcpy is the
// bound: the same copies in one goroutine and nothing else.
func BenchmarkCopy(b *testing.B) {
	const batch, size = 128, 3072
	b.Run("memcpy", func(b *testing.B) {
		src, slots := make([]byte, size), make([][]byte, 6)
		for i := range slots {
			slots[i] = make([]byte, batch*size)
		}
		b.SetBytes(batch * size)
		for i := 0; b.Loop(); i++ {
			dst := slots[i%len(slots)]
			for j := range batch {
				copy(dst[j*size:(j+1)*size], src)
			}
		}
	})
	for _, workers := range []int{0, 1, 2, 8} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			b.SetBytes(batch * size)
			benchmark(b, newBlank(size), Knobs{BatchSize: batch, NumWorkers: workers, InOrder: true, DeviceTransforms: true}, nil)
		})
	}
}

func benchmark(b *testing.B, d Dataset, k Knobs, rec *trace.Recorder) {
	l := open(b, Options{Dataset: d, Transform: copying{}, Hold: 2, Recorder: rec, Knobs: k})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		batch, err := l.Next(ctx)
		if err != nil {
			b.Fatal(err)
		}
		batch.Release()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "batches/s")
}

// BenchmarkChange changes a knob every tenth step. In each step of 10 ms the consumer only
// waits. The cost of a change is the time of Set and the waits of Next until the following
// change. It is told in steps, as the mean and the worst. The aim is less than one.
func BenchmarkChange(b *testing.B) {
	const step, steps = 10 * time.Millisecond, 10
	start := Knobs{BatchSize: 128, NumWorkers: 2, InOrder: true, Shuffle: true}
	for name, change := range map[string]func(*Knobs){
		"num_workers":       func(k *Knobs) { k.NumWorkers = 8 - k.NumWorkers },
		"inline":            func(k *Knobs) { k.NumWorkers = 2 - k.NumWorkers },
		"prefetch_factor":   func(k *Knobs) { k.PrefetchFactor = 8 - k.Prefetch() },
		"in_order":          func(k *Knobs) { k.InOrder = !k.InOrder },
		"batch_size":        func(k *Knobs) { k.BatchSize = 384 - k.BatchSize },
		"device_transforms": func(k *Knobs) { k.DeviceTransforms = !k.DeviceTransforms },
	} {
		b.Run(name, func(b *testing.B) {
			k := start
			l := open(b, Options{Dataset: newBlank(3072), Transform: copying{}, Hold: 2, Knobs: k})
			next := func() time.Duration {
				began := time.Now()
				batch, err := l.Next(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				waited := time.Since(began)
				time.Sleep(step)
				batch.Release()
				return waited
			}
			for range steps {
				next()
			}
			var all, worst time.Duration
			changes := 0
			for b.Loop() {
				change(&k)
				began := time.Now()
				if err := l.Set(k); err != nil {
					b.Fatal(err)
				}
				took := time.Since(began)
				for range steps {
					took += next()
				}
				all, worst, changes = all+took, max(worst, took), changes+1
			}
			b.ReportMetric(float64(all)/float64(changes)/float64(step), "steps/change")
			b.ReportMetric(float64(worst)/float64(step), "steps/worst")
		})
	}
}

// BenchmarkFlat delivers 200,000 batches, and changes the knobs every thousand. It
// compares the memory in use at the end with the memory after the first 12,000.
func BenchmarkFlat(b *testing.B) {
	const batches, first, every, allowed = 200_000, 12_000, 1000, 1 << 20 // at first and last with equal knobs
	rec := trace.NewRecorder(trace.NewClock(), 0)
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	for b.Loop() {
		k := Knobs{BatchSize: 8, NumWorkers: 2, InOrder: true, Shuffle: true, DeviceTransforms: true}
		l := open(b, Options{Dataset: newBlank(64), Transform: copying{}, Hold: 2, Recorder: rec, Knobs: k})
		var then int64
		for i := range batches {
			switch i % every {
			case 0:
				k.NumWorkers, k.BatchSize, k.InOrder = 2, 8, i/every%2 == 0
			case every / 2:
				k.NumWorkers, k.BatchSize = i/every%4, 4
			}
			if i == first {
				then = inUse()
			}
			if i%(every/2) == 0 {
				if err := l.Set(k); err != nil {
					b.Fatal(err)
				}
			}
			batch, err := l.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			batch.Release()
		}
		now := inUse()
		b.ReportMetric(float64(then)/(1<<20), "MiB/first")
		b.ReportMetric(float64(now)/(1<<20), "MiB/last")
		if now > then+allowed {
			b.Errorf("%d bytes in use after %d batches, %d after %d", now, batches, then, first)
		}
		l.Close()
	}
}

// BenchmarkOrder shuffles an epoch of ImageNet's size.
func BenchmarkOrder(b *testing.B) {
	s := NewSampler(1, 1_281_167)
	var order []int32
	for i := 0; b.Loop(); i++ {
		order = s.Order(order, i, true)
	}
}
