package predict

import (
	"math"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestHandOver: PyTorch workers save the time of loading, less what handing a batch over takes.
func TestHandOver(t *testing.T) {
	const us = 1e3
	b := &attribution.Breakdown{}
	b.Steps = 1
	b.Stall[trace.CauseDataLoader], b.Stall[trace.CauseHost] = 700*us, 400*us
	for _, tt := range []struct {
		name          string
		of            string
		workers, to   int
		core, blocked float64 // of loading a batch
		least, most   float64 // of the gain, as ratios
	}{
		{"cheap samples", "2 tensors, 528 B in all", 0, 2, 60 * us, 0, 0, 0.8},
		{"nobody told what a batch is", "", 0, 2, 60 * us, 0, 0, 0.8},
		{"many tensors", "1,040 tensors, 12 MiB in all", 0, 2, 5000 * us, 0, 0, 0.5},
		{"large ones", "2 tensors, 64.0 MiB in all", 0, 2, 3000 * us, 0, 0, 0.9},
		{"slow samples", "2 tensors, 528 B in all", 0, 2, 0, 20000 * us, 1.5, 3},
		{"no workers any more", "2 tensors, 528 B in all", 2, 0, 240 * us, 0, 1.5, 6},
		{"slow samples, no workers any more", "2 tensors, 528 B in all", 2, 0, 0, 20000 * us, 0.3, 0.8},
	} {
		host := []knob.Setting{{Name: trace.BatchOf, Value: tt.of}}
		m := &Model{
			processes: true, scale: 1, fitted: 1, now: settings{workers: tt.workers, batch: 2, inOrder: true, persistent: true},
			loading: Work{Core: tt.core, Blocked: tt.blocked},
			plant:   plant{load: []demand{{tt.core, tt.blocked}}, compute: []float64{340 * us}, serial: true, threads: 1, cores: 2},
		}
		m.handing = handoverOf(host, b, &Loading{Read: 1, Compute: 1}, &Cores{}, tt.workers)
		m.apply(&m.plant, &m.now, likely)
		m.plant.gap = m.handing.taking + m.handing.waking
		m.rate = 1e9 * 2 / m.plant.flow().step
		to := knob.Setting{Name: numWorkers, Value: string(rune('0' + tt.to))}
		p, ok := m.Predict(to)
		if g := Gain(p.Prediction); !ok || g.Lo < tt.least || g.Hi > tt.most {
			t.Errorf("%s: %s, want %v to %v", tt.name, Words(p.Prediction), tt.least, tt.most)
		}
		m.known, m.Capacity = true, Capacity{CPU: 1600 * us, Device: 340 * us, Batch: 2, Cores: Cores{All: 2}}
		if got := m.Feed(); strings.HasPrefix(got, "more without workers, as handing batches over takes cores: this host can") != (tt.to == 0 && tt.least > 1) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// TestStreaming: a second worker that only moves bytes may gain nothing, as memory serves both together.
func TestStreaming(t *testing.T) {
	const ms = 1e6
	for _, tt := range []struct {
		name, of    string
		least, most float64 // of the low end of the gain, as ratios
	}{
		{"large arrays", "1 tensor, 96.0 MiB in all", 0.8, 1.1},
		{"images", "2 tensors, 6.0 MiB in all", 1.5, 2},
		{"small ones", "2 tensors, 528 B in all", 1.6, 2},
	} {
		m := &Model{
			processes: true, scale: 1, fitted: 1, now: settings{workers: 1, prefetch: 2, batch: 4, inOrder: true, persistent: true},
			loading: Work{Core: 160 * ms},
			plant:   plant{load: []demand{{160 * ms, 0}}, compute: []float64{4 * ms}, serial: true, threads: 1, blocked: 0.95, cores: 2},
		}
		m.handing = handoverOf([]knob.Setting{{Name: trace.BatchOf, Value: tt.of}}, &attribution.Breakdown{Totals: trace.Totals{Steps: 1}}, &Loading{Batch: m.loading, Compute: 1}, &Cores{}, 1)
		m.apply(&m.plant, &m.now, likely)
		m.rate = 1e9 * 4 / m.plant.flow().step
		if p, ok := m.Predict(knob.Setting{Name: numWorkers, Value: "2"}); !ok || Gain(p.Prediction).Lo < tt.least || Gain(p.Prediction).Lo > tt.most {
			t.Errorf("%s: %s, want %v to %v at the least", tt.name, Words(p.Prediction), tt.least, tt.most)
		}
	}
}

// TestStarts: workers that begin anew in each epoch take core time. Where others have the cores, one is then predicted to be
// faster than four, unless epochs are long or workers live on.
func TestStarts(t *testing.T) {
	const ms = 1e6
	for _, tt := range []struct {
		name       string
		waiting    float64 // share of the time in which our threads have no core
		batches    int64   // of an epoch
		persistent bool
		one        bool // one is faster than four
	}{
		{"a quiet host", 0, 48, false, false},
		{"beside others", 0.9, 12, false, true},
		{"beside others, long epochs", 0.9, 2000, false, false},
		{"beside others, workers that live on", 0.9, 12, true, false},
	} {
		m := &Model{
			processes: true, scale: 1, fitted: 1, now: settings{batch: 8, inOrder: true, persistent: tt.persistent}, samples: 8 * tt.batches,
			loading: Work{Core: 1.5 * ms, Blocked: 20 * ms},
			plant:   plant{load: []demand{{1.5 * ms, 20 * ms}}, compute: []float64{10 * ms}, serial: true, threads: 1, blocked: 0.95, cores: 2},
		}
		if tt.waiting > 0 {
			m.Capacity.Cores = Cores{All: 2, Ours: 0.1, Others: 1.9, Waiting: tt.waiting, Known: true}
			m.plant.rivals = 1.9 / (1 - tt.waiting)
		}
		m.handing = handoverOf(nil, &attribution.Breakdown{Totals: trace.Totals{Steps: 1}}, &Loading{Batch: m.loading, Compute: 1}, &Cores{}, 0)
		m.apply(&m.plant, &m.now, likely)
		m.rate = 1e9 * 8 / m.plant.flow().step
		rate := func(n string) float64 {
			p, _ := m.Predict(knob.Setting{Name: numWorkers, Value: n})
			return p.Rate
		}
		if one, four := rate("1"), rate("4"); (one > four) != tt.one {
			t.Errorf("%s: %.0f samples/s with one worker, %.0f with four, %.0f with none", tt.name, one, four, m.rate)
		}
	}
}

// TestReady: where others in our group have the cores, handing a batch over waits for them. A longer queue is handed many
// batches while the loop waits for another, and workers that last do not end with an epoch.
func TestReady(t *testing.T) {
	const ms = 1e6
	for _, tt := range []struct {
		name        string
		waiting     float64 // share of the time in which our threads have no core
		rivals      float64 // cores that others in our group use
		workers     int     // in force
		to          knob.Setting
		epoch       int64
		least, most float64 // ms of a step, likely
	}{
		{"a quiet host", 0, 0, 1, knob.Setting{Name: numWorkers, Value: "4"}, 0, 7, 7.8},
		{"others in a group of their own", 0.7, 0, 1, knob.Setting{Name: numWorkers, Value: "4"}, 0, 7, 7.8},
		{"others in our group", 0.7, 1.8, 1, knob.Setting{Name: numWorkers, Value: "4"}, 0, 9, 11},
		{"others in our group, the loop loads", 0.7, 1.8, 0, knob.Setting{Name: numWorkers, Value: "4"}, 0, 9, 11},
		{"others in our group, a longer queue", 0.7, 1.8, 4, knob.Setting{Name: prefetchFactor, Value: "8"}, 0, 7.3, 8.4},
		{"short epochs, workers that last", 0, 0, 4, knob.Setting{Name: persistent, Value: "on"}, 24, 7.2, 8},
	} {
		cores := Cores{All: 2, Ours: 0.2, Others: 1.8, Waiting: tt.waiting, Known: true, Shared: host.BySession, Rivals: tt.rivals}
		if tt.waiting == 0 {
			cores.Others = 0
		}
		m := &Model{
			processes: true, scale: 1, fitted: 1, now: settings{workers: tt.workers, batch: 8, inOrder: true}, samples: 8 * tt.epoch,
			loading: Work{Core: 0.3 * ms, Blocked: 16 * ms}, Capacity: Capacity{Cores: cores},
			plant: plant{load: []demand{{0.3 * ms, 16 * ms}}, compute: []float64{6 * ms}, serial: true, threads: 1, blocked: 0.95, cores: 2, rivals: tt.rivals},
		}
		b := &attribution.Breakdown{Totals: trace.Totals{Steps: 1}}
		if b.Stall[trace.CauseDataLoader] = 1.2 * ms; tt.rivals > 0 {
			b.Stall[trace.CauseHost] = 1.5 * ms
		}
		m.handing = handoverOf(nil, b, &Loading{Batch: m.loading, Compute: 1}, &cores, tt.workers)
		m.plant.gap, m.plant.host = m.handing.taking, m.handing.beside()
		m.apply(&m.plant, &m.now, likely)
		m.base = flow{step: 16 * ms, data: 0.5}
		m.rate = 1e9 * 8 / m.base.step
		p, ok := m.Predict(tt.to)
		if step := 8e3 / p.Rate; !ok || step < tt.least || step > tt.most {
			t.Errorf("%s: a step of %.2f ms, want %v to %v", tt.name, step, tt.least, tt.most)
		}
	}
}

// TestLeftEarly: a script whose loops leave their loader after a few of many batches starts workers as often. Those that live on gain
// that, less what is loaded ahead and thrown away.
func TestLeftEarly(t *testing.T) {
	const ms = 1e6
	for _, tt := range []struct {
		complete    bool  // the last loop but one took all batches
		steps       int64 // of the other loops
		left        int
		least, most float64 // of the likely gain, as ratios
	}{{false, 21, 21, 1.5, 2.2}, {true, 21, 0, 0.95, 1.2}, {false, 480, 480, 0.95, 1.2}} {
		s := &trace.Snapshot{Digest: trace.Digest{Epochs: []*trace.Epoch{{Totals: trace.Totals{Steps: tt.steps}}, {Totals: trace.Totals{Steps: tt.steps}, Complete: tt.complete}, {Totals: trace.Totals{Steps: 3}}}}}
		s.Meta.Host = []knob.Setting{{Name: "torch", Value: "2.15"}}
		m := &Model{
			processes: true, scale: 1, fitted: 1, now: settings{workers: 3, batch: 8, inOrder: true}, samples: 8 * 500, begins: beginning{leftAfter(s), 200 * ms, 0, 0},
			loading: Work{Blocked: 6 * ms},
			plant:   plant{load: []demand{{0, 6 * ms}}, compute: []float64{8 * ms}, serial: true, threads: 1, blocked: 0.95, cores: 2},
		}
		m.apply(&m.plant, &m.now, likely)
		m.rate = 1e9 * 8 / m.plant.flow().step
		p, ok := m.Predict(knob.Setting{Name: persistent, Value: "on"})
		if g := Gain(p.Prediction); !ok || m.begins.left != tt.left || g.Value < tt.least || g.Value > tt.most {
			t.Errorf("%+v: left after %d batches, %s", tt, m.begins.left, Words(p.Prediction))
		}
	}
}

// TestKept: where others have the cores, the loop's waits for one while it takes a batch may pass elsewhere without workers.
func TestKept(t *testing.T) {
	const ms = 1e6
	for _, tt := range []struct{ waiting, least, most float64 }{{0, 5, 20}, {0.95, 0.9, 1.2}} {
		m := &Model{
			processes: true, scale: 1, fitted: 1, now: settings{workers: 2, batch: 1, inOrder: true, persistent: true},
			plant: plant{load: []demand{{0.1 * ms, 0}}, compute: []float64{ms}, serial: true, threads: 1, blocked: 0.5},
		}
		m.handing = handover{taking: 12 * ms, take: ms / 2, send: ms / 10}
		m.plant.gap = m.handing.taking
		if tt.waiting > 0 {
			m.Capacity.Cores = Cores{All: 2, Others: 1.9, Waiting: tt.waiting, Known: true}
		}
		m.apply(&m.plant, &m.now, likely)
		m.rate = 1e9 / m.plant.flow().step
		if p, _ := m.Predict(knob.Setting{Name: numWorkers, Value: "0"}); Gain(p.Prediction).Lo < tt.least || Gain(p.Prediction).Lo > tt.most {
			t.Errorf("waits for a core %v: %.2f of the rate at the least, want %v to %v", tt.waiting, Gain(p.Prediction).Lo, tt.least, tt.most)
		}
	}
}

// TestHeld: where a worker computes, its process gives away a ready batch only slowly. A longer queue then gains
// nothing, and the waits for ready batches tell it.
func TestHeld(t *testing.T) {
	const ms = 1e6
	var load []demand
	for i := range 16 {
		load = append(load, demand{core: 1.3 * ms})
		if i >= 12 {
			load[i].core = 49 * ms
		}
	}
	gain := func(held float64) float64 {
		p := plant{workers: 1, prefetch: 2, inOrder: true, inTurns: true, persistent: true, serial: true, cores: 2, load: load, compute: []float64{13 * ms}, held: held}
		short := p.flow().step
		p.prefetch = 16
		return short / p.flow().step
	}
	if none, held := gain(0), gain(32*ms); none < 1.3 || held > 1.1 {
		t.Errorf("a longer queue makes it %.2f times as fast, and %.2f times where batches are held up", none, held)
	}
	var spans []trace.Span
	var steps []trace.Step
	for b := range int32(40) { // every second batch is taken while the worker is at the next
		at, took, next := int64(b)*100*ms, int64(ms), int64(80*ms)
		if b%2 == 1 {
			took, next = 31*ms, 45*ms
		}
		spans = append(spans, trace.Span{Kind: trace.KindFetch, Track: trace.TrackWorker0, Batch: b, Start: at, End: at + 40*ms},
			trace.Span{Kind: trace.KindFetch, Track: trace.TrackWorker0, Batch: b + 1, Start: at + next, End: at + 95*ms},
			trace.Span{Kind: trace.KindNext, Track: trace.TrackStep, Step: b + 7, Batch: -1, Start: at + 50*ms, End: at + 50*ms + took})
		steps = append(steps, trace.Step{Index: b + 7, Batch: b})
	}
	if got := heldOf(spans, steps); math.Abs(got-30*ms) > ms {
		t.Errorf("held up for %.1f ms, want 30", got/ms)
	}
}

// TestStartUps: how long workers take to start is told by their own spans, and by those of an epoch together.
func TestStartUps(t *testing.T) {
	at := func(worker int, from, to int64) trace.Span {
		return trace.Span{Start: from * 1e6, End: to * 1e6, Track: trace.Worker(worker), Kind: trace.KindStart}
	}
	for name, c := range map[string]struct {
		spans []trace.Span
		start float64
		begin float64
	}{
		"none":                {},
		"one worker":          {[]trace.Span{at(0, 0, 1000), at(0, 1000, 1004)}, 1000e6, 1004e6},
		"three, two epochs":   {[]trace.Span{at(0, 0, 100), at(0, 100, 130), at(1, 10, 110), at(1, 110, 130), at(2, 20, 120), at(2, 120, 130), at(0, 500, 600), at(0, 600, 610)}, 100e6, 120e6},
		"many short, forking": {[]trace.Span{at(0, 0, 5), at(0, 5, 90), at(1, 30, 35), at(1, 35, 90), at(2, 60, 65), at(2, 65, 90)}, 5e6, 90e6},
	} {
		var l Loading
		if l.starts(c.spans); l.Start != c.start || l.Begin != c.begin {
			t.Errorf("%s: %g and %g ms, want %g and %g", name, l.Start/1e6, l.Begin/1e6, c.start/1e6, c.begin/1e6)
		}
	}
}

// TestLonger: workers that sleep as they start do so beside each other; those that compute may take turns.
func TestLonger(t *testing.T) {
	const ms = 1e6
	for _, tt := range []struct {
		starts, each         float64
		a, b                 int
		worst, likely, least float64
	}{
		{520 * ms, 500 * ms, 2, 4, 2, 560. / 520, 560. / 520}, // 20 ms apart
		{560 * ms, 500 * ms, 4, 2, 520. / 560, 520. / 560, 0.5},
		{100 * ms, 50 * ms, 2, 4, 2, 2, 2}, // one after the other
		{500 * ms, 500 * ms, 1, 2, 2, 516. / 500, 516. / 500},
		{0, 0, 2, 6, 3, 3, 3},
	} {
		s := beginning{starts: tt.starts, each: tt.each, core: 1}
		for sign, want := range map[int]float64{-1: tt.worst, 0: tt.likely, 1: tt.least} {
			if got := s.longer(tt.a, tt.b, luck{sign, everything}); math.Abs(got-want) > 0.001 {
				t.Errorf("%+v: %v with luck %d, want %v", tt, got, sign, want)
			}
		}
	}
}

// TestChance: how many epochs begin in a test is chance, the more so the fewer there are.
func TestChance(t *testing.T) {
	p := plant{workers: 2, epoch: 100, start: 100e6}
	for _, tt := range []struct {
		name       string
		persistent bool
		step, want float64
	}{
		{"an epoch a second, a tenth of it starts", false, 10e6, 0.1 * math.Sqrt(0.1)},
		{"an epoch is longer than a test", false, 200e6, 0.005},
		{"workers are kept", true, 10e6, 0},
	} {
		p.persistent = tt.persistent
		if fewer, more := p.chance(tt.step); math.Abs(fewer-tt.want) > 0.1*tt.want || math.Abs(more+tt.want) > 0.1*tt.want {
			t.Errorf("%s: %.4f and %.4f, want about %.4f", tt.name, fewer, more, tt.want)
		}
	}
}

// TestAllowed: where our group uses all its part of the cores, more workers gain no more than the part grows.
func TestAllowed(t *testing.T) {
	const ms = 1e6
	for _, tt := range []struct {
		name                  string
		ours, waiting, rivals float64
		workers               string
		least, most           float64 // of the gain, as ratios
	}{
		{"two threads' worth is used", 0.9, 0.43, 0, "2", 1, 1.13},
		{"the part has room", 0.4, 0.43, 0, "2", 1.5, 2},
		{"neighbours in our group", 0.9, 0.43, 1.1, "2", 1.5, 2},
	} {
		cores := Cores{All: 2, Ours: tt.ours, Others: 1.1, Waiting: tt.waiting, Known: true, Shared: host.BySession, Rivals: tt.rivals}
		m := &Model{
			scale: 1, fitted: 1, now: settings{workers: 1, batch: 8, inOrder: true}, portion: cores.Portion(),
			loading: Work{Core: 40 * ms, Waiting: 30 * ms, Blocked: 80 * ms}, Capacity: Capacity{Cores: cores},
			plant: plant{load: []demand{{40 * ms, 80 * ms}}, compute: []float64{10 * ms}, serial: true, threads: 1, blocked: 0.9, cores: cores.Portion()},
		}
		m.apply(&m.plant, &m.now, likely)
		m.base = m.plant.flow()
		m.rate = 1e9 * 8 / m.base.step
		p, ok := m.Predict(knob.Setting{Name: numWorkers, Value: tt.workers})
		if g := Gain(p.Prediction); !ok || g.Value < tt.least || g.Value > tt.most {
			t.Errorf("%s: %s", tt.name, Words(p.Prediction))
		}
	}
}
