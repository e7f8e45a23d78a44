package stats

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"
)

// stepNs is a simulated step's time where a process says 1.
const stepNs = 20e6

// process is a host: it gives the time of each next step, around 1.
type process func(r *rand.Rand) func() float64

func independent(sigma float64) process {
	return func(r *rand.Rand) func() float64 {
		return func() float64 { return max(0.1, 1+sigma*r.NormFloat64()) }
	}
}

// autoregressive steps have correlation exp(-k/tau) when k apart.
func autoregressive(tau, sigma float64) process {
	return func(r *rand.Rand) func() float64 {
		phi := math.Exp(-1 / tau)
		x := sigma * r.NormFloat64()
		return func() float64 {
			v := x
			x = phi*x + sigma*math.Sqrt(1-phi*phi)*r.NormFloat64()
			return max(0.1, 1+v)
		}
	}
}

// switching is a neighbour that comes and goes. Steps take 1 or 1.6, and that changes
// after dwell steps on average.
func switching(dwell float64) process {
	return func(r *rand.Rand) func() float64 {
		slow := r.IntN(2) == 1
		return func() float64 {
			if r.Float64() < 1/dwell {
				slow = !slow
			}
			v := 1 + 0.05*r.NormFloat64()
			if slow {
				v *= 1.6
			}
			return v
		}
	}
}

// driftingBy: steps become longer by slope a step.
func driftingBy(slope, sigma float64) process {
	return func(r *rand.Rand) func() float64 {
		i := 0.0
		return func() float64 {
			i++
			return (1 + slope*i) * max(0.1, 1+sigma*r.NormFloat64())
		}
	}
}

// bursts: so many workers deliver their batches together, so one step in workers waits.
func bursts(workers int, wait float64) process {
	return func(r *rand.Rand) func() float64 {
		i := r.IntN(workers)
		return func() float64 {
			i++
			v := 1 + 0.05*r.NormFloat64()
			if i%workers == 0 {
				v += wait * (0.8 + 0.4*r.Float64())
			}
			return v
		}
	}
}

// spikes are rare long steps, such as a garbage collector's.
func spikes(p, height float64) process {
	return func(r *rand.Rand) func() float64 {
		return func() float64 {
			v := max(0.1, 1+0.05*r.NormFloat64())
			if r.Float64() < p {
				v += height * r.ExpFloat64()
			}
			return v
		}
	}
}

// draw makes n blocks of one step; all of a step is busy.
func draw(next func() float64, n int, ratio float64) []Block {
	b := make([]Block, n)
	for i := range b {
		t := int64(next() * ratio * stepNs)
		b[i] = Block{Steps: 1, Samples: 32, Active: t, Busy: t}
	}
	return b
}

// drawSwitches draws at least 100 steps, until the load has changed so many times.
func drawSwitches(next func() float64, switches int) []Block {
	var b []Block
	for slow := false; len(b) < 100 || switches > 0; {
		b = append(b, draw(next, 1, 1)...)
		now := b[len(b)-1].Active > 1.3*stepNs
		if len(b) > 1 && now != slow {
			switches--
		}
		slow = now
	}
	return b
}

// trial compares A, of so many steps, with a B that follows it on the same host. The
// answer is looked at after every step of B.
type trial struct {
	host    process
	a, b    int     // steps
	ratio   float64 // true time of B over that of A
	history int     // changes of load that the session saw before A
	early   bool    // the early sign counts, which is told before the size
}

// run returns the step of B at which different was first said, 0 if never, and the
// throughput at the last look.
func (t trial) run(r *rand.Rand) (first int, last Change) {
	next := t.host(r)
	var h History
	if t.history > 0 {
		h.Learn(Measure(Series{Blocks: drawSwitches(next, t.history)}))
	}
	a := Measure(Series{Blocks: draw(next, t.a, 1)})
	h.Learn(a)
	// A live session merges old steps. Here this happens as soon as Measure would do
	// it.
	var blocks []Block
	var active, per int64 = 0, 1
	for k, step := range draw(next, t.b, t.ratio) {
		step.Busy = 0 // not compared here, which halves the time
		active += step.Active
		if n := len(blocks); n > 0 && int64(blocks[n-1].Steps) < per {
			blocks[n-1] = blocks[n-1].Merge(step)
		} else {
			blocks = append(blocks, step)
		}
		if len(blocks) > maxBlocks {
			blocks = Series{Blocks: blocks}.bounded()
			per *= 2
		}
		if !t.early && k+1 < t.b && active < leastWindows*int64(h.Longest) {
			continue // nothing can be said yet: not looking is quicker
		}
		last = Compare(a, Measure(Series{Start: int64(a.Active), Blocks: blocks}), h, DefaultMargin).Throughput
		if _, certain := last.Early(); last.Answer == Different || t.early && certain {
			return k + 1, last
		}
	}
	return 0, last
}

