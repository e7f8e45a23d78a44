//go:build linux

package bridge

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNumbers: a batch's number follows from its place in its loader, and continues the numbers
// before, in whatever order batches are read. No two batches have the same number.
func TestNumbers(t *testing.T) {
	type taken struct {
		pass  int
		round uint32
		index int32
	}
	train := func(round uint32, indices ...int32) (out []taken) {
		for _, i := range indices {
			out = append(out, taken{0, round, i})
		}
		return out
	}
	for _, c := range []struct {
		name  string
		taken []taken
		want  []int32
	}{
		{"one worker after the other", train(0, 1, 3, 5, 0, 2, 4, 7, 6), []int32{1, 3, 5, 0, 2, 4, 7, 6}},
		{"epochs", slices.Concat(train(0, 0, 1, 2), train(1, 1, 0, 2)), []int32{0, 1, 2, 4, 3, 5}},
		{"the end of an epoch is read after the next began", slices.Concat(train(0, 0, 1), train(1, 0), train(0, 2), train(1, 1, 2)), []int32{0, 1, 2, 3, 4, 5}},
		{"another loop between", []taken{{0, 0, 0}, {0, 0, 1}, {1, 0, 1}, {1, 0, 0}, {0, 0, 3}, {0, 0, 2}}, []int32{0, 1, 3, 2, 5, 4}},
		{"two loaders in turn", []taken{{0, 0, 0}, {1, 0, 0}, {0, 0, 1}, {1, 0, 1}}, []int32{0, 1, 2, 3}},
		{"a passage that was forgotten", []taken{{0, 0, 0}, {1, 0, 9000}, {1, 0, 9001}}, []int32{0, 1, 2}},
	} {
		var n numbers
		passes := []pass{{}, {}}
		var got []int32
		for _, b := range c.taken {
			got = append(got, n.take(&passes[b.pass], batchID{b.round, b.index}))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestNumbersDiffer: in whatever order records are read, no two batches have the same
// number.
func TestNumbersDiffer(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var n numbers
		passes, had := make([]pass, 3), map[int32]bool{}
		all := random.Perm(3 * 3 * 80)
		slices.SortFunc(all, func(a, b int) int { return a/60 - b/60 }) // those near each other in any order
		for _, i := range all {
			id := batchID{uint32(i / 240), int32(i / 3 % 80)}
			if random.IntN(50) == 0 {
				id.round = 0 // of an epoch long over
				id.index += 1000
			}
			seq := n.take(&passes[i%3], id)
			if had[seq] {
				t.Fatalf("%d is the number of two batches", seq)
			}
			had[seq] = true
		}
		if most := slices.Max(slices.Collect(maps.Keys(had))); most > 3*3*80+10000 {
			t.Errorf("%d batches have numbers up to %d", len(had), most)
		}
	}
}
