package predict

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/attribution/attributiontest"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// snapshot is the session of a run on a virtual clock.
func snapshot(r attributiontest.Run) *trace.Snapshot {
	s := r.Snapshot(func(spans []trace.Span, steps []trace.Step, end int64) []trace.Step {
		return attribution.Attribute(spans, steps, 0, end).Steps
	})
	if s.Meta.Samples = 0; r.Epoch > 0 {
		s.Meta.Samples = int64(32 * r.Epoch)
	}
	s.Meta.Specs = []knob.Spec{{Name: numWorkers, Max: trace.MaxWorkers}, {Name: pinMemory, NoEffect: "there is no link"}}
	return s
}

// rate is what a run reached, in samples/s.
func rate(s *trace.Snapshot) float64 {
	return attribution.Breakdown{Totals: s.Tally(0).Steady}.SamplesPerSecond()
}

func fit(t *testing.T, s *trace.Snapshot) *Model {
	t.Helper()
	m, ok := Fit(s, s.Tally(0), attribution.Segments(s))
	if !ok {
		t.Fatal("no model")
	}
	return m
}

// TestAgainstOtherRuns compares predictions with runs of the predicted setting. Another simulation
// makes these runs: that of package attributiontest.
func TestAgainstOtherRuns(t *testing.T) {
	workers := func(n int) func(*attributiontest.Run) { return func(r *attributiontest.Run) { r.Workers = n } }
	for _, tt := range []struct {
		name         string
		is           func(*attributiontest.Run)
		named, value string
		other        func(*attributiontest.Run)
	}{
		{"slow reads, more workers", func(r *attributiontest.Run) { r.Read = 40 * attributiontest.Msec }, numWorkers, "4", workers(4)},
		{"slow reads, enough workers", func(r *attributiontest.Run) { r.Read = 40 * attributiontest.Msec }, numWorkers, "8", workers(8)},
		{"slow reads, fewer workers", func(r *attributiontest.Run) { r.Read, r.Workers = 40*attributiontest.Msec, 4 }, numWorkers, "2", workers(2)},
		{"healthy, more workers", func(*attributiontest.Run) {}, numWorkers, "4", workers(4)},
		{"healthy, fewer workers", func(r *attributiontest.Run) { r.Transform = 12 * attributiontest.Msec }, numWorkers, "1", workers(1)},
		{"one worker, a longer queue", func(r *attributiontest.Run) { r.Workers, r.Prefetch, r.Transform = 1, 1, 22*attributiontest.Msec }, prefetchFactor, "4", func(r *attributiontest.Run) { r.Prefetch = 4 }},
		{"slow copies", func(r *attributiontest.Run) { r.Copy = 15 * attributiontest.Msec }, numWorkers, "4", workers(4)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := attributiontest.Healthy()
			tt.is(&r)
			s := snapshot(r)
			m := fit(t, s)
			p, ok := m.Predict(knob.Setting{Name: tt.named, Value: tt.value})
			if !ok {
				t.Fatal("no prediction")
			}
			tt.other(&r)
			want := rate(snapshot(r))
			if math.Abs(p.Rate/want-1) > 0.06 || want < p.Lo || want > p.Hi {
				t.Errorf("%.0f samples/s, %.0f to %.0f, from %.0f; the other run has %.0f", p.Rate, p.Lo, p.Hi, p.Base, want)
			}
			if again, _ := fit(t, s).Predict(knob.Setting{Name: tt.named, Value: tt.value}); !reflect.DeepEqual(again, p) {
				t.Errorf("the same session, another prediction: %+v, %+v", p, again)
			}
		})
	}
}

// TestFirstStep: neither a rate nor a prediction counts the extra time of the run's first step.
func TestFirstStep(t *testing.T) {
	r := attributiontest.Healthy()
	r.Read = 40 * attributiontest.Msec
	s := snapshot(r)
	to := knob.Setting{Name: numWorkers, Value: "4"}
	want, _ := fit(t, s).Predict(to)
	if s.Recent[0].Flags&trace.FlagFirstOfEpoch == 0 {
		t.Fatal("no first step")
	}
	s.Recent[0].Busy += 60_000 * attributiontest.Msec
	if got, _ := fit(t, s).Predict(to); got.Prediction != want.Prediction || got.Rate < 1.5*got.Base {
		t.Errorf("%+v, want %+v", got.Prediction, want.Prediction)
	}
}

