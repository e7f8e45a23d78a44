package loader

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSamplerOrderIsAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "samples")
		seed := rapid.Int64().Draw(t, "seed")
		epoch := rapid.IntRange(0, 1000).Draw(t, "epoch")
		s := NewSampler(seed, n)
		if rapid.Bool().Draw(t, "in shards") {
			groups := []int32{0}
			for i := rapid.IntRange(1, n).Draw(t, "a shard"); i < n; i += rapid.IntRange(1, n).Draw(t, "a shard") {
				groups = append(groups, int32(i))
			}
			s = s.Grouped(Grouping{groups, rapid.IntRange(0, 5).Draw(t, "lanes")}).Mixing(rapid.IntRange(1, 2*n).Draw(t, "buffer"))
		}
		order := s.Order(nil, epoch, true)
		if again := s.Order(make([]int32, 5), epoch, true); !slices.Equal(order, again) {
			t.Fatalf("not repeatable: %v and %v", order, again)
		}
		slices.Sort(order)
		if plain := s.Order(nil, epoch, false); !slices.Equal(order, plain) {
			t.Fatalf("not a permutation: %v", order)
		}
	})
}

func TestSamplerOrderDependsOnSeedAndEpoch(t *testing.T) {
	a := NewSampler(1, 100).Order(nil, 0, true)
	for name, b := range map[string][]int32{
		"seed":  NewSampler(2, 100).Order(nil, 0, true),
		"epoch": NewSampler(1, 100).Order(nil, 1, true),
		"plain": NewSampler(1, 100).Order(nil, 0, false),
	} {
		if slices.Equal(a, b) {
			t.Errorf("another %s gives the same order", name)
		}
	}
}

// TestSamplerIsUniform compares the frequencies of the 24 orders of 4 samples with
// chance. Chi-square with 23 degrees of freedom exceeds 59.5 once in 40,000 times, and
// the seeds are fixed.
func TestSamplerIsUniform(t *testing.T) {
	const rounds = 24_000
	counts := map[[4]int32]int{}
	for epoch := range rounds {
		counts[[4]int32(NewSampler(7, 4).Order(nil, epoch, true))]++
	}
	const want = rounds / 24.0
	var chi2 float64
	for _, n := range counts {
		chi2 += (float64(n) - want) * (float64(n) - want) / want
	}
	if len(counts) != 24 || chi2 > 59.5 {
		t.Errorf("%d of 24 orders seen, chi-square %.1f", len(counts), chi2)
	}
}

// TestSamplerKeepsToShards: with a buffer of 10, delivery is at most 10 samples ahead of
// reading the shards one after the other. Shards are in random order, and samples are mixed.
func TestSamplerKeepsToShards(t *testing.T) {
	const shards, each, buffer = 20, 50, 10
	var groups []int32
	for i := range int32(shards) {
		groups = append(groups, i*each)
	}
	first := map[int32]int{}
	for epoch := range 200 {
		order := NewSampler(3, shards*each).Grouped(Grouping{groups, 1}).Mixing(buffer).Order(nil, epoch, true)
		seen := make([]int, shards) // samples of each shard delivered so far
		begun, moved := 0, 0
		for n, index := range order {
			if seen[index/each]++; seen[index/each] == 1 {
				if begun++; (begun-1)*each > n+buffer {
					t.Fatalf("epoch %d: shard %d begins at place %d, as number %d", epoch, index/each, n, begun)
				}
			}
			if n > 0 && index != order[n-1]+1 {
				moved++
			}
		}
		if moved < len(order)/2 {
			t.Errorf("epoch %d: only %d of %d samples do not follow the one before", epoch, moved, len(order))
		}
		first[order[0]/each]++
	}
	if len(first) < shards/2 {
		t.Errorf("an epoch begins with one of only %d shards", len(first))
	}
}
