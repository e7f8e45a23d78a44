package stats

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestHalfWidth compares with the normal mixture of Howard et al. at variance scale². There t r²
// is 1, so the width is scale times sqrt(2 · 2 · log(sqrt 2 / 0.05)).
func TestHalfWidth(t *testing.T) {
	want := 0.10 * math.Sqrt(4*math.Log(math.Sqrt2/0.05))
	if got := halfWidth(0.10 * 0.10); math.Abs(got-want) > 1e-12 {
		t.Errorf("half width %v, want %v", got, want)
	}
	if got := halfWidth(0); got != 0 {
		t.Errorf("half width %v of an exact estimate", got)
	}
	// A walk with steps of variance 1 leaves the bound at any of 10,000 looks in at
	// most 5 % of runs; a fixed-sample interval would be left in most.
	const runs = 2000
	left, leftFixed := 0, 0
	r := rand.New(rand.NewPCG(1, 2))
	for range runs {
		sum, out, outFixed := 0.0, false, false
		for n := 1.0; n <= 10000; n++ {
			sum += 0.3 * r.NormFloat64()
			mean, variance := math.Abs(sum/n), 0.09/n
			out = out || mean > halfWidth(variance)
			outFixed = outFixed || mean > 1.96*math.Sqrt(variance)
		}
		if out {
			left++
		}
		if outFixed {
			leftFixed++
		}
	}
	if share := float64(left) / runs; share > most(runs) || share < 0.005 {
		t.Errorf("%.1f %% of runs leave the bound, want at most 5 %% and not none", 100*share)
	}
	if share := float64(leftFixed) / runs; share < 0.5 {
		t.Errorf("%.1f %% of runs leave the fixed interval: the walk is not what it should be", 100*share)
	}
}

// TestInefficiency: the integrated autocorrelation time of exp(-k/tau) is
// (1+phi)/(1-phi).
func TestInefficiency(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name string
		host process
		n    int
		want float64
	}{
		{"independent", independent(0.1), 400, 1},
		{"correlated over 3", autoregressive(3, 0.1), 400, 6.05},
		{"correlated over 10", autoregressive(10, 0.1), 500, 20.02},
	} {
		sum := 0.0
		const runs = 200
		for range runs {
			sum += Measure(Series{Blocks: draw(c.host(r), c.n, 1)}).Step.Inefficiency
		}
		if got := sum / runs; got < 0.85*c.want || got > 1.4*c.want+0.2 {
			t.Errorf("%s: %.2f on average, want %.2f", c.name, got, c.want)
		}
	}
	// Bursts of 8 with one wait of 3.2 to 4.8 in 8 steps. Over many steps only that wait
	// matters: the variance of a step is 1.93, and of 8 steps 0.21 + 8 · 0.05².
	sum := 0.0
	for range 200 {
		sum += Measure(Series{Blocks: draw(bursts(8, 4)(r), 512, 1)}).Step.Inefficiency
	}
	if got, want := sum/200, 0.23/8/1.76; got < want || got > 6*want {
		t.Errorf("in bursts: %.3f on average, want %.3f or a little more", got, want)
	}
	for _, of := range []float64{1, 3, 30, 300} { // what windows of 100 show of it, made longer again
		x := of / 200
		if got := beyond(of*(1-x*(1-math.Exp(-1/x))), 100); of > 1 && math.Abs(got/of-1) > 0.1 {
			t.Errorf("a correlation time of %v is taken for %v", of, got)
		}
	}
}

// ramp makes n equal steps that become longer by slope a step.
func ramp(n, from int, slope float64) []Block {
	b := make([]Block, n)
	for i := range b {
		t := int64(stepNs * (1 + slope*float64(from+i)))
		b[i] = Block{Steps: 1, Samples: 32, Active: t, Busy: t / 2}
	}
	return b
}

func TestCompareExact(t *testing.T) {
	a := Measure(Series{Blocks: ramp(200, 0, 0)})
	after := int64(a.Active)
	faster := ramp(200, 0, 0)
	for i := range faster {
		faster[i].Active /= 2
	}
	larger := ramp(200, 0, 0) // batches of twice the size in twice the time, and a short last one
	for i := range larger {
		larger[i].Samples *= 2
		larger[i].Active *= 2
		larger[i].Busy *= 2
	}
	larger[199] = Block{Steps: 1, Samples: 32, Active: stepNs, Busy: stepNs / 2}
	for _, c := range []struct {
		name   string
		b      []Block
		answer Answer
		ratio  float64
		busy   Answer
	}{
		{"with itself", ramp(200, 0, 0), Same, 1, Same},
		{"twice as fast", faster, Different, 2, Same},
		{"batches of twice the size", larger, Same, 1, Same},
	} {
		got := Compare(a, Measure(Series{Start: after, Blocks: c.b}), History{}, DefaultMargin)
		x := got.Throughput
		if x.Answer != c.answer || math.Abs(x.Ratio/c.ratio-1) > 1e-6 || got.Busy.Answer != c.busy {
			t.Errorf("%s: %+v", c.name, got)
		}
		if x.Lo > x.Ratio || x.Hi < x.Ratio || x.Hi-x.Lo > 0.02*x.Ratio {
			t.Errorf("%s: interval %v..%v around %v", c.name, x.Lo, x.Hi, x.Ratio)
		}
	}
}

