package train_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/emu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
	"dev.gpustall/loader/format/records"
	"dev.gpustall/loader/transform"
)

var (
	truth = flag.Bool("truth", false, "measure how true emulated devices and injected delays are, and print the tables (minutes)")
	only  = flag.String("rows", "", "only the rows whose name matches this expression")
)

// runs of a row; the median is printed.
const runs = 3

// TestTruth measures, on the machine as it is, what the model cannot promise. Does the host keep up
// with a device that is fed at once? Are waits as long as they are said to be? A busy machine fails
// the test, rightly. There, chrt -f 1 before the command shows what an idle machine would do.
func TestTruth(t *testing.T) {
	if !*truth {
		t.Skip("takes minutes; run it with -truth, or make truth")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(host.Processors(1))) // as the command has it
	rows := regexp.MustCompile(*only)
	t.Run("waits", truthOfWaits)
	t.Run("emulated", func(t *testing.T) { truthOfEmulation(t, rows) })
	t.Run("injected", func(t *testing.T) { truthOfInjection(t, rows) })
	t.Run("host", func(t *testing.T) { truthOfHost(t, rows) })
}

// truthOfWaits prints how late waits end.
func truthOfWaits(*testing.T) {
	fmt.Println("\nHow late a wait ends, of 400.")
	fmt.Println("\n| wait | by | median | 90 % | 99 % |")
	fmt.Println("|--:|---|--:|--:|--:|")
	clock := trace.NewClock()
	for _, w := range []time.Duration{50 * time.Microsecond, 300 * time.Microsecond, 3 * time.Millisecond} {
		for _, by := range []struct {
			name string
			wait func(until int64)
		}{
			{"the runtime's timer", func(until int64) { time.Sleep(time.Duration(until - clock.Now())) }},
			{"timer.Nap", func(until int64) { timer.Nap(clock, until) }},
			{"timer.Until", func(until int64) { timer.Until(clock, until) }},
		} {
			late := make([]int64, 400)
			for i := range late {
				until := clock.Now() + int64(w)
				by.wait(until)
				late[i] = clock.Now() - until
			}
			slices.Sort(late)
			at := func(share int) string { return units.Prose.Time(late[len(late)*share/100]) }
			fmt.Printf("| %s | %s | %s | %s | %s |\n", units.Prose.Time(int64(w)), by.name, at(50), at(90), at(99))
		}
	}
}

// fed is an emulated device that is fed kept batches.
type fed struct {
	preset emu.Preset
	model  string // empty for a workload
	batch  int
	pinned bool
	shrunk int // a workload's samples are made so many times smaller, to fit this host
}

func (f fed) String() string {
	what := f.model
	if what == "" {
		what = "its workload"
	}
	if f.shrunk > 1 {
		what += fmt.Sprintf(", samples of 1/%d", f.shrunk)
	}
	pinned := "pageable"
	if f.pinned {
		pinned = "pinned"
	}
	return fmt.Sprintf("%s | %s | %d | %s", f.preset.Name, what, f.batch, pinned)
}

// everyFed lists what is measured: every preset, every model, small and large batches.
func everyFed() []fed {
	var all []fed
	for _, p := range emu.Presets() {
		for _, pinned := range []bool{true, false} {
			if w := p.Workload; w != nil {
				f := fed{preset: p, batch: w.BatchSize, pinned: pinned, shrunk: 1}
				if int64(w.BatchSize)*w.SampleBytes > 256<<20 {
					f.shrunk = 64
				}
				all = append(all, f)
				continue
			}
			for _, model := range nn.Names() {
				for _, batch := range []int{1, 32, 128, 512} {
					all = append(all, fed{preset: p, model: model, batch: batch, pinned: pinned})
				}
			}
		}
	}
	return all
}

// clips are stripes that stand still.
type clips struct{ stripes }

const clipFrames = 8

func (d clips) Info() loader.Info {
	info := d.stripes.Info()
	info.T, info.Float = clipFrames, true
	return info
}

func (d clips) Decode(s *loader.Sample) error {
	s.T = clipFrames
	return d.stripes.Decode(s)
}

