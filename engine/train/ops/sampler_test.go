package ops

import (
	"testing"
)

// walk returns the steps of n that a sampler times, each taking extra more than
// the others, as a share of a step.
func walk(s *sampler, n int, extra float64) (timed []int) {
	p := &Program{}
	for i := range n {
		compute := 1e6
		due := s.due()
		if due {
			timed = append(timed, i)
			compute *= 1 + extra
		}
		s.learn(p, due, int64(compute), 1000)
	}
	return timed
}

// TestSamplerCost: whatever a timed step costs, all of them together stay under
// one per cent of the steps' time.
func TestSamplerCost(t *testing.T) {
	for _, extra := range []float64{-0.2, 0, 0.01, 0.1, 0.5, 4} {
		var s sampler
		s.begin(Sampled)
		const n = 20_000
		timed := walk(&s, n, extra)
		cost := extra * float64(len(timed)) / n
		if cost > 1.1*sampleShare || len(timed) < n/sampleMost {
			t.Errorf("a timed step costs %g of one: %d of %d are timed, %.2f %% of the time", extra, len(timed), n, 100*cost)
		}
		if timed[0] != sampleFirst-1 || timed[1] > 20 {
			t.Errorf("extra %g: the first timed steps are %v", extra, timed[:2])
		}
	}
}

// TestSamplerSeesAll: no position within any number of accumulated batches is left
// out.
func TestSamplerSeesAll(t *testing.T) {
	var s sampler
	s.begin(Sampled)
	timed := walk(&s, 40_000, 0)
	for _, k := range []int{2, 3, 4, 5, 7, 8, 16, 32, 33, 35, 64} {
		seen := map[int]bool{}
		for _, i := range timed {
			seen[i%k] = true
		}
		if len(seen) < k {
			t.Errorf("of %d batches that are accumulated, %d are ever timed", k, len(seen))
		}
	}
}

func TestSamplerModes(t *testing.T) {
	for mode, want := range map[Mode]int{Off: 0, Every: 50} {
		var s sampler
		s.begin(mode)
		if n := len(walk(&s, 50, 0)); n != want {
			t.Errorf("time_ops=%s: %d of 50 steps are timed, want %d", mode, n, want)
		}
	}
	for text, want := range map[string]Mode{"off": Off, "sampled": Sampled, "every": Every, "on": Every, "true": Every, "false": Off} {
		got := Mode(9)
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	if err := new(Mode).UnmarshalText([]byte("often")); err == nil {
		t.Error("often is no value of time_ops")
	}
}
