package train_test

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/device/emu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
	"dev.gpustall/loader/format/records"
	"dev.gpustall/loader/transform"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stripes is a data set in memory whose classes a network can tell apart. The label is
// the direction and period of the stripes. The phase and the noise are random.
type stripes struct{ n int }

func (d stripes) Info() loader.Info {
	return loader.Info{Name: "stripes", Format: "cifar10-memory", Samples: d.n, H: 32, W: 32, C: 3,
		Classes: []string{"a", "b", "c", "d"}, Synthetic: true}
}

func (d stripes) Read(_ context.Context, s *loader.Sample) error {
	s.Label = int32(s.Index % 4)
	s.Raw = append(s.Raw[:0], byte(s.Label))
	return nil
}

func (d stripes) Decode(s *loader.Sample) error {
	rng := loader.NewRNG(9, 0, s.Index)
	s.H, s.W, s.C = 32, 32, 3
	s.Pixels = s.Pixels[:0]
	period, phase := 2+2*(int(s.Label)/2), rng.IntN(8)
	for y := range 32 {
		for x := range 32 {
			at := x
			if s.Label%2 == 1 {
				at = y
			}
			v := 60 + 100*((at+phase)/period%2) + rng.IntN(60)
			s.Pixels = append(s.Pixels, byte(v), byte(v), byte(v))
		}
	}
	return nil
}

func (stripes) Close() error { return nil }

// first is a data set that calls read before it reads its first sample.
type first struct {
	stripes
	read func()
}

func (d *first) Read(ctx context.Context, s *loader.Sample) error {
	if s.Index == 0 {
		d.read()
	}
	return d.stripes.Read(ctx, s)
}

// rig is a run in a test.
type rig struct {
	engine    *train.Engine
	session   *trace.Session
	collector *trace.Collector
	dev       device.Device
}

func newRig(t testing.TB, dev device.Device, cfg train.Config) *rig {
	t.Helper()
	clock := trace.NewClock()
	rec := trace.NewRecorder(clock, 1<<14)
	cfg.Device, cfg.Recorder = dev, rec
	e, err := train.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{engine: e, dev: dev, session: trace.NewSession(trace.Meta{Samples: int64(cfg.Dataset.Info().Samples)})}
	r.collector = trace.NewCollector(rec, r.session, attribution.NewAnalyzer(rec.Now()), nil)
	r.collector.Start()
	return r
}

// run trains to the end and returns all that was recorded.
func (r *rig) run(t testing.TB, ctx context.Context) *trace.Snapshot {
	t.Helper()
	err := r.engine.Run(ctx)
	if err != nil {
		t.Error(err)
	}
	if err := r.engine.Close(); err != nil {
		t.Error(err)
	}
	if err := r.collector.Stop(trace.Outcome{Status: "finished"}); err != nil {
		t.Error(err)
	}
	if err := r.dev.Close(); err != nil {
		t.Error(err)
	}
	return r.session.Snapshot(0, math.MaxInt64)
}