func TestMissing(t *testing.T) {
	long := Measure(Series{Blocks: draw(independent(0.1)(rand.New(rand.NewPCG(1, 1))), 1000, 1)})
	slow := func(n int, seconds float64) []Block {
		b := ramp(n, 0, 0)
		for i := range b {
			b[i].Active = int64(seconds * 1e9)
		}
		return b
	}
	for _, c := range []struct {
		name  string
		b     []Block
		h     History
		what  What
		words string
	}{
		{"nothing", nil, History{}, Steps, "0 of 50 steps"},
		{"one block", []Block{{Steps: 200, Samples: 6400, Active: 4e9}}, History{}, Windows, "1 of 15 independent windows"},
		{"few steps", slow(12, 0.5), History{}, Steps, "12 of 50 steps"},
		{"little time", slow(110, 0.01), History{}, Time, "1.10 s of 2.00 s of steps"},
		{"few windows", slow(200, 0.02), History{Longest: time.Second}, Windows, "4 of 15 independent windows"},
		{"wide", draw(independent(0.3)(rand.New(rand.NewPCG(2, 2))), 200, 1), History{}, Precision, ""},
	} {
		got := Compare(long, Measure(Series{Blocks: c.b}), c.h, DefaultMargin).Throughput
		if got.Answer != Unknown || got.Missing.What != c.what || c.words != "" && got.Missing.String() != c.words {
			t.Errorf("%s: %v, missing %q: %+v", c.name, got.Answer, got.Missing, got)
		}
	}
	few := Measure(Series{Blocks: slow(12, 0.5)})
	if got := Compare(few, long, History{}, DefaultMargin).Throughput.Missing; got.String() != "12 of 50 steps to compare with" || !got.OfA() {
		t.Errorf("of A: %q", got)
	}
	if got := (Missing{What: Precision, Have: 2.4, Want: 0.02}).String(); got != "the steps so far differ too much to tell" {
		t.Errorf("a wide interval: %q", got)
	}
	if m := (Missing{What: Precision, Have: 99}); m.Hopeless() || !(Missing{What: Precision, Have: 101}).Hopeless() {
		t.Error("an interval's ends say nothing from a factor of 100 on")
	}
	if got := (Missing{What: Precision, Have: 2.13e26, Want: 0.02}).String(); got != "the steps so far differ too much to tell" {
		t.Errorf("one that says nothing: %q", got)
	}
	if got := (Missing{What: Precision, Have: 0.287, Want: 0.02, More: 21e9}).String(); got != "known to ±28.7 %, ~21 s more would tell" {
		t.Errorf("%q", got)
	}
	if got := (Missing{What: Precision, Have: 0.287, Want: 0.02, More: 1e15}).String(); got != "known to ±28.7 %, ±2.0 % is needed" {
		t.Errorf("one that is too wide: %q", got)
	}
}

// TestTells: an interval is shown with an answer. Without one it is shown while its ends are close
// enough to say something.
func TestTells(t *testing.T) {
	for _, tt := range []struct {
		c    Change
		want bool
	}{
		{Change{Answer: Different, Lo: 1.1, Hi: 4}, true},
		{Change{Missing: Missing{What: Precision}, Lo: 0.9, Hi: 1.2}, true},
		{Change{Missing: Missing{What: Precision}, Lo: 0.05, Hi: 10}, false},
		{Change{Missing: Missing{What: Steps}, Lo: 0.9, Hi: 1.2}, false},
	} {
		if got := tt.c.Tells(); got != tt.want {
			t.Errorf("%+v: %v", tt.c, got)
		}
	}
}

// TestBusyNotMeasured: a device that reports no busy time is not said to be as busy as
// before.
func TestBusyNotMeasured(t *testing.T) {
	b := ramp(300, 0, 0)
	for i := range b {
		b[i].Busy = 0
	}
	m := Measure(Series{Blocks: b})
	c := Compare(m, m, History{}, DefaultMargin)
	if c.Busy.Answer != Unknown || c.Busy.String() != "not measured" || c.Throughput.Answer != Same {
		t.Errorf("%v, %v", &c.Busy, &c.Throughput)
	}
}