func (clips) Host(s *loader.Sample, _ *loader.RNG, dst []float32) {
	for i := range dst {
		dst[i] = float32(s.Pixels[i%len(s.Pixels)])
	}
}

func (clips) Device(*loader.Sample, *loader.RNG, []byte, []int32) int { return 0 } // floats are not sent as they are stored

func (clips) Normalisation() (mean, std [4]float32) { return mean, [4]float32{1, 1, 1, 1} }

// summed is an emulated device that notes what arithmetic needs: the work that it was
// given, and not when it did the work.
type summed struct {
	*emu.Device
	compute time.Duration // of the longest program, by the card's roofline
	loss    int           // bytes that go back to the host each step
}

func (d *summed) Prepare(ls []device.Launch) (device.Program, error) {
	var sum time.Duration
	for _, l := range ls {
		t, err := d.Preset().Card.Time(l.Op)
		if err != nil {
			return 0, err
		}
		sum += t
	}
	d.compute = max(d.compute, sum)
	return d.Device.Prepare(ls)
}

func (d *summed) CopyOut(s device.Stream, dst []byte, src device.Buffer) error {
	d.loss = max(d.loss, len(dst))
	return d.Device.CopyOut(s, dst, src)
}

// step returns, by arithmetic, how long a step on so many bytes takes in the steady state.
// It is the longest of computing, copying the next batch in and copying the loss out.
func (d *summed) step(bytes int, pinned bool) time.Duration {
	card := d.Preset().Card
	link := func(bytes int, rate float64) time.Duration {
		if bytes == 0 {
			return 0
		}
		return card.CopyLatency + time.Duration(float64(bytes)/rate*1e9)
	}
	rate := card.Pageable
	if pinned {
		rate = card.Pinned
	}
	return max(d.compute, link(d.loss, card.Pinned), link(bytes, rate))
}