// until waits for the session to show something, for at most ten seconds.
func (r *rig) until(ok func(*trace.Snapshot) bool) {
	for range 10_000 {
		if ok(r.session.Snapshot(0, 0)) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// change asks for settings one after the other. It asks for each when the one before is
// in force and some steps were made with it.
func (r *rig) change(t testing.TB, changes ...[]knob.Setting) {
	for i, c := range changes {
		if err := r.engine.Set(c); err != nil {
			t.Error(err)
		}
		before := r.session.Snapshot(0, 0).Total.Steps
		r.until(func(s *trace.Snapshot) bool { return len(s.Segments) >= i+2 && s.Total.Steps > before+8 })
	}
}

func cnn(t testing.TB, d loader.Dataset) *nn.Model {
	m, err := nn.New("cnn", nn.Shape{H: 32, W: 32, C: 3}, len(d.Info().Classes))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func onCPU(t testing.TB, d loader.Dataset, k train.Knobs, epochs int) *rig {
	dev, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	m := cnn(t, d)
	return newRig(t, dev, train.Config{
		Task: prepared.Task{Model: m, Seed: 1}, Dataset: d, Transform: transform.CIFARTrain(), Epochs: epochs,
		Recipe: m.Recipe(k.Loader.BatchSize), Knobs: k,
	})
}

func checkSteps(t *testing.T, s *trace.Snapshot) {
	t.Helper()
	for i, st := range s.Recent {
		if int(st.Index) != i {
			t.Fatalf("step %d stands at %d", st.Index, i)
		}
		if i > 0 && st.Start != s.Recent[i-1].End {
			t.Errorf("step %d starts at %d, the previous one ended at %d", i, st.Start, s.Recent[i-1].End)
		}
		sum := st.Busy
		for _, v := range st.Stall {
			sum += v
		}
		if sum != st.End-st.Start {
			t.Errorf("step %d: busy and stalls are %d of %d ns", i, sum, st.End-st.Start)
		}
	}
}

func TestTrains(t *testing.T) {
	d := stripes{n: 1000}
	k := train.DefaultKnobs()
	k.Loader.BatchSize, k.Loader.NumWorkers = 64, 2
	s := onCPU(t, d, k, 3).run(t, context.Background())
	checkSteps(t, s)
	if want := 3 * 16; len(s.Recent) != want { // the last batch of an epoch has 40
		t.Fatalf("%d steps, want %d", len(s.Recent), want)
	}
	e := attribution.Epochs(s)
	if len(e) != 3 || e[0].Samples != 1000 || !e[0].Complete {
		t.Fatalf("epochs %+v", e)
	}
	if !(e[2].Loss < e[0].Loss) || e[2].Top1 < 0.5 {
		t.Errorf("loss %v -> %v, top-1 %v: four classes, chance is 0.25", e[0].Loss, e[2].Loss, e[2].Top1)
	}
}

func TestDeviceTransformsAgree(t *testing.T) {
	var loss [2]float32
	for i, on := range []bool{false, true} {
		k := train.DefaultKnobs()
		k.Loader.BatchSize, k.Loader.DeviceTransforms = 32, on
		s := onCPU(t, stripes{n: 128}, k, 1).run(t, context.Background())
		loss[i] = s.Recent[len(s.Recent)-1].Loss
	}
	if d := math.Abs(float64(loss[0] - loss[1])); !(d < 1e-4) {
		t.Errorf("last loss %v with transforms on the host, %v on the device", loss[0], loss[1])
	}
}

// checkSegments compares what the segments say of their steps with the steps.
func checkSegments(t *testing.T, s *trace.Snapshot) {
	t.Helper()
	next := int32(0)
	for i, seg := range s.Segments {
		first, transition := int32(-1), int32(0)
		for _, st := range s.Recent {
			if st.Segment != int32(i) {
				continue
			}
			if first < 0 {
				first = st.Index
			}
			if st.Flags&trace.FlagTransition != 0 {
				transition++
			}
			next = st.Index + 1
		}
		if seg.Index != int32(i) || first >= 0 && first != seg.FirstStep || seg.FirstStep > next {
			t.Errorf("segment %d starts at step %d, its steps at %d", seg.Index, seg.FirstStep, first)
		}
		if transition != seg.TransitionSteps {
			t.Errorf("segment %d counts %d steps of transition, %d are marked", i, seg.TransitionSteps, transition)
		}
		if seg.End < seg.Start {
			t.Errorf("segment %d never ended", i)
		}
	}
}

// TestSuspend: the time that the process slept through is charged to the pause.
func TestSuspend(t *testing.T) {
	const asleep = 40 * time.Millisecond
	d := &first{stripes: stripes{n: 64}}
	r := onCPU(t, d, train.DefaultKnobs(), 1)
	d.read = func() { // while the first step waits for its batch
		r.engine.Suspend(true)
		time.Sleep(asleep)
		r.engine.Suspend(false)
	}
	s := r.run(t, context.Background())
	checkSteps(t, s)
	if b := attribution.Sum(s.Recent); b.Paused < int64(asleep)/2 {
		t.Errorf("paused %v, the process was away for %v of the first batch's time", time.Duration(b.Paused), asleep)
	}
}

func TestPauseAndCancel(t *testing.T) {
	r := onCPU(t, stripes{n: 256}, train.DefaultKnobs(), 0)
	ctx, cancel := context.WithCancel(context.Background())
	notes := func(n int) func(*trace.Snapshot) bool {
		return func(s *trace.Snapshot) bool { return len(s.Notes) >= n }
	}
	go func() {
		defer cancel()
		r.engine.Pause(true)
		r.until(notes(1)) // paused
		time.Sleep(30 * time.Millisecond)
		r.engine.Pause(false)
		r.until(notes(2)) // resumed
		steps := len(r.session.Snapshot(0, 0).Recent)
		r.until(func(s *trace.Snapshot) bool { return len(s.Recent) > steps })
		r.engine.Pause(true)
		r.until(notes(3)) // paused again: cancelled while paused
	}()
	s := r.run(t, ctx)
	checkSteps(t, s)
	if b := attribution.Sum(s.Recent); b.Paused < int64(30*time.Millisecond) {
		t.Errorf("paused %v, slept 30ms", time.Duration(b.Paused))
	}
}

// TestUnet3D checks MLPerf Storage's arithmetic. The loader is slower than the
// accelerator by a known factor, so the accelerator computes for 0.323 s of each 0.646
// s.
func TestUnet3D(t *testing.T) {
	if testing.Short() {
		t.Skip("takes six seconds of real time")
	}
	p, err := emu.Find("unet3d-h100")
	if err != nil {
		t.Fatal(err)
	}
	w := p.Workload
	perBatch := 2 * w.Compute
	run := func() *trace.Snapshot {
		ds, err := records.Generate(records.Options{
			SampleBytes: 1 << 16, Samples: 9 * w.BatchSize, PerSample: perBatch / time.Duration(w.BatchSize),
		})
		if err != nil {
			t.Fatal(err)
		}
		k := train.DefaultKnobs()
		k.Loader.BatchSize, k.Loader.NumWorkers = w.BatchSize, 1
		r := newRig(t, emu.New(p, emu.NewRealClock()), train.Config{
			Task:    prepared.Task{Fixed: func(int) device.Operation { return emu.Fixed{Duration: w.Compute} }},
			Dataset: ds, Transform: records.Transform{}, Epochs: 1, Knobs: k,
		})
		return r.run(t, context.Background())
	}
	want := float64(w.Compute) / float64(perBatch)
	// The test runs in real time, so a machine that takes the processor away for long
	// gets two more tries. Wrong arithmetic stays wrong.
	var s *trace.Snapshot
	var au float64
	for range 3 {
		s = run()
		checkSteps(t, s)
		if au, _ = attribution.AU(s); math.Abs(au-want) <= 0.01*want {
			break
		}
	}
	if !(math.Abs(au-want) <= 0.01*want) {
		t.Errorf("AU %v, arithmetic says %v", au, want)
	}
	if b := attribution.Sum(s.Recent[1:]); b.Share(trace.CauseRead) < 0.45 {
		t.Errorf("read takes %v of the wall; half of it is waiting for storage", b.Share(trace.CauseRead))
	}
	for _, st := range s.Recent {
		if !math.IsNaN(float64(st.Loss)) || st.Correct != -1 {
			t.Fatal("an emulated device reports a loss")
		}
	}
}

// TestDiverges: a training that diverges says so once, at the step where the loss
// broke.
func TestDiverges(t *testing.T) {
	for _, tt := range []struct {
		lr   float64
		says int
	}{{1e30, 1}, {1e-3, 0}} {
		dev, err := cpu.Open(1)
		if err != nil {
			t.Fatal(err)
		}
		d := stripes{n: 256}
		k := train.DefaultKnobs()
		k.Loader.BatchSize = 32
		s := newRig(t, dev, train.Config{
			Task: prepared.Task{Model: cnn(t, d), Seed: 1}, Dataset: d, Transform: transform.CIFARTrain(), Epochs: 1,
			Recipe: nn.Recipe{Hyper: nn.Hyper{LR: tt.lr, Momentum: 0.9}}, Knobs: k,
		}).run(t, context.Background())
		if n := warnings(s, "diverged"); n != tt.says {
			t.Errorf("learning rate %g: %d warnings, want %d: %v", tt.lr, n, tt.says, s.Notes)
		}
	}
}

func warnings(s *trace.Snapshot, text string) (n int) {
	for _, note := range s.Notes {
		if note.Level == "warn" && strings.Contains(note.Text, text) {
			n++
		}
	}
	return n
}

func BenchmarkStep(b *testing.B) {
	for _, workers := range []int{0, 2} {
		b.Run("workers="+strconv.Itoa(workers), func(b *testing.B) {
			k := train.DefaultKnobs()
			k.Loader.NumWorkers, k.Loader.BatchSize = workers, 32
			p, err := emu.Find("h100")
			if err != nil {
				b.Fatal(err)
			}
			d := stripes{n: 1 << 20}
			m := cnn(b, d)
			r := newRig(b, emu.New(p, emu.NewRealClock()), train.Config{
				Task: prepared.Task{Model: m}, Dataset: d, Transform: transform.CIFARTrain(), Steps: b.N, Knobs: k,
			})
			b.ReportAllocs()
			b.ResetTimer()
			r.run(b, context.Background())
		})
	}
}