// TestStragglerIsAWorker: turning in_order off lets the other workers go on. That would not be so
// if the batch were late by itself.
func TestStragglerIsAWorker(t *testing.T) {
	r := attributiontest.Healthy()
	r.Workers, r.Straggler, r.Delay = 4, 3, 150*attributiontest.Msec
	m := fit(t, snapshot(r))
	if len(m.plant.late) != 4 || m.plant.late[2] < 100e6 || m.plant.late[0] > 0 {
		t.Errorf("late by %v", m.plant.late)
	}
	p, ok := m.Predict(knob.Setting{Name: inOrder, Value: "off"})
	if want := 32 / 0.010; !ok || math.Abs(p.Rate/want-1) > 0.1 { // the device's rate
		t.Errorf("%.0f samples/s, want about %.0f", p.Rate, want)
	}
}

// TestNeverAboveTheDevice: a prediction for the loader never exceeds the device's rate.
func TestNeverAboveTheDevice(t *testing.T) {
	r := attributiontest.Healthy()
	r.Read = 40 * attributiontest.Msec
	m := fit(t, snapshot(r))
	for n := 1; n <= 64; n *= 2 {
		p, _ := m.Predict(knob.Setting{Name: numWorkers, Value: strconv.Itoa(n)})
		if p.Rate > 1.02*32/0.010 || p.Hi > 1.02*32/0.010 {
			t.Errorf("%d workers: %.0f samples/s, up to %.0f", n, p.Rate, p.Hi)
		}
	}
}

// TestBlockedStep: the step loop's own split tells how much of a step is blocked, and how many threads
// compute in the rest. Other core time of this process is not the step's.
func TestBlockedStep(t *testing.T) {
	for _, tt := range []struct {
		core, waiting    float64 // ns of a step's 10 ms; 0 where they are not measured
		ours             float64 // percent of 8 cores
		blocked, threads float64
	}{
		{0.7e6, 0, 20, 0.93, 2}, // 20 % are 1.6 cores
		{0.7e6, 3e6, 5, 0.9, 1},
		{10e6, 0, 20, 0, 1.2}, // less the 0.4 cores of the workers
		{0, 0, 8, 0.76, 1},
	} {
		r := attributiontest.Healthy()
		r.Transform = 0
		s := snapshot(r)
		s.Meta.DeviceKind = "cpu"
		s.Meta.Host = append(s.Meta.Host, knob.Setting{Name: trace.TorchThreads, Value: "2"}, knob.Setting{Name: "torch", Value: "2.9"})
		s.Gauges = map[string][]trace.Point{}
		for name, v := range map[string]float64{trace.GaugeCPUOurs: tt.ours, trace.GaugeCPUOthers: 0, trace.GaugeRunQueue: 0} {
			s.Gauges[name] = []trace.Point{{T: s.Now / 2, V: v}, {T: s.Now * 3 / 4, V: v}}
		}
		for name, v := range map[string]float64{"steps": 1, "body_ns": 10e6, "core_ns": tt.core, "waiting_ns": tt.waiting} {
			s.Gauges["rank_0_"+name] = []trace.Point{{T: s.Now, V: v * float64(s.Total.Steps)}}
		}
		if p := fit(t, s).plant; math.Abs(p.blocked-tt.blocked) > 0.02 || math.Abs(p.threads-tt.threads) > 0.1 {
			t.Errorf("%+v: %.2f of a step is blocked, %.2f threads compute in the rest", tt, p.blocked, p.threads)
		}
	}
}

func TestNoPrediction(t *testing.T) {
	s := snapshot(attributiontest.Healthy())
	m := fit(t, s)
	for _, k := range []knob.Setting{{Name: "precision", Value: "bf16"}, {Name: numWorkers, Value: "many"}, {Name: pinMemory, Value: "on"}} {
		if p, ok := m.Predict(k); ok {
			t.Errorf("%v: %+v", k, p)
		}
	}
	few := trace.Count(s.Recent[:5])
	if _, ok := Fit(s, few, nil); ok {
		t.Error("a model of 4 steps")
	}
	for i := range s.Recent {
		s.Recent[i].Flags |= trace.FlagCeiling
	}
	if _, ok := Fit(s, trace.Count(s.Recent), nil); ok {
		t.Error("a model of cached batches")
	}
}

