package predict

import (
	"math"
	"math/rand/v2"
	"testing"
)

// even is a plant with equal batches and a device that takes next to no time.
func even(workers int, core, blocked float64) plant {
	return plant{
		workers: workers, prefetch: 2, inOrder: true, persistent: true,
		load: []demand{{core, blocked}}, compute: []float64{1}, cores: 64,
	}
}

const ms = 1e6

// TestClosedForms compares simulations with what can be worked out by hand.
func TestClosedForms(t *testing.T) {
	late := func(p plant, order bool) plant {
		p.late, p.inOrder = []float64{0, 0, 30 * ms}, order
		return p
	}
	with := func(p plant, change func(*plant)) plant {
		change(&p)
		return p
	}
	for _, tt := range []struct {
		name string
		p    plant
		step float64 // ns a batch
		data float64 // share of the time; -1: not said
	}{
		{"one worker, reading", even(1, 0, 10*ms), 10 * ms, 1},
		{"one worker, computing", even(1, 10*ms, 0), 10 * ms, 1},
		{"reads wait side by side", even(8, 0, 40*ms), 5 * ms, 1},
		{"workers compute on fewer cores", with(even(8, 12*ms, 0), func(p *plant) { p.cores = 3 }), 4 * ms, 1},
		{"as many workers as cores", with(even(4, 12*ms, 0), func(p *plant) { p.cores = 4 }), 3 * ms, 1},
		{"computing and waiting overlap", with(even(32, 2*ms, 30*ms), func(p *plant) { p.cores = 1 }), 2 * ms, 1},
		{"a neighbour takes its share", with(even(2, 6*ms, 0), func(p *plant) { p.cores, p.rivals = 2, 2 }), 6 * ms, 1},
		{"two threads in one core's queue", with(even(2, 10*ms, 0), func(p *plant) { p.cores, p.uneven = 2, 0.2 }), 6.25 * ms, 1},
		{"more threads keep all cores busy", with(even(6, 10*ms, 0), func(p *plant) { p.cores, p.uneven = 2, 0.2 }), 5 * ms, 1},
		{"reads share a disk", with(even(8, 0, 40*ms), func(p *plant) { p.disk = 2 }), 20 * ms, 1},
		{"fewer reads than the disk serves", with(even(2, 0, 40*ms), func(p *plant) { p.disk = 2 }), 20 * ms, 1},
		{"the device is what is slow", with(even(4, 0, 8*ms), func(p *plant) { p.compute = []float64{5 * ms} }), 5 * ms, 0},
		{"the loader keeps up just so", with(even(2, 0, 8*ms), func(p *plant) { p.compute = []float64{5 * ms} }), 5 * ms, 0},
		{"the loader is a fifth too slow", with(even(1, 0, 6*ms), func(p *plant) { p.compute = []float64{5 * ms} }), 6 * ms, 1. / 6},
		{"copies hide behind computing", with(even(4, 0, 1*ms), func(p *plant) { p.compute, p.copy = []float64{5 * ms}, 4*ms }), 5 * ms, 0},
		{"copies are what is slow", with(even(4, 0, 1*ms), func(p *plant) { p.compute, p.copy = []float64{2 * ms}, 4*ms }), 4 * ms, -1},
		{"the step loop is what is slow", with(even(4, 0, 1*ms), func(p *plant) { p.compute, p.host = []float64{1 * ms}, 3*ms }), 3 * ms, 0},
		{"the device is the step loop's thread", with(even(4, 0, 1*ms), func(p *plant) { p.compute, p.host, p.serial = []float64{4 * ms}, 1*ms, true }), 5 * ms, 0},
		{"inline, and nothing can hide", with(even(0, 0, 4*ms), func(p *plant) { p.compute, p.serial = []float64{6 * ms}, true }), 10 * ms, 0.4},
		{"inline, nothing hidden", with(even(0, 0, 10*ms), func(p *plant) { p.compute = []float64{1 * ms} }), 10 * ms, 0.9},
		{"inline, hidden behind the device", with(even(0, 0, 4*ms), func(p *plant) { p.compute = []float64{10 * ms} }), 10 * ms, 0},
		{"a straggler, in order", late(even(4, 0, 10*ms), true), 40. / 8 * ms, 1},       // while it has one, 7 more may be in flight
		{"a straggler, out of order", late(even(4, 0, 10*ms), false), 40. / 13 * ms, 1}, // 3 workers of 10 ms, one of 40
		{"the cpu device computes alone", with(even(2, 0, 1*ms), func(p *plant) { p.compute, p.cores, p.threads = []float64{4 * ms}, 2, 2 }), 4 * ms, 0},
		{"the cpu device shares its cores", with(even(8, 4*ms, 0), func(p *plant) { p.compute, p.cores, p.threads = []float64{4 * ms}, 2, 2 }), 6 * ms, -1}, // 4 + 8 ms of core time
		{"a step that slept gets its turns soon", with(even(4, 0, 1*ms), func(p *plant) {
			p.compute, p.cores, p.threads, p.blocked, p.rivals, p.prompt = []float64{8 * ms}, 1, 1, 0.5, 3, 0.5
		}), 12 * ms, 0}, // 4 ms asleep, and half of 4 ms beside three others
		{"a step that blocks leaves its core to a worker", with(even(1, 8*ms, 0), func(p *plant) { p.compute, p.cores, p.threads, p.blocked = []float64{8 * ms}, 1, 1, 1 }), 8 * ms, -1},
		{"a step that blocks for half of its time", with(even(1, 8*ms, 0), func(p *plant) { p.compute, p.cores, p.threads, p.blocked = []float64{8 * ms}, 1, 1, 0.5 }), 12 * ms, -1},
		{"epochs of one batch, workers anew", with(even(2, 0, 10*ms), func(p *plant) { p.epoch, p.persistent = 1, false }), 10 * ms, -1},
		{"epochs of one batch, one ahead", with(even(2, 0, 10*ms), func(p *plant) { p.epoch = 1 }), 5 * ms, -1},
		{"an epoch waits for its first batch", with(even(4, 0, 40*ms), func(p *plant) { p.epoch, p.persistent, p.compute = 8, false, []float64{20 * ms} }), (40. + 8*20 - 2*20) / 8 * ms, -1},
	} {
		f := tt.p.flow()
		if math.Abs(f.step/tt.step-1) > 0.03 {
			t.Errorf("%s: %.3f ms a batch, want %.3f", tt.name, f.step/ms, tt.step/ms)
		}
		if tt.data >= 0 && math.Abs(f.data-tt.data) > 0.03 {
			t.Errorf("%s: waits for data %.3f of the time, want %.3f", tt.name, f.data, tt.data)
		}
	}
}

