package datacmd

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dev.gpustall/loader"
	"dev.gpustall/loader/format"
	"dev.gpustall/loader/synth"
)

// TestSpread: each sample comes once, and the first few are spread over the data set.
func TestSpread(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 999, 1000, 50_000} {
		seen, parts := make([]bool, n), map[int]bool{}
		for i := range n {
			at := spread(i, n)
			if seen[at] {
				t.Fatalf("%d of %d comes up twice", at, n)
			}
			if seen[at] = true; i < 20 {
				parts[at*10/n] = true
			}
		}
		if len(parts) != min(n, 10) {
			t.Errorf("the first 20 of %d lie in %d tenths", n, len(parts))
		}
	}
}

// TestInspectIsBounded: a trial ends after its samples, after its time, and when it is
// interrupted.
func TestInspectIsBounded(t *testing.T) {
	ds, tf, err := format.Open(t.Context(), pictures(t), format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	if got, err := try(t.Context(), ds, tf, 7, time.Hour); err != nil || got.samples != 7 || got.read.bytes == 0 || got.decode.bytes != 7*3072 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := try(t.Context(), slow{ds}, tf, 1000, 50*time.Millisecond); err != nil || got.samples == 0 || got.samples > 10 {
		t.Errorf("%d samples of 10 ms in 50 ms, %v", got.samples, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := try(over, ds, tf, 7, time.Hour); err != nil && !errors.Is(err, context.Canceled) || got.samples != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestInspectPanics: a panic of the decoder ends the trial with the number of the sample.
func TestInspectPanics(t *testing.T) {
	ds, tf, err := format.Open(t.Context(), pictures(t), format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	got, err := try(t.Context(), panicking{ds}, tf, 10, time.Hour)
	if want := "decode sample "; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "panic: an index") || got.samples != 1 {
		t.Errorf("%d samples, %v", got.samples, err)
	}
}

// panicking is a data set whose decoder panics in its second half, where the second tried sample
// lies.
type panicking struct{ loader.Dataset }

func (d panicking) Decode(s *loader.Sample) error {
	if s.Index >= d.Info().Samples/2 {
		panic("an index out of range")
	}
	return d.Dataset.Decode(s)
}

// slow is a data set whose reads take 10 ms.
type slow struct{ loader.Dataset }

func (d slow) Read(ctx context.Context, s *loader.Sample) error {
	time.Sleep(10 * time.Millisecond)
	return d.Dataset.Read(ctx, s)
}

// pictures makes a small data set.
func pictures(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := synth.CIFAR10(t.Context(), dir, synth.Options{Samples: 640}); err != nil {
		t.Fatal(err)
	}
	return dir
}