// TestFeed says which resource is short.
func TestFeed(t *testing.T) {
	for _, tt := range []struct {
		name string
		is   func(*attributiontest.Run)
		ours float64 // percent of 8 cores
		want string
	}{
		{"enough", func(*attributiontest.Run) {}, 10, "yes: this host can feed at most ~32,000 samples/s with its 8 cores; the device takes 3,200 samples/s"},
		{"workers", func(r *attributiontest.Run) { r.Read = 40 * attributiontest.Msec }, 3, "yes, with about 4 workers more: this host "},
		{"more workers than can be", func(r *attributiontest.Run) { r.Read = 4000 * attributiontest.Msec }, 0.02, "it has the cores for it, but with more workers and a longer queue the device would still wait: this host "},
		{"cores", func(r *attributiontest.Run) { r.Workers, r.Decode = 8, 200*attributiontest.Msec }, 100, "no: … samples/s: ~20 cores needed, host has 8"},
		{"far more cores", func(r *attributiontest.Run) { r.Workers, r.Decode = 8, 900*attributiontest.Msec }, 100, "no: … samples/s: ~90 cores needed, host has 8"},
		{"bursts", func(r *attributiontest.Run) {
			r.Workers, r.Prefetch, r.Steps, r.Read, r.Decode = 1, 1, 240, 0, attributiontest.Msec
			r.Jitter = func(batch int) int64 { return int64(max(0, batch%12-10)) * 45 * attributiontest.Msec }
		}, 3, "yes, with a longer queue (prefetch_factor): this host "},
		{"stragglers", func(r *attributiontest.Run) {
			r.Workers, r.Steps = 2, 240
			r.Jitter = func(batch int) int64 { return int64(max(0, batch%40-38)) * 3000 * attributiontest.Msec }
		}, 3, "it has the cores for it, but with more workers and a longer queue the device would still wait: this host "},
		{"link", func(r *attributiontest.Run) { r.Copy = 25 * attributiontest.Msec }, 10, "no: … samples/s: the link is short, a copy takes x2.50 as long as computing"},
	} {
		r := attributiontest.Healthy()
		tt.is(&r)
		s := snapshot(r)
		s.Gauges = map[string][]trace.Point{}
		for _, g := range []struct {
			name string
			v    float64
		}{{trace.GaugeCPUOurs, tt.ours}, {trace.GaugeCPUOthers, 0}, {trace.GaugeRunQueue, 0}} {
			s.Gauges[g.name] = []trace.Point{{T: s.Now / 2, V: g.v}, {T: s.Now * 3 / 4, V: g.v}}
		}
		start, end, _ := strings.Cut(tt.want, "…")
		if got := fit(t, s).Feed(); !strings.HasPrefix(got, start) || !strings.HasSuffix(got, end) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestFeedOfSpinningThreads: core time tells what the host can feed if there is one thread, if
// threads sleep, or if all of them have their cores. It does not if threads spin while one has no
// core, or all lack one most of the time.
func TestFeedOfSpinningThreads(t *testing.T) {
	for _, tt := range []struct {
		threads, policy string
		starved         float64 // percent
		known           bool
	}{
		{"2", "", 50, false}, {"2", "ACTIVE", 50, false}, {"2", "", 2, true}, {"2", "PASSIVE", 50, true}, {"2", "PASSIVE", 60, false}, {"1", "", 50, true}, {"", "", 50, true},
	} {
		s := snapshot(attributiontest.Healthy())
		s.Meta.DeviceKind = "cpu"
		s.Meta.Host = append(s.Meta.Host, knob.Setting{Name: trace.TorchThreads, Value: tt.threads}, knob.Setting{Name: trace.TorchWaitPolicy, Value: tt.policy})
		s.Gauges = map[string][]trace.Point{}
		for name, v := range map[string]float64{trace.GaugeCPUOurs: 50, trace.GaugeCPUOthers: 40, trace.GaugeRunQueue: 50, trace.GaugeStarved: tt.starved} {
			s.Gauges[name] = []trace.Point{{T: s.Now / 2, V: v}, {T: s.Now * 3 / 4, V: v}}
		}
		got := fit(t, s).Feed()
		if known := strings.Contains(got, "the device "); known != tt.known || strings.HasPrefix(got, "not known: the training's threads") == tt.known {
			t.Errorf("%q threads, %q, %v %% without a core: %q", tt.threads, tt.policy, tt.starved, got)
		}
	}
}

// TestWords: a change that is not expected to gain anything is not worded as a gain.
func TestWords(t *testing.T) {
	for _, tt := range []struct {
		lo, middle, hi float64
		want           string
	}{
		{60, 98, 140, "not predictable now; an A/B test tells"},
		{90, 120, 150, "not predictable now; an A/B test tells"},
		{99, 150, 220, "not predictable now; an A/B test tells"},
		{180, 300, 400, "at least +80 %; an A/B test tells how much"},
		{327, 380, 440, "at least +225 %; an A/B test tells how much"},
		{330, 380, 425, "+230 to +330 % predicted"},
		{80, 95, 104, "may help or harm: -20 to +4 % predicted"},
		{96, 120, 150, "-4 to +50 % predicted"},
		{70, 80, 90, "-30 to -10 % predicted"},
		{122, 126, 131, "+22 to +31 % predicted"},
	} {
		if got := Words(trace.Prediction{Base: 100, Lo: tt.lo, Rate: tt.middle, Hi: tt.hi}); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.middle, got, tt.want)
		}
	}
}

