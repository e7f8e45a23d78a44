package loader

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// rotten is a data set whose bad samples fail, each in another phase.
func rotten(samples int, bad func(i int) bool) (*numbers, mix) {
	broken := errors.New("bad sector")
	fail := func(phase int) func(i int) bool { return func(i int) bool { return bad(i) && i%4 == phase } }
	return &numbers{
			samples: samples,
			onRead: func(_ context.Context, i int) error {
				if fail(0)(i) {
					return broken
				}
				return nil
			},
			onCode: func(i int) error {
				if fail(1)(i) {
					return broken
				}
				if fail(2)(i) {
					panic(broken)
				}
				return nil
			},
		}, mix{onHost: func(i int) {
			if fail(3)(i) {
				panic(broken)
			}
		}}
}

// TestSkip: with on_error=skip every loadable sample is delivered exactly once, in order,
// in the same batches whatever num_workers is. The others are counted.
func TestSkip(t *testing.T) {
	const samples, epochs = 97, 3
	key := maphash.MakeSeed()
	for name, bad := range map[string]func(i int) bool{
		"some":         func(i int) bool { return i%9 == 2 },
		"a batch":      func(i int) bool { return i >= 16 && i < 24 },
		"the last one": func(i int) bool { return i >= 96 },
		"most":         func(i int) bool { return i%9 != 2 },
		"none":         func(int) bool { return false },
	} {
		for _, device := range []bool{false, true} {
			want := ""
			for _, workers := range []int{0, 1, 5} {
				set, tr := rotten(samples, bad)
				l := open(t, Options{Dataset: set, Transform: tr, Seed: 5, Epochs: epochs, Knobs: Knobs{
					BatchSize: 8, InOrder: true, NumWorkers: workers, PersistentWorkers: workers == 5, OnError: Skip, DeviceTransforms: device,
				}})
				var got []int32
				var sums []string
				drain(t, soon(t), l, 5, func(b *Batch) {
					got = append(got, b.Samples...)
					sums = append(sums, fmt.Sprintf("%d:%d:%x", b.Epoch, b.N, maphash.Bytes(key, b.Host)))
				})
				skipped := 0
				var all []int32
				for range epochs {
					for i := range samples {
						// Pixels that are sent as they are stored are never transformed
						// here.
						if bad(i) && (!device || i%4 != 3) {
							skipped++
							continue
						}
						all = append(all, int32(i))
					}
				}
				if !slices.Equal(got, all) || l.Stats().Skipped != skipped {
					t.Errorf("%s, %d workers, device %v: %d samples delivered and %d skipped, want %d and %d", name, workers, device, len(got), l.Stats().Skipped, len(all), skipped)
				}
				if have := strings.Join(sums, " "); want == "" {
					want = have
				} else if have != want {
					t.Errorf("%s, %d workers, device %v: other batches than without workers", name, workers, device)
				}
			}
		}
	}
}

// TestSkipAll: an epoch without any loadable sample ends the run, and says why.
func TestSkipAll(t *testing.T) {
	for _, workers := range []int{0, 2} {
		set, tr := rotten(20, func(int) bool { return true })
		l := open(t, Options{Dataset: set, Transform: tr, Knobs: Knobs{BatchSize: 4, InOrder: true, NumWorkers: workers, OnError: Skip}})
		for range 2 {
			if _, err := l.Next(soon(t)); err == nil || !strings.Contains(err.Error(), "all 20 samples of epoch 1 were skipped") {
				t.Errorf("%d workers: %v", workers, err)
			}
		}
	}
}

// TestSkipLive: on_error can be turned on after a run has met a bad sample. A lost worker is
// still an error, because no sample is at fault.
func TestSkipLive(t *testing.T) {
	set, tr := rotten(12, func(i int) bool { return i == 5 })
	k := Knobs{BatchSize: 4, InOrder: true, NumWorkers: 2}
	l := open(t, Options{Dataset: set, Transform: tr, Epochs: 1, Knobs: k})
	var got []int32
	for {
		b, err := l.Next(soon(t))
		if err == ErrEnd { //nolint:errorlint // as it is
			break
		}
		if _, ok := errors.AsType[*SampleError](err); ok && k.OnError == Stop {
			k.OnError = Skip
			if err := l.Set(k); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b.Samples...)
		b.Release()
	}
	if want := []int32{0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11}; !slices.Equal(got, want) {
		t.Errorf("delivered %v, want %v", got, want)
	}

	lost := &numbers{samples: 4, onRead: func(_ context.Context, i int) error {
		if i == 2 {
			runtime.Goexit()
		}
		return nil
	}}
	l = open(t, Options{Dataset: lost, Epochs: 1, Knobs: Knobs{BatchSize: 4, OnError: Skip, InOrder: true, NumWorkers: 1}})
	if _, err := l.Next(soon(t)); !errors.Is(err, errAborted) {
		t.Errorf("a lost goroutine: %v", err)
	}
}
