package loader

import (
	"context"
	"fmt"
	"testing"
	"time"

	"dev.gpustall/engine/trace"
)

// blank is a data set in memory with samples of a given size; reading and
// transforming one is a copy.
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

// BenchmarkNext is the loader's own cost: samples that are almost free.
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

// BenchmarkCopy moves 128 samples of 3 KiB a batch through the loader; memcpy is
// the bound: the same copies in one goroutine and nothing else.
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

// BenchmarkOrder shuffles an epoch of ImageNet's size.
func BenchmarkOrder(b *testing.B) {
	s := NewSampler(1, 1_281_167)
	var order []int32
	for i := 0; b.Loop(); i++ {
		order = s.Order(order, i, true)
	}
}
