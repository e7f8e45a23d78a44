package loader

import (
	"errors"
	"fmt"
	"testing"

	"dev.gpustall/engine/trace"
)

// TestCeiling: the first batches are loaded. Then they are served again without a read, each at
// the next place of the epoch. The short batch at the end is real. After the ceiling the epoch
// goes on after the last served place.
func TestCeiling(t *testing.T) {
	for _, workers := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			set := &numbers{samples: 102}
			k := Knobs{BatchSize: 4, InOrder: true, NumWorkers: workers, Ceiling: true}
			l := open(t, Options{Dataset: set, Epochs: 3, Hold: 2, Knobs: k})
			next, served, reads, epoch := 0, 0, int64(0), int32(0)
			for {
				b, err := l.Next(soon(t))
				if errors.Is(err, ErrEnd) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if b.Epoch != epoch {
					epoch, next = b.Epoch, 0
				}
				if b.Pos != next {
					t.Fatalf("epoch %d: place %d, want %d", epoch, b.Pos, next)
				}
				next += b.N
				if real := int(b.Samples[0]) == b.Pos; real == (b.Flags == trace.FlagCeiling) && b.Flags != trace.FlagCeiling {
					t.Errorf("batch %d at %d: samples %v without a flag", b.Seq, b.Pos, b.Samples)
				}
				if b.Flags == trace.FlagCeiling {
					served++
					if b.Load != 0 || b.N != 4 {
						t.Errorf("a kept batch of %d samples took %d ns", b.N, b.Load)
					}
					if b.Epoch == 0 {
						if err := checkContent(b, 0); err != nil {
							t.Error(err)
						}
					}
				}
				b.Release()
				if epoch == 0 && b.Last {
					reads = set.reads.Load()
				}
				if epoch == 1 && next == 52 {
					k.Ceiling = false
					if err := l.Set(k); err != nil {
						t.Fatal(err)
					}
				}
				if b.Flags == trace.FlagCeiling && (epoch == 2 || epoch == 1 && next > 52) {
					t.Errorf("epoch %d place %d served after the ceiling", epoch, b.Pos)
				}
			}
			if next != 102 {
				t.Errorf("the last epoch ended at place %d", next)
			}
			if reads < 2*4+2 || reads > 4*4+2 {
				t.Errorf("%d samples read in the first epoch, want two to four batches and the short one", reads)
			}
			if served < 22+10 {
				t.Errorf("%d batches served", served)
			}
		})
	}
}

// TestCeilingRefillsWhenBatchesChange: kept batches of another size are not served.
func TestCeilingRefillsWhenBatchesChange(t *testing.T) {
	set := &numbers{samples: 4000}
	k := Knobs{BatchSize: 4, InOrder: true, Ceiling: true}
	l := open(t, Options{Dataset: set, Hold: 1, Knobs: k})
	for i := range 30 {
		switch i {
		case 10:
			k.BatchSize = 8
		case 20:
			k.DeviceTransforms = true
		}
		if err := l.Set(k); err != nil {
			t.Fatal(err)
		}
		b, err := l.Next(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		if b.N != k.BatchSize || b.Device != k.DeviceTransforms || (b.Flags == 0) != (i%10 == 0) {
			t.Errorf("batch %d: %d samples, device %v, flags %d", i, b.N, b.Device, b.Flags)
		}
		if err := checkContent(b, 0); err != nil {
			t.Error(err)
		}
		b.Release()
	}
	if n := set.reads.Load(); n != 4+8+8 {
		t.Errorf("%d samples read, want 20", n)
	}
}