// TestDrift: a drift is found with its size, is told from noise, and does not pass for the effect
// of a setting.
func TestDrift(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	host := driftingBy(1e-4, 0.01)(r)
	a := Measure(Series{Blocks: draw(host, 500, 1)})
	b := Measure(Series{Start: int64(a.Active), Blocks: draw(host, 500, 1)})
	if d := a.Step.Drift; !d.Detected || math.Abs(d.Total-0.05/1.025) > 4*d.Error || d.Error > 0.005 {
		t.Errorf("drift of 5 %%: %+v", d)
	}
	if s := a.Step.Drift.String(); !strings.HasPrefix(s, "+") || !strings.HasSuffix(s, " % in 10.3 s") {
		t.Errorf("in words: %q", s)
	}
	c := Compare(a, b, History{}, DefaultMargin).Throughput
	if c.Answer == Different || math.Abs(c.Drifted-0.953) > 0.01 {
		t.Errorf("a host that drifts: %+v", c)
	}
	if s := c.LessDrift(); !strings.HasPrefix(s, "host drift explains x0.95 of the ~-4.") {
		t.Errorf("a host that drifts, in words: %q", s)
	}
	slower := Measure(Series{Start: int64(a.Active), Blocks: draw(host, 500, 1.1)})
	if c := Compare(a, slower, History{}, DefaultMargin).Throughput; c.Answer != Different || c.Hi > 0.97 || c.Lo < 0.85 {
		t.Errorf("10 %% slower on a host that drifts: %+v", c)
	}
	if d := Measure(Series{Blocks: ramp(300, 0, 1e-4)}).Step; !d.Drift.Detected || math.Abs(d.Drift.Total-0.03/1.015) > 1e-3 || math.IsNaN(d.Inefficiency) {
		t.Errorf("an exact drift: %+v", d)
	}
	// Each stretch's own slope holds for its part of the way: from 1 to 1.8 times as long.
	steep := Measure(Series{Blocks: ramp(2000, 0, 2e-4)})
	on := Measure(Series{Start: int64(steep.Active), Blocks: ramp(2000, 2000, 2e-4)})
	if c := Compare(steep, on, History{}, DefaultMargin).Throughput; c.Answer == Different || math.Abs(c.Drifted*1.6/1.2-1) > 0.01 {
		t.Errorf("a steep drift that goes on: %+v", c)
	}
	found := 0
	for range 300 {
		if Measure(Series{Blocks: draw(independent(0.1)(r), 300, 1)}).Step.Drift.Detected {
			found++
		}
	}
	if found > 15 {
		t.Errorf("a drift found %d times in 300 stretches without one", found)
	}
}

// TestMerged: steps that a session merged compare as the single steps do.
func TestMerged(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, squares := range []bool{true, false} {
		steps := draw(independent(0.1)(r), 4096, 1)
		merged := make([]Block, 0, len(steps)/16)
		for i := 0; i < len(steps); i += 16 {
			m := steps[i]
			for _, s := range steps[i+1 : i+16] {
				m = m.Merge(s)
			}
			if !squares {
				m.Squares = 0
			}
			merged = append(merged, m)
		}
		a, b := Measure(Series{Blocks: steps}), Measure(Series{Blocks: merged})
		if b.Blocks != 256 || b.Steps != a.Steps || b.Active != a.Active || b.Step.Mean != a.Step.Mean {
			t.Fatalf("merged: %+v, before: %+v", b, a)
		}
		ratio := b.Step.error2(b.Blocks) / a.Step.error2(a.Blocks)
		if ratio < 0.6 || ratio > 1.7 {
			t.Errorf("the error changed by a factor of %v", ratio)
		}
		if limit := 3 * time.Duration(stepNs); squares && b.Step.Correlation > limit {
			t.Errorf("independent steps are correlated over %v, want under %v", b.Step.Correlation, limit)
		}
	}
}

// TestNull is a quick null suite. The full table is TestTruth.
func TestNull(t *testing.T) {
	for _, h := range hosts {
		if h.from > 200 {
			continue
		}
		const n = 300
		o := trial{host: h.host, a: 200, b: 200, ratio: 1, history: h.history}.runs(n, fresh)
		if p := o.different(); p > most(n) {
			t.Errorf("%s: %.1f %% of equal settings said to differ", h.name, 100*p)
		}
	}
	for _, c := range []struct {
		host   process
		within int
	}{{independent(0.1), 150}, {autoregressive(10, 0.1), 1000}} {
		o := trial{host: c.host, a: 1000, b: c.within, ratio: 1.1}.runs(100, fresh)
		if p := o.different(); p < 0.65 { // about 0.75 of many
			t.Errorf("10 %% slower: found %.0f %% within %d steps", 100*p, c.within)
		}
	}
}

