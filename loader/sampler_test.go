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

// TestSamplerIsUniform compares the frequencies of the 24 orders of 4 samples
// with chance: chi-square with 23 degrees of freedom exceeds 59.5 once in 40,000
// times, and the seeds are fixed.
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
