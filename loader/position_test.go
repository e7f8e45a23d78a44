package loader

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// places is a batch as its epoch and its samples, in order.
type places struct {
	epoch   int32
	samples []int32
}

// TestPositionGoesOn: a run is interrupted again and again, and goes on from its position each
// time, also with other numbers of workers. It delivers what an uninterrupted run delivers:
// the same batches in order or, without in_order, each sample exactly once in each epoch.
func TestPositionGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const seed, epochs = 3, 3
		set := &numbers{samples: rapid.IntRange(17, 150).Draw(t, "samples")}
		if rapid.Bool().Draw(t, "in shards") {
			for i := 0; i < set.samples; i += rapid.IntRange(1, 40).Draw(t, "samples of a shard") {
				set.groups.Starts = append(set.groups.Starts, int32(i))
			}
			set.groups.Lanes = rapid.IntRange(0, 4).Draw(t, "lanes")
		}
		stream := len(set.groups.Starts) > 0 && rapid.Bool().Draw(t, "a stream")
		k := Knobs{
			BatchSize: rapid.IntRange(1, 17).Draw(t, "batch_size"), Shuffle: rapid.Bool().Draw(t, "shuffle"),
			DropLast: rapid.Bool().Draw(t, "drop_last"), ShuffleBuffer: rapid.IntRange(0, 40).Draw(t, "shuffle_buffer"),
			InOrder: rapid.Bool().Draw(t, "in_order"),
		}
		// part delivers at most limit batches from a position, and tells the next one.
		part := func(from *Position, limit int, k Knobs) (got []places, at Position, ended bool) {
			var data Dataset = set
			if stream {
				data = FromStream(&forward{numbers: set})
			}
			defer data.Close()
			l, err := New(Options{Dataset: data, Transform: mix{}, Seed: seed, Epochs: epochs, Knobs: k, Start: from})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for len(got) < limit {
				b, err := l.Next(context.Background())
				if errors.Is(err, ErrEnd) {
					return got, l.Position(), true
				}
				if err == nil {
					err = checkContent(b, seed)
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, places{b.Epoch, slices.Clone(b.Samples)})
				b.Release()
			}
			text, err := json.Marshal(l.Position())
			if err == nil {
				err = json.Unmarshal(text, &at)
			}
			if err != nil {
				t.Fatal(err)
			}
			return got, at, false
		}
		whole, _, _ := part(nil, 1<<30, k)
		var got []places
		var from *Position
		for ended := false; !ended; {
			c := k
			if c.NumWorkers = rapid.IntRange(0, 4).Draw(t, "num_workers"); c.NumWorkers > 0 {
				c.PrefetchFactor = rapid.IntRange(0, 3).Draw(t, "prefetch_factor")
				c.PersistentWorkers = rapid.Bool().Draw(t, "persistent_workers")
			}
			more, at, end := part(from, rapid.IntRange(0, 30).Draw(t, "batches"), c)
			got, from, ended = append(got, more...), &at, end
			if len(got) > len(whole) {
				t.Fatalf("more than %d batches", len(whole))
			}
			if len(got) == len(whole) && !end && at.Epoch != epochs {
				t.Fatalf("all is delivered, and the position is %+v", at)
			}
		}
		if k.InOrder {
			if !slices.EqualFunc(got, whole, func(a, b places) bool { return a.epoch == b.epoch && slices.Equal(a.samples, b.samples) }) {
				t.Fatalf("delivered %v, want %v", got, whole)
			}
			return
		}
		if a, b := sorted(got), sorted(whole); !slices.Equal(a, b) {
			t.Fatalf("delivered %v, want %v", a, b)
		}
	})
}

// sorted returns all samples, as epoch and index, in order.
func sorted(of []places) (out []int64) {
	for _, b := range of {
		for _, i := range b.samples {
			out = append(out, int64(b.epoch)<<32|int64(i))
		}
	}
	slices.Sort(out)
	return out
}

// TestPositionOfOtherData: a position in other data is refused, and so is a damaged one.
func TestPositionOfOtherData(t *testing.T) {
	for _, c := range []struct {
		name string
		at   Position
		says string
	}{
		{"other data", Position{Samples: 9}, "it has 10 samples, and the run that is to go on had 9"},
		{"beyond", Position{Samples: 10, Place: 11}, "damaged"},
		{"backwards", Position{Samples: 10, Place: 8, Again: []At{{4, 6}, {2, 3}}}, "damaged"},
		{"empty", Position{Samples: 10, Place: 8, Again: []At{{4, 4}}}, "damaged"},
	} {
		_, err := New(Options{Dataset: &numbers{samples: 10}, Transform: mix{}, Knobs: Knobs{BatchSize: 2}, Start: &c.at})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestPositionKeepsTheOrder: an epoch goes on in the order it began in, whatever the knobs are
// now.
func TestPositionKeepsTheOrder(t *testing.T) {
	set := &numbers{samples: 20, groups: Grouping{Starts: []int32{0, 5, 10}}}
	k := Knobs{BatchSize: 4, Shuffle: true, ShuffleBuffer: 3, InOrder: true}
	l := open(t, Options{Dataset: set, Seed: 1, Knobs: k})
	b, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.Release()
	at := l.Position()
	k.Shuffle, k.ShuffleBuffer = false, 7
	rest := open(t, Options{Dataset: set, Seed: 1, Knobs: k, Start: &at, Epochs: 1})
	want := NewSampler(1, 20).Grouped(set.groups).Mixing(3).Order(nil, 0, true)[4:]
	var got []int32
	drain(t, soon(t), rest, 1, func(b *Batch) { got = append(got, b.Samples...) })
	if !slices.Equal(got, want) {
		t.Errorf("delivered %v, want %v", got, want)
	}
}