// random draws any plant.
func random(r *rand.Rand) plant {
	p := plant{
		workers: r.IntN(9), prefetch: 1 + r.IntN(4), inOrder: r.IntN(2) == 0, persistent: r.IntN(2) == 0,
		host: r.Float64() * ms, copy: r.Float64() * ms, start: r.Float64() * ms,
		cores: float64(1 + r.IntN(8)), rivals: float64(r.IntN(3)),
	}
	if r.IntN(3) == 0 {
		p.epoch = 1 + r.IntN(600)
	}
	if r.IntN(3) == 0 {
		p.threads, p.blocked = 1+r.Float64()*(p.cores-1), float64(r.IntN(3))/2
	}
	core, blocked := r.Float64()*10*ms, r.Float64()*10*ms
	for range 50 {
		p.load = append(p.load, demand{core * r.ExpFloat64(), blocked * r.ExpFloat64()})
		p.compute = append(p.compute, ms*(0.5+5*r.Float64()))
	}
	return p
}

// TestPlantProperties checks what holds for every plant.
func TestPlantProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		p := random(r)
		f := p.flow()
		if !(f.step > 0) || math.IsInf(f.step, 0) || f.data < 0 || f.data > 1 {
			t.Fatalf("%+v: %+v", p, f)
		}
		if again := p.flow(); again != f {
			t.Fatalf("the same plant, %+v and %+v", f, again)
		}
		// At its start and end, a stretch may differ by a batch or two.
		if device := mean(p.compute); f.step < 0.97*device {
			t.Errorf("%d workers: %.3f ms a batch, the device alone takes %.3f", p.workers, f.step/ms, device/ms)
		}
		more := p
		more.cores *= 2
		if g := more.flow(); g.step > 1.05*f.step {
			t.Errorf("%.0f cores: %.3f ms a batch, twice as many: %.3f (%+v)", p.cores, f.step/ms, g.step/ms, p)
		}
	}
}

func BenchmarkFlow(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, bb := range []struct {
		name    string
		workers int
		epoch   int
	}{{"4 workers", 4, 0}, {"64 workers", 64, 0}, {"epochs", 4, 384}} {
		b.Run(bb.name, func(b *testing.B) {
			p := random(r)
			p.workers, p.epoch, p.persistent = bb.workers, bb.epoch, false
			for b.Loop() {
				p.flow()
			}
		})
	}
}

// TestInTurns: PyTorch gives each worker its batches in turns. So if all slow batches go to one worker, they
// hold up the rest, however long the queue is. Workers that take the next batch when idle share the slow
// ones.
func TestInTurns(t *testing.T) {
	p := plant{workers: 2, prefetch: 16, inOrder: true, persistent: true, compute: []float64{1e6}}
	for i := range 6 {
		p.load = append(p.load, demand{blocked: 160e6 * float64(max(0, 1-i))})
	}
	for _, c := range []struct {
		turns, order bool
		epoch        int
		step         float64
	}{{true, true, 0, 160e6 / 6}, {false, true, 0, 80e6 / 6}, {true, false, 0, 80e6 / 6}, {true, true, 1, 160e6}} {
		p.inTurns, p.inOrder, p.epoch = c.turns, c.order, c.epoch
		if c.epoch == 1 {
			p.load = p.load[:1]
		}
		if got := p.flow().step; math.Abs(got/c.step-1) > 0.15 {
			t.Errorf("%+v: a step takes %.1f ms", c, got/1e6)
		}
	}
}
