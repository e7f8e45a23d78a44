package loader

import (
	"context"
	"runtime"
	"testing"
	"time"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// measured loads batches with workers that do what the hooks say, and adds up what was
// measured. It skips the test where the machine does not count what threads wait for.
func measured(t *testing.T, processors, workers, batches int, d *numbers, inject Inject) (work trace.Work) {
	t.Helper()
	if m, why := host.NewMeter(); m == nil {
		t.Skip(why.Why)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	l := open(t, Options{
		Dataset: d, Transform: mix{}, Hold: 2, Recorder: trace.NewRecorder(trace.NewClock(), 0),
		Knobs: Knobs{BatchSize: 16, NumWorkers: workers, PrefetchFactor: 2, InOrder: true, Inject: inject},
	})
	for range batches {
		b, err := l.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		work.Add(&b.Work)
		b.Release()
	}
	if got, want := work.Batch.Total(), work.Phases.All(); got < want.Total() || want.Total() == 0 {
		t.Errorf("the phases of %d ns take %d", got, want.Total())
	}
	return work
}

// Time asleep is blocked, whatever the phase is called; time spent computing is not,
// whether or not there is a core for it.
func TestSplit(t *testing.T) {
	d := &numbers{samples: 64, onCode: func(int) error { time.Sleep(5 * time.Millisecond); return nil }}
	work := measured(t, host.Processors(2), 2, 4, d, Inject{CPU: time.Millisecond})
	decode, transform := *work.Phases.Of(trace.KindDecode), *work.Phases.Of(trace.KindTransform)
	if 10*decode.Blocked < 7*decode.Total() || decode.Bound() != trace.BoundIO {
		t.Errorf("asleep in decode: %+v", decode)
	}
	if 10*transform.Blocked > 3*transform.Total() || transform.Bound() == trace.BoundIO {
		t.Errorf("computing in transform: %+v", transform)
	}
}

// Four workers that compute on two of Go's processors wait for these in Go's scheduler,
// which to the kernel is sleeping: it counts as waiting for a core.
func TestWaitingForGoIsNotBlocked(t *testing.T) {
	work := measured(t, 2, 4, 16, &numbers{samples: 64}, Inject{CPU: 5 * time.Millisecond})
	transform := *work.Phases.Of(trace.KindTransform)
	t.Logf("%+v", transform)
	if 4*transform.Blocked > transform.Total() || transform.Bound() != trace.BoundCores {
		t.Errorf("%+v is %s", transform, transform.Bound().Info().Name)
	}
}

// However short the batches are, measuring takes less than 1 % of them, once the first
// is forgotten; long ones are all split by phase.
func TestMeasuringIsCheap(t *testing.T) {
	meter, why := host.NewMeter()
	if meter == nil {
		t.Skip(why.Why)
	}
	for _, took := range []time.Duration{50 * time.Microsecond, 280 * time.Microsecond, 100 * time.Millisecond} {
		clock := trace.NewClock()
		p := newSplitter(meter, clock, &scheduler{clock: clock})
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
