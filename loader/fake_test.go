package loader

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbers is a data set whose sample i is the number i. Its hooks make it slow or
// faulty.
type numbers struct {
	samples int
	groups  Grouping
	onRead  func(ctx context.Context, i int) error
	onCode  func(i int) error
	reads   atomic.Int64
}

const fakeH, fakeW, fakeC = 2, 3, 1

func (d *numbers) Info() Info {
	return Info{Name: "numbers", Format: "fake", Samples: d.samples, H: fakeH, W: fakeW, C: fakeC, Bytes: int64(8 * d.samples)}
}

func (d *numbers) Grouping() Grouping { return d.groups }

func (d *numbers) Read(ctx context.Context, s *Sample) error {
	d.reads.Add(1)
	if d.onRead != nil {
		if err := d.onRead(ctx, s.Index); err != nil {
			return err
		}
	}
	s.Raw = binary.LittleEndian.AppendUint64(s.Raw[:0], uint64(s.Index))
	s.Label = int32(s.Index * 7)
	return nil
}

func (d *numbers) Decode(s *Sample) error {
	if d.onCode != nil {
		if err := d.onCode(s.Index); err != nil {
			return err
		}
	}
	s.H, s.W, s.C = fakeH, fakeW, fakeC
	s.Pixels = append(s.Pixels[:0], s.Raw[:fakeH*fakeW*fakeC]...)
	return nil
}

func (d *numbers) Close() error { return nil }

// mix is a transform whose result depends on the sample and on its randomness.
type mix struct{ onHost func(i int) }

func (m mix) Host(s *Sample, rng *RNG, dst []float32) {
	if m.onHost != nil {
		m.onHost(s.Index)
	}
	for i := range dst {
		dst[i] = float32(s.Pixels[i]) + float32(rng.Float64())
	}
}

func (mix) Device(s *Sample, rng *RNG, dst []byte, record []int32) int {
	n := copy(dst, s.Pixels)
	for i := range record {
		record[i] = int32(rng.IntN(1 << 20))
	}
	return n
}

func (mix) Normalisation() (mean, std [4]float32) { return mean, [4]float32{1, 1, 1, 1} }

// locker is an allocator that counts what it lends and notices a wrong return.
type locker struct {
	mu   sync.Mutex
	lent map[*byte]int
	errs []string
	fail atomic.Bool
	all  atomic.Int64
}

func (a *locker) AllocHost(n int) ([]byte, error) {
	if a.fail.Load() {
		return nil, fmt.Errorf("no page-locked memory left")
	}
	b := floatsOf(n)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lent == nil {
		a.lent = map[*byte]int{}
	}
	a.lent[&b[0]] = n
	a.all.Add(1)
	return b, nil
}

func floatsOf(n int) []byte { return make([]byte, roundUp(n)+align)[:n:n] }

func (a *locker) FreeHost(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n, ok := a.lent[&b[0]]; !ok || n != len(b) {
		a.errs = append(a.errs, fmt.Sprintf("freed %d bytes that were not lent", len(b)))
	}
	delete(a.lent, &b[0])
	clear(b[:min(len(b), 64)]) // a late reader sees it
}

// leaks says what is wrong once everything must have been returned.
func (a *locker) leaks() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.lent) > 0 {
		return fmt.Sprintf("%d page-locked slots were not freed", len(a.lent))
	}
	if len(a.errs) > 0 {
		return a.errs[0]
	}
	return ""
}

// checkContent says whether b carries the samples it claims.
func checkContent(b *Batch, seed int64) error {
	if len(b.Samples) != b.N {
		return fmt.Errorf("batch %d: %d indices for %d samples", b.Seq, len(b.Samples), b.N)
	}
	at := NewLayout((&numbers{samples: 1}).Info(), b.N, b.Device)
	if len(b.Host) != at.Size || b.LabelsOff != at.Labels || b.AugOff != at.Aug {
		return fmt.Errorf("batch %d: layout %d/%d/%d, want %+v", b.Seq, len(b.Host), b.LabelsOff, b.AugOff, at)
	}
	epoch := int(b.Epoch)
	for i, index := range b.Samples {
		if got := ints(b.Host[b.LabelsOff:])[i]; got != index*7 {
			return fmt.Errorf("batch %d row %d: label %d, want %d", b.Seq, i, got, index*7)
		}
		raw := binary.LittleEndian.AppendUint64(nil, uint64(index))
		rng := NewRNG(seed, epoch, int(index))
		row := b.Host[i*at.Sample : (i+1)*at.Sample]
		for j := range fakeH * fakeW * fakeC {
			if b.Device {
				if row[j] != raw[j] {
					return fmt.Errorf("batch %d row %d: pixel %d is %d, want %d", b.Seq, i, j, row[j], raw[j])
				}
			} else if want := float32(raw[j]) + float32(rng.Float64()); floats(row)[j] != want {
				return fmt.Errorf("batch %d row %d: value %d is %v, want %v", b.Seq, i, j, floats(row)[j], want)
			}
		}
		for j := 0; b.Device && j < 4; j++ {
			if got, want := ints(b.Host[b.AugOff:])[4*i+j], int32(rng.IntN(1<<20)); got != want {
				return fmt.Errorf("batch %d row %d: parameter %d is %d, want %d", b.Seq, i, j, got, want)
			}
		}
	}
	return nil
}

// open returns a loader that is closed with the test.
func open(t testing.TB, o Options) *Loader {
	t.Helper()
	if o.Transform == nil {
		o.Transform = mix{}
	}
	if o.Knobs.BatchSize == 0 {
		o.Knobs.BatchSize = 1
	}
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// drain takes what is left of l until its end, and checks it.
func drain(t testing.TB, ctx context.Context, l *Loader, seed int64, each func(*Batch)) {
	t.Helper()
	for {
		b, err := l.Next(ctx)
		if err == ErrEnd { //nolint:errorlint // as it is
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := checkContent(b, seed); err != nil {
			t.Error(err)
		}
		each(b)
		b.Release()
	}
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