// outcome sums up many trials.
type outcome struct {
	trials, same, drift int
	first               []int // sorted
}

func (o *outcome) different() float64 { return float64(len(o.first)) / float64(o.trials) }

// runs makes so many trials, each of its own random numbers, which follow from the seed.
func (t trial) runs(trials int, seed uint64) outcome {
	o := outcome{trials: trials}
	var mu sync.Mutex
	var wg sync.WaitGroup
	procs := runtime.GOMAXPROCS(0)
	for p := range procs {
		wg.Go(func() {
			for i := p; i < trials; i += procs {
				first, last := t.run(rand.New(rand.NewPCG(seed, uint64(i))))
				mu.Lock()
				if first > 0 {
					o.first = append(o.first, first)
				}
				if last.Answer == Same {
					o.same++
				}
				if last.Drift[0].Detected {
					o.drift++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(o.first)
	return o
}

// epochs makes short epochs: the first step of each waits for its batch, so the waits
// are equally far apart.
func epochs(steps int, wait float64) process {
	return func(r *rand.Rand) func() float64 {
		i := r.IntN(steps)
		return func() float64 {
			i++
			v := 1 + 0.05*r.NormFloat64()
			if i%steps == 0 {
				v += wait
			}
			return v
		}
	}
}

// alternation measures pairs, as the experiment does in a run: blocks by their time,
// a few steps left out at each change.
type alternation struct {
	host  process
	ratio float64 // true time of B over that of A
	steps int     // after which it is given up
}

// leftOut is how many steps the transition to other settings has.
const leftOut = 8

// run returns the answer, the steps until then and the steps that a pair had.
func (t alternation) run(r *rand.Rand) (answer Answer, steps, perPair int) {
	next := t.host(r)
	m := Measure(Series{Blocks: draw(next, 150, 1)})
	quarter := int64(Quarter(m, History{}, time.Duration(t.steps)*stepNs))
	inForce := 0
	measure := func(arm int, long int64, into *Block) {
		ratio := [2]float64{1, t.ratio}[arm]
		if arm != inForce {
			inForce = arm
			draw(next, leftOut, ratio)
			steps += leftOut
		}
		for active := int64(0); active < long; steps++ {
			b := draw(next, 1, ratio)[0]
			active += b.Active
			*into = into.Merge(b)
		}
	}
	var pairs []Pair
	for {
		var p Pair
		outer := r.IntN(2)
		blocks := [2]*Block{&p.A, &p.B}
		measure(outer, quarter, blocks[outer])
		measure(1-outer, 2*quarter, blocks[1-outer])
		measure(outer, quarter, blocks[outer])
		if steps > t.steps {
			return Unknown, t.steps, perPair
		}
		pairs = append(pairs, p)
		perPair = steps / len(pairs)
		if a := Paired(pairs, DefaultMargin).Throughput.Answer; a != Unknown {
			return a, steps, perPair
		}
	}
}

// alternations sums up many of them.
type alternations struct {
	trials, same int
	different    []int // steps until then, sorted
	perPair      int   // steps, on average
}

// runs makes so many trials, each from a seed of its own.
func (t alternation) runs(trials int) alternations {
	o := alternations{trials: trials}
	var mu sync.Mutex
	var wg sync.WaitGroup
	procs := runtime.GOMAXPROCS(0)
	for p := range procs {
		wg.Go(func() {
			for i := p; i < trials; i += procs {
				answer, steps, perPair := t.run(rand.New(rand.NewPCG(9, uint64(i))))
				mu.Lock()
				switch answer {
				case Same:
					o.same++
				case Different:
					o.different = append(o.different, steps)
				}
				o.perPair += perPair
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	o.perPair /= trials
	slices.Sort(o.different)
	return o
}
