package shards

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dev.gpustall/loader"
	"dev.gpustall/loader/transform"
)

const testSide = 8 // of the images after the transform, so that a batch is small

// small is a data set whose samples are testSide pixels wide.
type small struct{ *Dataset }

func (d small) Info() loader.Info {
	i := d.Dataset.Info()
	i.H, i.W = testSide, testSide
	return i
}

// smallStream is the same of compressed shards.
type smallStream struct {
	Stream
	small
}

func (d smallStream) Info() loader.Info { return d.small.Info() }

func (d smallStream) Grouping() loader.Grouping {
	g := d.small.Grouping()
	g.Lanes = 3
	return g
}

func (d smallStream) Decode(s *loader.Sample) error { return d.small.Decode(s) }

func (d smallStream) Close() error { return d.small.Close() }

func (d smallStream) Locate(index int) string { return d.small.Locate(index) }

// epochs loads so many epochs and returns the content of each batch by its place, and the
// samples that each epoch delivered. live is called beside the loading.
func epochs(t interface{ Fatal(...any) }, d loader.Dataset, k loader.Knobs, n int, live func(*loader.Loader)) (batches map[[2]int32][32]byte, order []int32, seen []map[int32]int) {
	l, err := loader.New(loader.Options{Dataset: d, Transform: transform.ImageNetTrain(testSide), Seed: 7, Epochs: n, Knobs: k})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer l.Close()
	batches, seen = map[[2]int32][32]byte{}, make([]map[int32]int, n)
	for i := range seen {
		seen[i] = map[int32]int{}
	}
	var beside sync.WaitGroup
	if live != nil {
		beside.Go(func() { live(l) })
	}
	defer beside.Wait()
	for {
		b, err := l.Next(context.Background())
		if errors.Is(err, loader.ErrEnd) {
			return batches, order, seen
		}
		if err != nil {
			t.Fatal(err)
		}
		batches[[2]int32{b.Epoch, b.Index}] = sha256.Sum256(b.Host)
		order = append(order, b.Seq)
		for _, s := range b.Samples {
			seen[b.Epoch][s]++
		}
		b.Release()
	}
}

// TestLive: num_workers, prefetch_factor, in_order and the like change while shards are loaded,
// shuffled and augmented. Each epoch still has every sample once, and each batch equals the one
// that is loaded without workers. With in_order the batches come in the same order.
func TestLive(t *testing.T) {
	const n, size, rounds = 31, 4, 2
	src, dir := folder(t, n), filepath.Join(t.TempDir(), "packed")
	if _, _, err := Pack(t.Context(), src, dir, PackOptions{ShardSize: 16 << 10, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	packed, err := openAt(t, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := openAt(t, zip(t, dir), "")
	if err != nil {
		t.Fatal(err)
	}
	type loaded struct {
		batches map[[2]int32][32]byte
		order   []int32
	}
	inline := map[string]loaded{} // without workers
	rapid.Check(t, func(t *rapid.T) {
		buffer := rapid.SampledFrom([]int{1, 9, 1000}).Draw(t, "buffer")
		asStream := rapid.Bool().Draw(t, "compressed")
		data := func() loader.Dataset {
			if asStream {
				return loader.FromStream(smallStream{Stream{zipped}, small{zipped}})
			}
			return small{packed}
		}
		k := loader.DefaultKnobs()
		k.ShuffleBuffer = buffer
		k.BatchSize, k.Shuffle, k.DeviceTransforms = size, true, rapid.Bool().Draw(t, "device_transforms")
		is := fmt.Sprint(buffer, asStream, k.DeviceTransforms)
		if inline[is].batches == nil {
			batches, order, _ := epochs(t, data(), k, rounds, nil)
			inline[is] = loaded{batches, order}
		}
		want := inline[is].batches
		ordered := rapid.Bool().Draw(t, "always in_order")
		changes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) loader.Knobs {
			c := k
			c.NumWorkers = rapid.IntRange(0, 6).Draw(t, "num_workers")
			if c.NumWorkers > 0 {
				c.PrefetchFactor = rapid.IntRange(0, 4).Draw(t, "prefetch_factor")
				c.PersistentWorkers = rapid.Bool().Draw(t, "persistent_workers")
			}
			c.ReadsInFlight = rapid.IntRange(0, 3).Draw(t, "reads_in_flight")
			c.InOrder = ordered || rapid.Bool().Draw(t, "in_order")
			return c
		}), 1, 12).Draw(t, "changes")
		got, order, seen := epochs(t, data(), changes[0], rounds, func(l *loader.Loader) {
			for _, c := range changes[1:] {
				if l.Set(c) != nil {
					return // it is closed
				}
				time.Sleep(200 * time.Microsecond)
			}
		})
		if len(got) != len(want) {
			t.Fatalf("%d batches, want %d", len(got), len(want))
		}
		for at, sum := range want {
			if got[at] != sum {
				t.Fatalf("batch %d of epoch %d is another", at[1], at[0])
			}
		}
		for e := range seen {
			for i := range int32(n) {
				if seen[e][i] != 1 {
					t.Fatalf("epoch %d has sample %d %d times", e, i, seen[e][i])
				}
			}
		}
		if ordered && fmt.Sprint(order) != fmt.Sprint(inline[is].order) {
			t.Fatalf("batches came as %v", order)
		}
	})
}
