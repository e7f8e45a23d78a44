package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// rounds draws runs of equal configurations. The level differs from run to run. It also
// differs from round to round, for all configurations alike.
func rounds(r *rand.Rand, configs, repeat int, between, drift float64) [][]Stretch {
	of := make([][]Stretch, configs)
	for i := range of {
		of[i] = make([]Stretch, repeat)
	}
	for j := range repeat {
		shared := drift * r.NormFloat64()
		for i := range of {
			level := 20e6 * math.Exp(shared+between*r.NormFloat64())
			blocks := make([]Block, 200)
			for k := range blocks {
				ns := int64(level * (1 + 0.05*r.NormFloat64()))
				blocks[k] = Block{Steps: 1, Samples: 32, Active: ns, Busy: ns / 2}
			}
			of[i][j] = Measure(Series{Blocks: blocks})
		}
	}
	return of
}

// TestRuns: equal settings are called different in at most 5 of 100 sweeps, although their runs
// differ far more than the steps within a run. With one round that happens far more often, which is
// why there is --repeat.
func TestRuns(t *testing.T) {
	const trials = 400
	for _, tt := range []struct {
		configs, repeat int
		most            int // trials that call equal settings different
		least           int
	}{
		{2, 3, 32, 0}, {4, 2, 32, 0}, {3, 5, 32, 0},
		{2, 1, trials, trials / 4},
	} {
		r := rand.New(rand.NewPCG(7, uint64(tt.configs*10+tt.repeat)))
		wrong := 0
		for range trials {
			runs := NewRuns(rounds(r, tt.configs, tt.repeat, 0.05, 0.10))
			if runs.Compare(0, 1, DefaultMargin).Throughput.Answer == Different {
				wrong++
			}
		}
		if wrong > tt.most || wrong < tt.least { // 5 % and 3 standard errors
			t.Errorf("%d configurations in %d rounds: %d of %d called different, at most %d and at least %d expected", tt.configs, tt.repeat, wrong, trials, tt.most, tt.least)
		}
	}
}

// TestRunsFind: a difference that is larger than the difference between runs is found, whatever the
// rounds do.
func TestRunsFind(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	of := rounds(r, 3, 3, 0.005, 0.2)
	for j := range of[2] {
		s := &of[2][j]
		s.Step.Mean /= 1.3
	}
	runs := NewRuns(of)
	c := runs.Compare(0, 2, DefaultMargin).Throughput
	if c.Answer != Different || c.Lo > 1.3 || c.Hi < 1.3 || c.Hi/c.Lo > 1.2 {
		t.Errorf("%+v", c)
	}
	if e := runs.Rate(0); !(e.Lo < e.Value && e.Value < e.Hi) {
		t.Errorf("a rate without an interval: %+v", e)
	}
	for j := range 2 { // two runs that differ threefold
		of[0][j].Step.Mean = []float64{20e6, 60e6}[j]
	}
	if e := NewRuns([][]Stretch{of[0][:2]}).Rate(0); !(e.Value > 0) || e.Lo <= e.Hi {
		t.Errorf("two runs that differ have the interval of %+v", e)
	}
	of[2][1] = Stretch{}
	if n := NewRuns(of).Rounds(2); n != 2 {
		t.Errorf("%d runs of the third", n)
	}
}

// TestRunsOnBusyHost: short runs on a host whose load comes and goes seem to drift steeply. Runs
// that took turns are still compared if one configuration is many times as fast.
func TestRunsOnBusyHost(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	at := int64(0)
	run := func(step float64) Stretch {
		blocks := make([]Block, 120)
		load := 0.0
		for k := range blocks {
			load = 0.9*load + 0.25*r.NormFloat64()
			ns := int64(step * math.Exp(load))
			blocks[k] = Block{Steps: 1, Samples: 64, Active: ns, Busy: ns / 8}
		}
		s := Measure(Series{Start: at, Blocks: blocks})
		at += int64(s.Active) + 2e9
		return s
	}
	var of [2][]Stretch
	for i := range 3 {
		for j := range 2 {
			c := (i + j) % 2 // A B B A A B
			of[c] = append(of[c], run([]float64{175e6, 20e6}[c]))
		}
	}
	c := NewRuns(of[:]).Compare(0, 1, DefaultMargin).Throughput
	if c.Answer != Different || c.Lo < 1.5 || c.Hi/c.Lo > 40 {
		t.Errorf("%v, %+v", &c, c)
	}
	wrong := 0
	const trials = 200
	for range trials {
		for i := range of {
			of[i] = of[i][:0]
		}
		for i := range 3 {
			for j := range 2 {
				of[(i+j)%2] = append(of[(i+j)%2], run(20e6))
			}
		}
		if NewRuns(of[:]).Compare(0, 1, DefaultMargin).Throughput.Answer == Different {
			wrong++
		}
	}
	if wrong > trials/20+9 { // 5 % and 3 standard errors
		t.Errorf("%d of %d comparisons of equal settings say different", wrong, trials)
	}
}

func TestStudent(t *testing.T) {
	for free, want := range map[int]float64{1: 12.706, 2: 4.303, 10: 2.228, 11: 2.201, 20: 2.086, 60: 2.000, 1000: 1.962} {
		if got := student(free); math.Abs(got-want) > 0.003 {
			t.Errorf("%d degrees of freedom: %.4f, want %.3f", free, got, want)
		}
	}
}

// TestNext: of four values from the same distribution, the fourth lies in the interval of the first
// three 95 times in 100.
func TestNext(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const trials = 4000
	inside := 0
	for range trials {
		lo, hi := Next([]float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()})
		if x := r.NormFloat64(); lo <= x && x <= hi {
			inside++
		}
	}
	if share := float64(inside) / trials; share < 0.935 || share > 0.965 {
		t.Errorf("%.3f fall in it", share)
	}
}
