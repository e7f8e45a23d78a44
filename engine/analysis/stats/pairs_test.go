package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestHalfWidthT: a walk of the t-statistic leaves the bound at any of 500 looks in at most 5 % of
// runs, whatever the variance is.
func TestHalfWidthT(t *testing.T) {
	const runs = 2000
	r := rand.New(rand.NewPCG(1, 3))
	for _, sigma := range []float64{0.001, 1, 300} {
		left, leftFixed := 0, 0
		for range runs {
			mean, squares, out, outFixed := 0.0, 0.0, false, false
			for n := 1.0; n <= 500; n++ {
				x := sigma * r.NormFloat64()
				off := x - mean
				mean += off / n
				squares += off * (x - mean)
				out = out || math.Abs(mean) > halfWidthT(n, squares)
				outFixed = outFixed || n > 5 && math.Abs(mean) > 1.96*math.Sqrt(squares/(n-1)/n)
			}
			if out {
				left++
			}
			if outFixed {
				leftFixed++
			}
		}
		if share := float64(left) / runs; share > most(runs) || share < 0.005 {
			t.Errorf("sigma %v: %.1f %% of runs leave the bound, want at most 5 %% and not none", sigma, 100*share)
		}
		if share := float64(leftFixed) / runs; share < 0.2 {
			t.Errorf("sigma %v: %.1f %% of runs leave the fixed interval: the walk is not what it should be", sigma, 100*share)
		}
	}
	if few := halfWidthT(2, 1); !math.IsInf(few, 1) {
		t.Errorf("two values bound the mean by %v", few)
	}
	// The ratio of the likelihoods is 1/alpha at the bound.
	n, squares := 9.0, 4.0
	d2, c2 := math.Pow(halfWidthT(n, squares), 2), 1.0/expected
	ratio := math.Sqrt(c2/(n+c2)) * math.Pow((squares+n*d2)/(squares+n*d2*c2/(n+c2)), n/2)
	if math.Abs(ratio*alpha-1) > 1e-9 {
		t.Errorf("at the bound the ratio is %v, want %v", ratio, 1/alpha)
	}
}

// pairsOf makes n pairs in which B takes ratio times as long, give or take a little.
func pairsOf(n int, ratio float64) []Pair {
	pairs := make([]Pair, n)
	for i := range pairs {
		a := Block{Steps: 100, Samples: 3200, Active: 2e9, Busy: 1e9}
		b := a
		b.Active = int64(2e9 * ratio * (1 + 0.002*float64(i%3-1)))
		pairs[i] = Pair{a, b}
	}
	return pairs
}

func TestPaired(t *testing.T) {
	fewer := pairsOf(8, 1.3)
	for i := range fewer { // batches of half the size: the time for a sample counts
		fewer[i].B.Samples /= 2
		fewer[i].B.Active /= 2
		fewer[i].B.Busy /= 2
	}
	unmeasured := pairsOf(8, 1.3)
	unmeasured[3].B.Busy = 0
	for _, c := range []struct {
		name   string
		pairs  []Pair
		answer Answer
		words  string
		busy   Answer
	}{
		{"none", nil, Unknown, "not significant yet: 0 of 6 pairs", Unknown},
		{"too few", pairsOf(5, 2), Unknown, "not significant yet: 5 of 6 pairs", Unknown},
		{"slower", pairsOf(8, 1.25), Different, "-20.0 % (-20.2 to -19.8 %)", Same},
		{"the same", pairsOf(8, 1.001), Same, "", Same},
		{"smaller batches", fewer, Different, "", Same},
		{"without busy time", unmeasured, Different, "", Unknown},
	} {
		got := Paired(c.pairs, DefaultMargin)
		if x := &got.Throughput; x.Answer != c.answer || got.Busy.Answer != c.busy || c.words != "" && x.String() != c.words {
			t.Errorf("%s: %v, busy %v, %+v", c.name, x, &got.Busy, got)
		}
	}
}

func TestQuarter(t *testing.T) {
	short := Stretch{Steps: 100, Active: 3 * time.Second, Step: Level{Correlation: 20 * time.Millisecond}}
	long := short
	long.Step.Correlation, long.Active, long.Steps = 4*time.Second, time.Minute, 3000
	brief := short
	brief.Step.Correlation = 4 * time.Second
	slow := Stretch{Steps: 60, Active: time.Minute}
	for _, c := range []struct {
		name   string
		m      Stretch
		h      History
		budget time.Duration
		want   time.Duration
	}{
		{"nothing known", Stretch{}, History{}, time.Minute, time.Second},
		{"hardly correlated", short, History{}, 10 * time.Minute, time.Second},
		{"correlated", long, History{}, 10 * time.Minute, 8 * time.Second},
		{"correlated, by a short stretch", brief, History{}, 10 * time.Minute, time.Second},
		{"seen before", short, History{Longest: 3 * time.Second}, 10 * time.Minute, 6 * time.Second},
		{"as long as the budget allows", long, History{}, 2 * time.Minute, 3 * time.Second},
		{"slow steps", slow, History{}, 2 * time.Minute, 10 * time.Second},
	} {
		if got := Quarter(c.m, c.h, c.budget); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestAlternationNull is a quick null suite of settings that take turns. The full table
// is TestTruth.
func TestAlternationNull(t *testing.T) {
	for _, h := range alternated {
		const n = 150
		o := alternation{host: h.host, ratio: 1, steps: 6000}.runs(n)
		if p := float64(len(o.different)) / n; p > most(n) {
			t.Errorf("%s: %.1f %% of equal settings said to differ", h.name, 100*p)
		}
		if h.finds {
			if o := (alternation{host: h.host, ratio: 1.05, steps: 6000}).runs(n); float64(len(o.different)) < 0.85*n {
				t.Errorf("%s: 5 %% found in %d of %d", h.name, len(o.different), n)
			}
		}
	}
}

func BenchmarkPaired(b *testing.B) {
	pairs := pairsOf(100, 1.05)
	b.ReportAllocs()
	for b.Loop() {
		Paired(pairs, DefaultMargin)
	}
}