// TestFeedNamesItsSteps: other processes run in one segment and not in the next. Each
// segment has its own answer, which names the segment.
func TestFeedNamesItsSteps(t *testing.T) {
	r := attributiontest.Healthy()
	r.Steps, r.ChangeAt, r.ChangeTo, r.Rebuild = 160, 80, r.Workers, 25*attributiontest.Msec
	s := snapshot(r)
	s.Gauges = map[string][]trace.Point{}
	for i := range int64(40) {
		at := trace.Point{T: s.Now * i / 40}
		for name, v := range map[string][2]float64{trace.GaugeCPUOurs: {10, 10}, trace.GaugeCPUOthers: {50, 0}} {
			at.V = v[i/20]
			s.Gauges[name] = append(s.Gauges[name], at)
		}
	}
	rows := attribution.Segments(s)
	for i, want := range []string{
		"yes: in segment A the device takes 3,200 samples/s; at that rate loading would take ~0.8 of the 8 cores; other processes use ~4.0 of the 8 cores…",
		"yes: in segment #1 this host can feed at most ~… with its 8 cores; the device takes 3,200 samples/s",
	} {
		m, ok := Fit(s, s.Tally(int32(i)), rows)
		if !ok {
			t.Fatal("no model")
		}
		start, end, _ := strings.Cut(want, "…")
		if got := m.Feed(); !strings.HasPrefix(got, start) || !strings.HasSuffix(got, end) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFeedBesideOthers: an answer that depends on the small use of the cores by others says so. No
// sentence can be read as the opposite answer.
func TestFeedBesideOthers(t *testing.T) {
	for _, tt := range []struct {
		feeds, others float64 // samples/s with 2 cores, and the cores of these that others use
		want          string
	}{
		{4562, 0, "yes: this host can feed at most ~4,562 samples/s with its 2 cores; the device takes 4,366 samples/s"},
		{4562, 0.05, "yes: this host can feed at most ~4,562 samples/s with its 2 cores; the device takes 4,366 samples/s"},
		{4562, 0.1, "nearly: this host can feed at most ~4,562 samples/s with its 2 cores, and other processes left it cores for ~4,334 samples/s; the device takes 4,366 samples/s"},
		{4562, 0.3, "no: this host can feed at most ~4,562 samples/s with its 2 cores, and other processes left it cores for ~3,878 samples/s; the device takes 4,366 samples/s: ~1.9 cores needed, other processes leave ~1.7"},
		{4000, 0.3, "no: this host can feed at most ~4,000 samples/s with its 2 cores; the device takes 4,366 samples/s: ~2.2 cores needed, host has 2"},
		{8000, 0.6, "yes: the device takes 4,366 samples/s; at that rate loading would take ~1.1 of the 2 cores; other processes use ~0.6 of the 2 cores"},
	} {
		m := Model{known: true, rate: 1e12, scale: 1, fitted: 1, base: flow{data: 0.3}, now: settings{workers: 1, batch: 1}, plant: plant{load: []demand{{1, 0}}, compute: []float64{1}},
			Capacity: Capacity{CPU: 2e9 / tt.feeds, Device: 1e9 / 4366., Batch: 1, Cores: Cores{All: 2, Others: tt.others, Known: true}}}
		if got := m.Feed(); got != tt.want {
			t.Errorf("%v, others %v:\n%q, want\n%q", tt.feeds, tt.others, got, tt.want)
		}
		m.base.data = 0.01 // it is fed all the same
		if got := m.Feed(); strings.HasPrefix(got, "yes: ") != (tt.feeds > 4366) {
			t.Errorf("%v, others %v, and no wait for data: %q", tt.feeds, tt.others, got)
		}
	}
}

// TestFeedOfAShare: a training that sleeps uses 0.1 cores beside others. At the device's rate it needs more than
// that, and is short of cores only where that is more than what a thread of it gets.
func TestFeedOfAShare(t *testing.T) {
	for _, tt := range []struct {
		needed float64
		beside bool // the device mostly waits for workers to start
		want   string
	}{{0.14, false, "yes: "}, {0.4, false, "no: "}, {0.4, true, "yes, if others left it the cores: "}, {2.4, true, "no: "}} {
		m := Model{known: true, rate: 1e12, scale: 1, fitted: 1, base: flow{data: 0.3}, now: settings{workers: 1, batch: 1}, plant: plant{load: []demand{{1, 0}}, compute: []float64{1}},
			Capacity: Capacity{CPU: 1e6 * tt.needed, Device: 1e6, Batch: 1, Beside: tt.beside, Cores: Cores{All: 2, Ours: 0.1, Others: 1.9, Waiting: 0.78, Known: true}}}
		if got := m.Feed(); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%+v: %q", tt, got)
		}
	}
	for cause, want := range map[trace.Cause]bool{trace.CauseFetch: false, trace.CauseStartup: true} {
		s := snapshot(attributiontest.Healthy())
		b := attribution.Breakdown{Totals: trace.Count(s.Recent).Steady}
		b.Stall = [trace.NumCauses]int64{}
		b.Stall[cause] = 1e9
		if c, ok := CapacityOf(&b, &Loading{}, Cores{All: 2}, 1, 0, &s.Meta, ""); !ok || c.Beside != want {
			t.Errorf("waits for %s: %+v", cause, c)
		}
	}
}

// TestAvailable: where all cores are in use, we lack what other processes use only if our threads
// waited for a core.
func TestAvailable(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		ours, others, waiting float64
		available             float64
	}{
		{"a script that sleeps beside others", 0.1, 1.8, 0.01, 2},
		{"workers that wait for a core", 0.1, 1.8, 0.6, 0.2},
		{"a core is free", 0.1, 1, 0, 1},
	} {
		c := Capacity{CPU: 1e6, Device: 1e6, Batch: 1, Cores: Cores{All: 2, Ours: tt.ours, Others: tt.others, Waiting: tt.waiting, Known: true}}
		if got := c.available(); math.Abs(got-tt.available) > 1e-9 {
			t.Errorf("%s: %v cores, want %v", tt.name, got, tt.available)
		}
	}
}

