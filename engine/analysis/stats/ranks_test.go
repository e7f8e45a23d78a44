package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestOutside: the ends of intervals are those of the printed tables of Mann and Whitney's U at 5 %,
// two-sided. They are the critical value plus one.
func TestOutside(t *testing.T) {
	for _, c := range [][3]int{{3, 3, 0}, {3, 4, 0}, {4, 4, 1}, {3, 5, 1}, {5, 5, 3}, {6, 6, 6}, {6, 10, 12}, {10, 10, 24}, {20, 20, 128}, {1, 30, 0}, {0, 5, 0}} {
		if got := outside(c[0], c[1]); got != c[2] {
			t.Errorf("of %d and %d: %d, want %d", c[0], c[1], got, c[2])
		}
		if got := outside(c[1], c[0]); got != c[2] {
			t.Errorf("of %d and %d: %d, want %d", c[1], c[0], got, c[2])
		}
	}
}

func TestRanked(t *testing.T) {
	flat := func(n int, ms float64) (out []float64) {
		for i := range n {
			out = append(out, ms*(1+0.001*float64(i%3)))
		}
		return out
	}
	for _, c := range []struct {
		name   string
		a, b   []float64
		answer Answer
		ratio  float64
	}{
		{"faster", flat(6, 140), flat(6, 100), Different, 1.4},
		{"slower", flat(6, 100), flat(6, 140), Different, 1 / 1.4},
		{"the same", flat(6, 100), flat(6, 100), Same, 1},
		{"one step is unlike", []float64{188, 175, 180, 175, 182, 166}, []float64{182, 126, 127, 124, 126, 125}, Different, 1.4},
		{"scattered", []float64{100, 140, 90, 120}, []float64{130, 80, 110, 100}, Unknown, 1},
		{"three steps", flat(3, 140), flat(3, 100), Unknown, 0},
	} {
		got := Ranked(c.a, c.b, DefaultMargin)
		if got.Answer != c.answer || math.Abs(got.Ratio-c.ratio) > 0.06 || got.Ratio > 0 && (got.Lo > got.Ratio || got.Hi < got.Ratio) || (got.Answer == Unknown) != (got.Missing.What != Nothing) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	// Of equal and skewed times at most 5 in 100 intervals miss 1.
	r, missed := rand.New(rand.NewPCG(3, 4)), 0
	for range 4000 {
		draw := func() (out []float64) {
			for range 6 {
				out = append(out, math.Exp(r.NormFloat64()/5)+r.ExpFloat64()/5)
			}
			return out
		}
		if c := Ranked(draw(), draw(), 0); c.Lo > 1 || c.Hi < 1 {
			missed++
		}
	}
	if missed < 60 || missed > 220 { // 4.1 % is exact; 2 of 100 to 5 and two standard errors
		t.Errorf("%d of 4000 intervals miss the truth", missed)
	}
}
