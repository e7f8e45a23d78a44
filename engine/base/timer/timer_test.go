package timer

import (
	"runtime"
	"testing"
	"time"
)

type since struct{ time.Time }

func (s since) Now() int64 { return int64(time.Since(s.Time)) }

// No wait ends early, whichever of its ways it takes.
func TestNeverEarly(t *testing.T) {
	c := since{time.Now()}
	for name, wait := range map[string]func(Clock, int64){"Nap": Nap, "Until": Until} {
		for _, ns := range []int64{-1, 0, 1, minLead, 50_000, Coarse - 1, Coarse, Coarse + 1_000_000} {
			until := c.Now() + ns
			wait(c, until)
			if now := c.Now(); now < until {
				t.Errorf("%s of %d ns ended %d ns early", name, ns, until-now)
			}
		}
	}
}

// The lead settles where one nap in ten ends later, within its bounds.
func TestLead(t *testing.T) {
	defer lead.Store(lead.Load())
	settle := func(late func(i int) int64) int64 {
		for i := range 100_000 {
			learn(late(i))
		}
		return lead.Load()
	}
	for name, c := range map[string]struct {
		late   func(i int) int64
		lo, hi int64
	}{
		"never late":              {func(int) int64 { return 0 }, minLead, minLead},
		"always very late":        {func(int) int64 { return 1e6 }, maxLead, maxLead},
		"5 us":                    {func(int) int64 { return 5000 }, 4800, 6000},
		"0 to 10 us, evenly":      {func(i int) int64 { return int64(i*7919%10_000) + 1 }, 8000, 10_000},
		"a quarter takes 20 us":   {func(i int) int64 { return int64(1-min(i%4, 1)) * 20_000 }, 19_000, 21_000},
		"one in 50 takes a while": {func(i int) int64 { return 3000 + int64(1-min(i%50, 1))*1e6 }, 2500, 5000},
	} {
		if got := settle(c.late); got < c.lo || got > c.hi {
			t.Errorf("%s: %d ns, want %d to %d", name, got, c.lo, c.hi)
		}
	}
}

// A thread that computes spends its time, one that sleeps does not.
func TestCPU(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not known here")
	}
	if slept := Spent(func() { time.Sleep(50 * time.Millisecond) }); slept > 20*time.Millisecond {
		t.Errorf("sleeping for 50 ms took %v of CPU time", slept)
	}
	c := since{time.Now()}
	spent := Spent(func() {
		for before := CPU(); c.Now() < 100e6 && CPU()-before < 5e6; {
		}
	})
	if spent <= 0 || int64(spent) > c.Now() {
		t.Errorf("%v of CPU time in %d ns", spent, c.Now())
	}
}

func BenchmarkUntil(b *testing.B) {
	c := since{time.Now()}
	late := int64(0)
	for b.Loop() {
		until := c.Now() + 100_000
		Until(c, until)
		late += c.Now() - until
	}
	b.ReportMetric(float64(late)/float64(b.N), "ns-late/op")
}
