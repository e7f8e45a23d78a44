package stall

import (
	"math"
	"math/rand/v2"
	"testing"

	"dev.gpustall/engine/trace"
)

// compare relates steps of two segments.
func compare(a, b []trace.Step) Comparison { return Compare(trace.Count(a), trace.Count(b)) }

// noisy makes n steps of about mean ns, with log-normal noise.
func noisy(r *rand.Rand, n int, mean, sigma float64) []trace.Step {
	steps := make([]trace.Step, n)
	for i := range steps {
		d := int64(mean * math.Exp(sigma*r.NormFloat64()))
		steps[i] = trace.Step{Index: int32(i), Samples: 32, End: d, Busy: d}
	}
	return steps
}

// The interval is what it says: of many comparisons about 95 % contain the true
// ratio, with few steps and with many, whether there is a difference or not.
func TestCompareCoverage(t *testing.T) {
	const trials = 500
	for _, ratio := range []float64{1, 1.34, 0.5} {
		for _, n := range []int{12, 29, 300} {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			covered, different := 0, 0
			for range trials {
				c := compare(noisy(r, n, 1e6*ratio, 0.1), noisy(r, n, 1e6, 0.1))
				if !c.OK || c.Windows < minWindows {
					t.Fatalf("%d steps are not enough: %+v", n, c)
				}
				if c.Lo <= ratio && ratio <= c.Hi {
					covered++
				}
				if c.Different {
					different++
				}
			}
			if got := float64(covered) / trials; got < 0.92 || got > 0.98 {
				t.Errorf("ratio %v, %d steps: %.3f of the intervals contain it, want 0.95", ratio, n, got)
			}
			if found := float64(different) / trials; ratio == 1 && found > 0.07 || ratio != 1 && found < 0.99 {
				t.Errorf("ratio %v, %d steps: %.3f of the comparisons find a difference", ratio, n, found)
			}
		}
	}
}

// Workers in step deliver in bursts: most steps are short, one in a dozen waits.
// The ratio is that of the throughputs all the same, and the interval holds it.
func TestCompareBursts(t *testing.T) {
	burst := func(r *rand.Rand, n, workers int) []trace.Step {
		s := noisy(r, n, 2e6, 0.1)
		for i := range s {
			if i%workers == workers-1 {
				s[i].End += int64(160e6 * (0.9 + 0.2*r.Float64()))
			}
		}
		return s
	}
	const trials = 300
	covered := 0
	r := rand.New(rand.NewPCG(3, 4))
	truth := (2 + 160.0/1) / (2 + 160.0/12)
	for range trials {
		a, b := noisy(r, 12, 162e6, 0.05), burst(r, 125, 12)
		c := compare(a, b)
		if !c.OK || !c.Different {
			t.Fatalf("%+v", c)
		}
		if got, want := c.Ratio, Sum(b).SamplesPerSecond()/Sum(a).SamplesPerSecond(); got != want {
			t.Fatalf("ratio %v, throughputs %v", got, want)
		}
		if c.Lo <= truth && truth <= c.Hi {
			covered++
		}
	}
	if got := float64(covered) / trials; got < 0.95 {
		t.Errorf("%.3f of the intervals contain the ratio", got)
	}
}

func TestCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	same := noisy(r, 100, 1e6, 0)
	twice := noisy(r, 100, 5e5, 0)
	if c := compare(same, twice); !c.OK || math.Abs(c.Ratio-2) > 1e-9 || c.Lo != c.Ratio || c.Hi != c.Ratio || !c.Different {
		t.Errorf("without noise: %+v", c)
	}
	if c := compare(same, same); !c.OK || c.Ratio != 1 || c.Different {
		t.Errorf("with itself: %+v", c)
	}
	if c := compare(same, twice[:minWindows-1]); c.OK || c.Different || c.Windows != minWindows-1 {
		t.Errorf("too few steps: %+v", c)
	}
	if c := compare(nil, nil); c.OK {
		t.Errorf("of nothing: %+v", c)
	}

	// Batches of another size compare by the sample.
	big := noisy(r, 100, 2e6, 0)
	for i := range big {
		big[i].Samples = 64
	}
	if c := compare(same, big); math.Abs(c.Ratio-1) > 1e-9 || c.Different {
		t.Errorf("a doubled batch: %+v", c)
	}

	// Pauses, transitions and the first batch's wait do not count.
	odd := noisy(r, 100, 1e6, 0)
	odd[0].Flags, odd[0].End = trace.FlagFirstOfEpoch, 9e9
	odd[1].Flags, odd[1].End = trace.FlagTransition, 9e9
	odd[50].End += 9e9
	odd[50].Stall[trace.CausePaused] = 9e9
	if c := compare(odd, same); math.Abs(c.Ratio-1) > 1e-9 || c.Excluded != 2 {
		t.Errorf("with a pause and a transition: %+v", c)
	}
	// The first step of a later epoch does: what it waits for is a real cost.
	odd[40].Flags, odd[40].End = trace.FlagFirstOfEpoch, 9e9
	if c := compare(odd, same); c.Ratio <= 1 || c.Excluded != 2 {
		t.Errorf("with an epoch's start: %+v", c)
	}
}