// run measures the AU of the steps on kept batches, and returns what arithmetic says it
// should be.
func (f fed) run(t *testing.T) (au, want float64, step time.Duration) {
	dev := &summed{Device: emu.New(f.preset, emu.NewRealClock())}
	k := train.DefaultKnobs()
	k.Loader.BatchSize, k.Loader.PinMemory, k.Loader.Ceiling = f.batch, f.pinned, true
	k.Checkpoint = f.batch > 256 // else they do not fit into the smallest card
	cfg := train.Config{Dataset: stripes{n: 1 << 20}, Transform: transform.CIFARTrain(), Knobs: k, Steps: 1 << 30}
	if w := f.preset.Workload; w != nil {
		ds, err := records.Generate(records.Options{SampleBytes: int(w.SampleBytes) / f.shrunk})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Dataset, cfg.Transform = ds, records.Transform{}
		cfg.Fixed = func(int) device.Operation { return emu.Fixed{Duration: w.Compute} }
	} else {
		in := nn.Shape{H: 32, W: 32, C: 3}
		m, err := nn.New(f.model, in, 4)
		if err != nil { // it takes clips
			in.T = clipFrames
			cfg.Dataset, cfg.Transform = clips{stripes{n: 1 << 20}}, clips{}
			m, err = nn.New(f.model, in, 4)
		}
		if err != nil {
			t.Fatal(err)
		}
		cfg.Model, cfg.Recipe = m, m.Recipe(f.batch)
	}
	r := newRig(t, dev, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kept := func(s *trace.Snapshot) (steps []trace.Step) {
		for _, st := range s.Recent {
			if st.Flags&trace.FlagCeiling != 0 {
				steps = append(steps, st)
			}
		}
		return steps[min(len(steps), 4):] // without the first steps, which find the device idle
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer cancel()
		for n := 0; n < 8; n = len(kept(r.session.Snapshot(0, 0))) {
			time.Sleep(250 * time.Millisecond)
		}
	}()
	steps := kept(r.run(t, ctx))
	<-over
	b := attribution.Sum(steps)
	step = dev.step(int(steps[0].Bytes), f.pinned)
	return b.Utilisation(), float64(dev.compute) / float64(step), step
}

// bar returns how far AU may be from arithmetic; 0 means that there is no promise.
func bar(step time.Duration) float64 {
	switch {
	case step >= 200*time.Microsecond:
		return 0.02
	case step >= 50*time.Microsecond:
		return 0.10
	}
	return 0
}

func truthOfEmulation(t *testing.T, rows *regexp.Regexp) {
	fmt.Printf("\nEmulated devices on kept batches (the ceiling): AU, the median of %d runs.\n", runs)
	fmt.Println("\n| preset | model | batch | copies | step | AU by arithmetic | AU measured | off by | bar | ok |")
	fmt.Println("|---|---|--:|---|--:|--:|--:|--:|--:|---|")
	for _, f := range everyFed() {
		if !rows.MatchString(f.String()) {
			continue
		}
		var want float64
		var step time.Duration
		var measured []float64
		for len(measured) < runs && (step < 20*time.Millisecond || len(measured) == 0) { // long steps hide what disturbs
			var au float64
			au, want, step = f.run(t)
			measured = append(measured, au)
		}
		slices.Sort(measured)
		au := measured[len(measured)/2]
		fmt.Printf("| %v | %s | %.4f | %.4f | %s\n", f, units.Prose.Time(int64(step)), want, au, judged(t, f.String(), au/want-1, bar(step)))
	}
}

// judged ends a row with how far it is off, the bar, and whether it holds.
func judged(t *testing.T, row string, off, bar float64) string {
	if bar == 0 {
		return fmt.Sprintf("%+.1f %% | - | - |", 100*off)
	}
	ok := "yes"
	if math.Abs(off) > bar {
		ok = "NO"
		t.Errorf("%s: off by %+.1f %%", row, 100*off)
	}
	return fmt.Sprintf("%+.1f %% | %.0f %% | %s |", 100*off, 100*bar, ok)
}

// truthOfInjection prints what injected delays add to a sample.
func truthOfInjection(t *testing.T, rows *regexp.Regexp) {
	fmt.Printf("\nInjected delays: what they add to the time of a sample, the median of the batches of %d runs.\n", runs)
	fmt.Println("\n| injected | workers | added | off by | bar | ok |")
	fmt.Println("|---|--:|--:|--:|--:|---|")
	for _, kind := range []string{"read", "cpu"} {
		for _, d := range []time.Duration{50 * time.Microsecond, 200 * time.Microsecond, time.Millisecond, 5 * time.Millisecond} {
			for _, workers := range []int{0, 1} {
				row := fmt.Sprintf("%s=%v | %d", kind, d, workers)
				if !rows.MatchString(row) {
					continue
				}
				inject := loader.Inject{Read: d}
				if kind == "cpu" {
					inject = loader.Inject{CPU: d}
				}
				batch := int(min(32, max(4, 8*time.Millisecond/d)))
				added := perSample(t, batch, workers, inject) - perSample(t, batch, workers, loader.Inject{})
				fmt.Printf("| %s | %s | %s\n", row, units.Prose.Time(int64(added)), judged(t, row, added/float64(d)-1, 0.05))
			}
		}
	}
}

// perSample returns the worker time of a sample in ns, as the median over the batches.
func perSample(t *testing.T, batch, workers int, inject loader.Inject) float64 {
	var times []float64
	for range runs {
		p, err := emu.Find("h100")
		if err != nil {
			t.Fatal(err)
		}
		k := train.DefaultKnobs()
		k.Loader.BatchSize, k.Loader.NumWorkers, k.Loader.Inject = batch, workers, inject
		r := newRig(t, emu.New(p, emu.NewRealClock()), train.Config{
			Task:    prepared.Task{Fixed: func(int) device.Operation { return emu.Fixed{Duration: time.Microsecond} }},
			Dataset: stripes{n: 1 << 20}, Transform: transform.CIFARTrain(), Steps: 20, Knobs: k,
		})
		for _, s := range r.run(t, context.Background()).Recent[5:] {
			times = append(times, float64(s.Load)/float64(batch))
		}
	}
	slices.Sort(times)
	return times[len(times)/2]
}
