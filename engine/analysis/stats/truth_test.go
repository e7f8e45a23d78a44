package stats

import (
	"flag"
	"fmt"
	"math"
	"regexp"
	"testing"
)

var (
	truth  = flag.Bool("truth", false, "measure the table of error rates and print it (minutes)")
	trials = flag.Int("trials", 2000, "trials in a row of the table")
	only   = flag.String("rows", "", "only the rows whose name matches this expression")
	seed   = flag.Uint64("seed", fresh, "of the trials' random numbers")
)

// fresh is the seed of the trials. The expected drifts were chosen from trials of another
// seed (8).
const fresh = 20

// hosts are what the table is measured on.
var hosts = []struct {
	name    string
	host    process
	history int
	from    int // steps from which the promise of 5 % is made
}{
	{"independent, noise 10 %", independent(0.1), 0, 30},
	{"correlated over 10 steps, noise 10 %", autoregressive(10, 0.1), 0, 30},
	{"correlated over 33 steps, noise 10 %", autoregressive(33, 0.1), 0, 30},
	{"load switches every 60 steps", switching(60), 0, 500},
	{"load switches every 60 steps, two switches seen before", switching(60), 2, 30},
	{"drift of 2 % in 1,000 steps, noise 10 %", driftingBy(2e-5, 0.1), 0, 30},
	{"drift of 2 % in 1,000 steps, noise 2 %", driftingBy(2e-5, 0.02), 0, 30},
	{"drift of 10 % in 1,000 steps, noise 10 %", driftingBy(1e-4, 0.1), 0, 100},
	{"drift of 10 % in 1,000 steps, noise 2 %", driftingBy(1e-4, 0.02), 0, 100},
	{"drift of 20 % in 1,000 steps, noise 10 %", driftingBy(2e-4, 0.1), 0, 100},
	{"bursts of 8 workers", bursts(8, 4), 0, 30},
	{"rare long steps (1 in 100, about 10 times)", spikes(0.01, 10), 0, 30},
}

// alternated are what pairs are measured on.
var alternated = []struct {
	name  string
	host  process
	finds bool // the promise is made that 5 % are found
}{
	{"independent, noise 10 %", independent(0.1), true},
	{"independent, noise 30 %", independent(0.3), false},
	{"correlated over 10 steps, noise 10 %", autoregressive(10, 0.1), false},
	{"correlated over 33 steps, noise 10 %", autoregressive(33, 0.1), false},
	{"correlated over 300 steps, noise 10 %", autoregressive(300, 0.1), false},
	{"load switches every 60 steps", switching(60), false},
	{"load switches every 600 steps", switching(600), false},
	{"drift of 2 % in 1,000 steps, noise 10 %", driftingBy(2e-5, 0.1), true},
	{"drift of 10 % in 1,000 steps, noise 10 %", driftingBy(1e-4, 0.1), true},
	{"drift of 20 % in 1,000 steps, noise 10 %", driftingBy(2e-4, 0.1), true},
	{"drift of 20 % in 1,000 steps, noise 2 %", driftingBy(2e-4, 0.02), true},
	{"bursts of 8 workers", bursts(8, 4), false},
	{"rare long steps (1 in 100, about 10 times)", spikes(0.01, 10), false},
	{"epochs of 208 steps, the first of each 50 times as long", epochs(208, 50), false},
}

const nominal = 0.05

// most is the largest share that is within 3 standard errors of the nominal one.
func most(trials int) float64 {
	return nominal + 3*math.Sqrt(nominal*(1-nominal)/float64(trials))
}

// TestTruth measures by simulation how often equal settings are called different when one looks
// after every step, and after how many steps a true difference is found. It then measures the same
// for settings that take turns.
func TestTruth(t *testing.T) {
	if !*truth {
		t.Skip("takes minutes; run it with -truth, or make truth")
	}
	t.Run("stretches", truthOfStretches)
	t.Run("pairs", truthOfPairs)
}

func truthOfStretches(t *testing.T) {
	rows := regexp.MustCompile(*only)
	fmt.Println("\nEqual settings, 20 ms a step, looked at after every step of B; A has as many steps.")
	fmt.Println("\n| host | steps | nominal | said to differ | said to be the same | A said to drift |")
	fmt.Println("|---|--:|--:|--:|--:|--:|")
	for _, h := range hosts {
		if !rows.MatchString(h.name) {
			continue
		}
		for _, n := range []int{30, 100, 200, 500, 2000} {
			o := trial{host: h.host, a: n, b: n, ratio: 1, history: h.history}.runs(*trials, *seed)
			p := o.different()
			fmt.Printf("| %s | %d | %.0f %% | %.2f ± %.2f %% | %.1f %% | %.1f %% |\n", h.name, n, 100*nominal, 100*p,
				100*math.Sqrt(p*(1-p)/float64(o.trials)), 100*float64(o.same)/float64(o.trials), 100*float64(o.drift)/float64(o.trials))
			if n >= h.from && p > most(o.trials) {
				t.Errorf("%s, %d steps: %.2f %% said to differ", h.name, n, 100*p)
			}
		}
	}
	fmt.Println("\nB takes 10 % longer than A; A has 1,000 steps.")
	fmt.Println("\n| host | within steps | found | median steps |")
	fmt.Println("|---|--:|--:|--:|")
	for _, h := range hosts {
		if !rows.MatchString(h.name) {
			continue
		}
		for _, n := range []int{150, 1000} {
			o := trial{host: h.host, a: 1000, b: n, ratio: 1.1, history: h.history}.runs(max(1, *trials/4), *seed)
			median := "more"
			if 2*len(o.first) > o.trials {
				median = fmt.Sprint(o.first[o.trials/2])
			}
			fmt.Printf("| %s | %d | %.1f %% | %s |\n", h.name, n, 100*o.different(), median)
		}
	}
}

func truthOfPairs(t *testing.T) {
	rows := regexp.MustCompile(*only)
	fmt.Println("\nSettings that take turns in pairs, within 6,000 steps of 20 ms (2 minutes), looked at after each pair.")
	fmt.Println("\n| host | steps a pair | B takes longer by | said to differ | said to be the same | median steps until it is said to differ |")
	fmt.Println("|---|--:|--:|--:|--:|--:|")
	for _, h := range alternated {
		if !rows.MatchString(h.name) {
			continue
		}
		for _, ratio := range []float64{1, 1.05, 1.1} {
			o := alternation{host: h.host, ratio: ratio, steps: 6000}.runs(*trials)
			p, median := float64(len(o.different))/float64(o.trials), "more"
			if 2*len(o.different) > o.trials {
				median = fmt.Sprint(o.different[o.trials/2])
			}
			fmt.Printf("| %s | %d | %.0f %% | %.2f ± %.2f %% | %.1f %% | %s |\n", h.name, o.perPair, 100*(ratio-1), 100*p,
				100*math.Sqrt(p*(1-p)/float64(o.trials)), 100*float64(o.same)/float64(o.trials), median)
			if ratio == 1 && p > most(o.trials) {
				t.Errorf("%s, in pairs: %.2f %% said to differ", h.name, 100*p)
			}
			if ratio == 1.05 && h.finds && p < 0.9 {
				t.Errorf("%s, in pairs: 5 %% found in %.2f %%", h.name, 100*p)
			}
		}
	}
}