// TestEarly: the sign of a large change is told before its size, and that of equal settings in at most 5
// of 100 comparisons, however often one looks.
func TestEarly(t *testing.T) {
	for _, h := range hosts {
		if h.from > 200 {
			continue
		}
		const n = 100
		o := trial{host: h.host, a: 200, b: 100, ratio: 1, history: h.history, early: true}.runs(n, fresh)
		if p := o.different(); p > most(n) {
			t.Errorf("%s: %.1f %% of equal settings said to differ", h.name, 100*p)
		}
	}
	early := trial{host: autoregressive(10, 0.3), a: 1000, b: 1000, ratio: 1 / 7.8, early: true}
	late := early
	late.early = false
	if a, b := early.runs(20, fresh), late.runs(20, fresh); len(a.first) < 12 || len(b.first) > 5 {
		t.Errorf("7.8 times as fast is told after %v steps, with its size after %v", a.first, b.first)
	}
}

func TestHistory(t *testing.T) {
	var h History
	r := rand.New(rand.NewPCG(1, 1))
	h.Learn(Measure(Series{Blocks: draw(switching(60)(r), 40, 1)}))
	if h.Longest != 0 {
		t.Errorf("40 steps say nothing: %+v", h)
	}
	h.Learn(Measure(Series{Blocks: draw(switching(60)(r), 400, 1)}))
	before := h
	h.Learn(Measure(Series{Blocks: draw(independent(0.1)(r), 400, 1)}))
	if h != before || h.Longest < 10*stepNs {
		t.Errorf("the longest is forgotten, or too short: %+v, %+v", before, h)
	}
}

func TestAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	next := independent(0.05)(r)
	a := Measure(Series{Blocks: draw(next, 300, 1)})
	b := Measure(Series{Start: int64(a.Active), Blocks: draw(next, 300, 1)})
	again := Again(a, b, History{}, DefaultMargin)
	one := Measure(Series{Blocks: draw(next, 600, 1)})
	if !again.Pooled || again.Stretch.Steps != 600 || again.String() != "equal settings, pooled: 600 steps" {
		t.Errorf("equal settings: %+v", again)
	}
	if f := again.Stretch.Step.error2(again.Stretch.Blocks) / one.Step.error2(one.Blocks); f < 0.5 || f > 2 {
		t.Errorf("pooled, the error is %v of that of a stretch as long", f)
	}
	worse := Measure(Series{Start: int64(a.Active), Blocks: draw(next, 300, 1.3)})
	again = Again(a, worse, History{}, DefaultMargin)
	if again.Pooled || again.Stretch.Steps != 300 || !strings.Contains(again.String(), "no setting made it slower, so the device or the host did") {
		t.Errorf("a host that changed: %v, %+v", again, again)
	}
	rising := driftingBy(1e-3, 0.02)(r)
	again = Again(a, Measure(Series{Start: int64(a.Active), Blocks: draw(rising, 300, 1.5)}), History{}, DefaultMargin)
	if again.Pooled || !strings.Contains(again.String(), "the step time drifts, +") {
		t.Errorf("a host that drifts: %v", again)
	}
}

func TestJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	a := Measure(Series{Blocks: draw(independent(0.1)(r), 300, 1)})
	for _, b := range [][]Block{nil, draw(independent(0.1)(r), 20, 1), draw(independent(0.1)(r), 300, 2), ramp(300, 0, 0)} {
		c := Compare(a, Measure(Series{Blocks: b}), History{}, DefaultMargin)
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back Comparison
		if err := json.Unmarshal(text, &back); err != nil || back != c {
			t.Errorf("%s\nread back as %+v: %v", text, back, err)
		}
	}
}

func BenchmarkMeasure(b *testing.B) {
	s := Series{Blocks: draw(autoregressive(10, 0.1)(rand.New(rand.NewPCG(1, 1))), 512, 1)}
	b.ReportAllocs()
	for b.Loop() {
		Measure(s)
	}
}

func BenchmarkCompare(b *testing.B) {
	next := autoregressive(10, 0.1)(rand.New(rand.NewPCG(1, 1)))
	x, y := Measure(Series{Blocks: draw(next, 512, 1)}), Measure(Series{Blocks: draw(next, 512, 1)})
	b.ReportAllocs()
	for b.Loop() {
		Compare(x, y, History{}, DefaultMargin)
	}
}
