package loader

import (
	"math"
	"runtime"
	"testing"
	"time"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// TestSplit: time asleep counts as blocked in every phase. Time spent computing does not, with
// or without a core for it.
func TestSplit(t *testing.T) {
	if m, why := host.NewMeter(); m == nil {
		t.Skip(why.Why)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(host.Processors(2)))
	const (
		samples  = 16
		asleep   = 5 * time.Millisecond // of each, in decode
		computes = time.Millisecond     // likewise, of a core's time in transform
	)
	l := open(t, Options{
		Dataset:   &numbers{samples: 64, onCode: func(int) error { time.Sleep(asleep); return nil }},
		Transform: mix{}, Hold: 2, Recorder: trace.NewRecorder(trace.NewClock(), 0),
		Knobs: Knobs{BatchSize: samples, NumWorkers: 2, PrefetchFactor: 2, InOrder: true, Inject: Inject{CPU: computes}},
	})
	split, blocked := 0, int64(math.MaxInt64) // batches split by phase, and the least that transforms were blocked in one
	for range 4 {
		b, err := l.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		work := b.Work
		b.Release()
		if work.Phases.All().Total() == 0 {
			continue
		}
		split++
		if got, want := work.Batch.Total(), work.Phases.All(); got < want.Total() {
			t.Errorf("the phases of %d ns take %d", got, want.Total())
		}
		decode, transform := *work.Phases.Of(trace.KindDecode), *work.Phases.Of(trace.KindTransform)
		if least := int64(samples * asleep); decode.Blocked < least*9/10 {
			t.Errorf("asleep for %d ns in decode: %+v", least, decode)
		}
		if least := int64(samples * computes); transform.Core < least*9/10 {
			t.Errorf("computing for %d ns in transform: %+v", least, transform)
		}
		blocked = min(blocked, transform.Blocked)
	}
	if split == 0 {
		t.Fatal("no batch was split by phase")
	}
	if blocked > int64(samples*computes)/2 {
		t.Errorf("transforms that only compute are blocked for %d ns of each batch", blocked)
	}
}

// waited tells how long goroutines waited in Go's scheduler, as a test has it.
type waited int64

func (w *waited) Waited() int64 { return int64(*w) }

// TestWaitingForGoIsNotBlocked: if GOMAXPROCS is too low, computing workers wait in Go's
// scheduler, which the kernel sees as sleeping. That time counts as waiting for a core.
func TestWaitingForGoIsNotBlocked(t *testing.T) {
	const asleep = int64(1e9) // of a batch, as the kernel has it
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	var waits waited
	s := &scheduler{clock: trace.NewClock(), waits: &waits}
	s.workers.Store(4)
	batch := func(ofWhichGo int64) trace.Split {
		t.Helper()
		waits += waited(ofWhichGo)
		w := trace.Work{Batch: trace.Split{Blocked: asleep}}
		*w.Phases.Of(trace.KindTransform) = w.Batch
		s.next = 0 // it is time to look
		s.correct(asleep, &w, new(trace.Split))
		if w.Batch.Total() != asleep || *w.Phases.Of(trace.KindTransform) != w.Batch {
			t.Fatalf("%d ns became %+v", asleep, w)
		}
		return w.Batch
	}
	for range 3 {
		if got := batch(asleep); got.Blocked != 0 || got.Bound() != trace.BoundCores {
			t.Errorf("waiting in Go's scheduler: %+v", got)
		}
	}
	var got trace.Split
	for range 10 {
		got = batch(0)
	}
	if got.Waiting > asleep/100 || got.Bound() != trace.BoundIO {
		t.Errorf("nothing waits in Go's scheduler: %+v", got)
	}
	runtime.GOMAXPROCS(host.Processors(4))
	if got := batch(asleep); got.Waiting != 0 {
		t.Errorf("with a processor for each: %+v", got)
	}
}

// TestMeasuringIsCheap: however short the batches are, measuring takes less than 1 % of their
// time, except for the first. All long batches are split by phase.
func TestMeasuringIsCheap(t *testing.T) {
	meter, why := host.NewMeter()
	if meter == nil {
		t.Skip(why.Why)
	}
	for _, took := range []time.Duration{50 * time.Microsecond, 280 * time.Microsecond, 100 * time.Millisecond} {
		clock := trace.NewClock()
		p := newSplitter(meter, clock, &scheduler{clock: clock, waits: new(host.Scheduler)})
		const batches = 3000
		spent := 0.0
		var levels [3]int
		for i := range batches {
			p.begin()
			levels[p.level]++
			for range 48 {
				p.phase(trace.KindDecode, 0)
			}
			var work trace.Work
			p.end(int64(took), &work, new(trace.Split))
			if work.Measured() != (p.level != unsplit) {
				t.Fatalf("level %d, measured %+v", p.level, work)
			}
			if i > 0 && p.level != unsplit {
				spent += p.cost.Of(float64(p.readings))
			}
		}
		t.Logf("%v: %d unsplit, %d by batch, %d by phase, %.2f %%, %.0f ns a reading", took, levels[unsplit], levels[byBatch], levels[byPhase], 100*spent/(batches*float64(took)), p.cost.Of(1))
		if spent > 0.011*batches*float64(took) || levels[byBatch]+levels[byPhase] == 0 {
			t.Errorf("%v: %.2f %% goes to measuring %v", took, 100*spent/(batches*float64(took)), levels)
		}
		if took == 100*time.Millisecond && levels[byPhase] != batches {
			t.Errorf("%v: %d of %d batches are split by phase", took, levels[byPhase], batches)
		}
	}
}