// TestMissing: beside a neighbour that takes one of two cores, a little more than one is missing.
func TestMissing(t *testing.T) {
	for cpu, want := range map[float64]int{1: 0, 2.13: 1, 2.4: 2, 3: 2} {
		c := Capacity{CPU: cpu, Device: 1, Cores: Cores{All: 2, Others: 1}}
		if got := c.Missing(); got != want {
			t.Errorf("%v cores' work: %d are missing, want %d", cpu, got, want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	r := attributiontest.Healthy()
	r.Workers, r.Steps, r.Transform = 1, 160, 30*attributiontest.Msec
	r.ChangeAt, r.ChangeTo, r.Rebuild = 80, 4, 25*attributiontest.Msec
	s := snapshot(r)
	base := attribution.Segments(s)[0].SamplesPerSecond
	for _, tt := range []struct {
		p    trace.Prediction
		want Score
	}{
		{trace.Prediction{}, Score{Untold: 1}},
		{trace.Prediction{Base: base, Rate: 3200, Lo: 3000, Hi: 3400}, Score{Inside: 1, Of: 1}},
		{trace.Prediction{Base: base, Rate: 2000, Lo: 1900, Hi: 2100}, Score{Of: 1}},
		{trace.Prediction{Base: base, Rate: 3200, Lo: base / 2, Hi: 9000}, Score{Untold: 1}},
	} {
		s.Segments[1].Predicted = tt.p
		out := Outcomes(s, attribution.Segments(s))
		got := ScoreOf(out)
		if widths := len(got.HalfWidths); got.Inside != tt.want.Inside || got.Of != tt.want.Of || got.Untold != tt.want.Untold || widths != got.Of {
			t.Errorf("%+v: %+v, want %+v; %+v", tt.p, got, tt.want, out)
		}
	}
	rows := attribution.Segments(s)
	// What an experiment changes for a while is nobody's choice.
	s.Experiments = []trace.Experiment{{First: 1, Last: 1}}
	if out := Outcomes(s, attribution.Segments(s)); len(out) != 0 {
		t.Errorf("of an experiment: %+v", out)
	}
	rows[1].Segment.Index = 2 // nor is how it ends
	if out := Outcomes(s, rows); len(out) != 0 {
		t.Errorf("of an experiment's end: %+v", out)
	}
}

// TestCorrectionMayGo: the loads were corrected to make the simulation agree. With another queue the correction may go,
// so the interval includes that; where nothing of the queue changes, it is no wider.
func TestCorrectionMayGo(t *testing.T) {
	r := attributiontest.Healthy()
	r.Read, r.Workers = 80*attributiontest.Msec, 1
	m := fit(t, snapshot(r))
	for _, to := range []knob.Setting{{Name: numWorkers, Value: "2"}, {Name: batchSize, Value: "64"}} {
		m.fitted = 1
		agreed, _ := m.Predict(to)
		m.fitted = 1.5
		p, _ := m.Predict(to)
		wider := p.Hi/p.Lo > 1.1*agreed.Hi/agreed.Lo
		if holds := p.Lo < p.Rate/1.5 && p.Hi > 1.5*p.Rate; wider != (to.Name == numWorkers) || wider != holds {
			t.Errorf("%s: %.0f, %.0f to %.0f; without a correction %.0f to %.0f", to.Name, p.Rate, p.Lo, p.Hi, agreed.Lo, agreed.Hi)
		}
	}
}

// TestProcesses: a change of PyTorch's worker processes is predicted less exactly than one of the engine's workers, and no change
// is as exact. Processes that compute and are more than the cores also crowd each other.
func TestProcesses(t *testing.T) {
	r := attributiontest.Healthy()
	r.Workers, r.Read, r.Decode = 12, 0, 80*attributiontest.Msec
	s := snapshot(r)
	s.Meta.Host = []knob.Setting{{Name: "threads", Value: "2"}}
	m := fit(t, s)
	m.scale, m.noise = 1, 0
	half, crowd := m.half(1.5), m.crowd(12, 2)-m.crowd(2, 2)
	none := m.half(1)
	m.processes = true
	if h := m.half(1.5); h < 1.5*half || m.half(1) != none {
		t.Errorf("half-widths %.3f and %.3f, of the engine %.3f and %.3f", h, m.half(1), half, none)
	}
	if c := m.crowd(12, 2) - m.crowd(2, 2); crowd != 0 || math.Abs(c-10*m.loading.Core/m.loading.Alone()) > 0.01 || c < 8 {
		t.Errorf("ten processes more crowd like %.1f, workers of the engine like %.1f", c, crowd)
	}
}

// TestGroups: the kernel shares the cores out between groups. Where the others are in another group,
// more workers get no more of the cores. Where the others are in our group, they do, up to what the group gets.
func TestGroups(t *testing.T) {
	r := attributiontest.Healthy()
	r.Workers, r.Decode = 1, 60*attributiontest.Msec
	for _, tt := range []struct {
		how    string
		rivals float64
		most   float64 // of the ratio predicted for 4 workers
		least  float64
	}{{"by cgroup", 0, 1.7, 0.6}, {"by login session (autogroup)", 0, 1.7, 0.6}, {"by cgroup", 90, 5, 1.3}, {"by cgroup", 20, 2.3, 1.15}, {"by thread", 90, 5, 1.3}} {
		s := snapshot(r)
		s.Meta.Host = []knob.Setting{{Name: "threads", Value: "2"}, {Name: trace.CoresShared, Value: tt.how}}
		s.Gauges = map[string][]trace.Point{}
		for name, v := range map[string]float64{trace.GaugeCPUOurs: 26, trace.GaugeCPUOthers: 74, trace.GaugeRunQueue: 50, trace.GaugeCPUGroup: tt.rivals} {
			s.Gauges[name] = []trace.Point{{T: s.Now / 2, V: v}, {T: s.Now * 3 / 4, V: v}}
		}
		for i := range s.Recent {
			w := &s.Recent[i].Work.Batch
			*w = trace.Split{Core: s.Recent[i].Load / 2, Waiting: s.Recent[i].Load / 2}
		}
		p, ok := fit(t, s).Predict(knob.Setting{Name: numWorkers, Value: "4"})
		if g := Gain(p.Prediction); !ok || g.Hi > tt.most || g.Hi < tt.least {
			t.Errorf("%s, rivals %v: %.2f, %.2f to %.2f", tt.how, tt.rivals, g.Value, g.Lo, g.Hi)
		}
	}
}
