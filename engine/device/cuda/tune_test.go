//go:build cuda && cgo && linux

package cuda

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/kernels"
	cudakernels "dev.gpustall/kernels/cuda"
)

// storeInMemory is Choices in memory.
type storeInMemory map[string]string

func (m storeInMemory) Get(key string) (string, bool) { v, ok := m[key]; return v, ok && v != "" }
func (m storeInMemory) Set(key, config string)        { m[key] = config }

// tuned is a convolution with several variants on every GPU, in float32 and small.
var tuned = kernels.ConvForward{Conv: kernels.Conv{N: 4, H: 8, W: 8, C: 16, K: 32, R: 3, S: 3, Stride: 1, Pad: 1}}

// trials is this test's process for trying variants: TestMain serves it.
func trials() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GPUSTALL_TEST_TRIALS=1")
	return cmd
}

// openTuner opens a device whose tester is a goroutine of this process. It calls
// tamper with what it is going to run, to count or to spoil it.
func openTuner(t *testing.T, store Choices, tamper func(*cudakernels.Plan)) (*Device, []string) {
	t.Helper()
	d := openWith(t, Config{Choices: store, TuneEmulated: true})
	d.tuner.newTester = func() (*tester, error) {
		in, questions := io.Pipe()
		heard, out := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- errors.Join(serve(in, out, tamper), out.Close()) }()
		answers := make(chan answer)
		go listen(heard, answers)
		tt := &tester{ask: newEncoder(questions), answers: answers, kill: func() { _ = questions.Close() }}
		tt.end = sync.OnceValue(func() error {
			_ = questions.Close()
			for range answers {
			}
			return <-served
		})
		return tt, tt.greet(greeting{0, d.tuner.patience})
	}
	configs := cudakernels.Configs(tuned, d.code.target)
	if len(configs) < 3 {
		t.Fatalf("%d variants: too few to test with", len(configs))
	}
	return d, configs
}

func tune(t *testing.T, d *Device, ops ...kernels.Op) []string {
	t.Helper()
	var ls []device.Launch
	for _, op := range ops {
		ls = append(ls, device.Launch{Op: op, Layer: "layer"})
	}
	notes := d.Tune(t.Context(), ls, nil)
	if n := d.Untuned(ls); n != 0 {
		t.Errorf("after Tune %d operations are untuned", n)
	}
	return notes
}

// Tuning tries each variant, gives its memory back and stores its choice, which a
// later run takes without trying.
func TestTune(t *testing.T) {
	store := storeInMemory{}
	tried := map[string]int{}
	d, configs := openTuner(t, store, func(p *cudakernels.Plan) { tried[p.Config]++ })
	back := kernels.ConvBackwardWeight{Conv: tuned.Conv}
	accumulate := kernels.ConvBackwardData{Conv: tuned.Conv, Accumulate: true}
	if notes := tune(t, d, tuned, back, tuned, accumulate); len(notes) != 0 {
		t.Errorf("notes: %q", notes)
	}
	for _, c := range configs {
		if tried[c] != 3 {
			t.Errorf("variant %s was tried %d times for 3 operations", c, tried[c])
		}
	}
	if d.mem.held != 0 {
		t.Errorf("tuning kept %d bytes", d.mem.held)
	}
	got := d.Tuned()
	if len(got) != 3 || got[0].Op != "conv_forward" || got[0].Layer != "layer" || got[0].Cached || got[0].First != configs[0] ||
		!slices.Contains(configs, got[0].Variant) || got[0].Time <= 0 || got[0].Time > got[0].FirstTime || len(got[0].Tried) != len(configs) {
		t.Errorf("%+v", got)
	}
	for key, v := range store {
		if v != "" && (!strings.Contains(key, "driver ") || !strings.Contains(key, "kernels ")) {
			t.Errorf("key %q names no driver or kernels", key)
		}
	}
	again, _ := openTuner(t, store, func(*cudakernels.Plan) { t.Error("a stored choice was tried again") })
	tune(t, again, tuned, back, accumulate)
	if c := again.tuner.choose(tuned, ""); c != got[0].Variant {
		t.Errorf("took %q; stored is %q", c, got[0].Variant)
	}
	if a := again.Tuned(); len(a) != 3 || !a[0].Cached || a[0].Time != got[0].Time {
		t.Errorf("from the store: %+v", a)
	}
}

// A kernel with counters can be the first that a device tries.
func TestTuneCounters(t *testing.T) {
	d, _ := openTuner(t, storeInMemory{}, nil)
	bias := kernels.ConvBackwardWeight{Conv: tuned.Conv, Bias: true}
	plan, err := cudakernels.NewPlan(bias, d.code.target, "")
	if err != nil {
		t.Fatal(err)
	}
	counts := false
	for _, l := range plan.Launches {
		for _, a := range l.Args {
			counts = counts || a.Kind == cudakernels.Counter
		}
	}
	if !counts {
		t.Fatal("this kernel has no counters: test another")
	}
	if notes := tune(t, d, bias); len(notes) != 0 {
		t.Errorf("notes: %q", notes)
	}
}

// Where a GPU has wgmma, its variants are tried and agree with those of mma.sync.
func TestTuneHopper(t *testing.T) {
	if !emulated(open(t)) {
		t.Skip("a real GPU is what it is")
	}
	t.Setenv("GPUSTALL_EMU_SM", "90")
	tried := map[string]bool{}
	d, _ := openTuner(t, storeInMemory{}, func(p *cudakernels.Plan) { tried[p.Config] = true })
	g := kernels.Conv{N: 3, H: 8, W: 8, C: 64, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}
	for _, op := range []kernels.Op{
		kernels.ConvForward{Conv: g, Type: kernels.BF16}, kernels.ConvBackwardData{Conv: g, Type: kernels.BF16},
		kernels.ConvBackwardWeight{Conv: g, Type: kernels.F16},
	} {
		clear(tried)
		if notes := tune(t, d, op); len(notes) != 0 {
			t.Errorf("%s: %q", op.Name(), notes)
		}
		n := 0
		for config := range tried {
			if strings.HasPrefix(config, "wgmma") {
				n++
			}
		}
		if n == 0 {
			t.Errorf("%s: no wgmma among %v", op.Name(), tried)
		}
	}
}

// A choice of variants that are no more, or were found wrong since, is made anew.
func TestTuneForgets(t *testing.T) {
	store := storeInMemory{}
	// A second shape shows that this variant is wrong.
	other := tuned
	other.N = 3
	var bad string
	d, configs := openTuner(t, store, func(p *cudakernels.Plan) {
		if l := &p.Launches[0]; p.Config == bad && l.Args[5].Value == 3 {
			l.Args[len(l.Args)-1].Value = 1 // as if it had a ReLU
		}
	})
	bad = configs[1]
	key := d.tuner.variants.key(tuned, d.code.target)
	for _, v := range []string{"a variant of an older version 5 6", "nonsense", configs[1] + " 5"} {
		store.Set(key, v)
		if d.Untuned([]device.Launch{{Op: tuned}}) != 1 {
			t.Errorf("took %q", v)
		}
	}
	store.Set(key, configs[1]+" 5 6")
	if c := d.tuner.choose(tuned, ""); c != configs[1] {
		t.Errorf("took %q, stored is %q", c, configs[1])
	}
	notes := tune(t, d, tuned, other)
	if len(notes) != 1 {
		t.Errorf("notes: %q", notes)
	}
	for _, got := range d.Tuned() {
		if got.Variant == configs[1] {
			t.Errorf("still takes the wrong variant: %+v", got)
		}
	}
}

// A variant that computes something else, or does not run, is never taken, is told
// of once and stays out in later runs.
func TestTuneWrongVariant(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(l *cudakernels.Launch)
		says  string
	}{
		{"another result", func(l *cudakernels.Launch) { l.Args[len(l.Args)-1].Value = 1 }, "it computes y as"},
		{"less than all", func(l *cudakernels.Launch) { l.Grid[0] = 1 }, "NaN instead of"},
		{"too many threads", func(l *cudakernels.Launch) { l.Block[0] = 4096 }, "it does not launch"},
		{"a write outside", func(l *cudakernels.Launch) { l.Args[2].Value += 64 }, "outside of y"},
		{"no such kernel", func(l *cudakernels.Launch) { l.Entry = "missing" }, "kernel missing"},
		{"no such module", func(l *cudakernels.Launch) { l.Module = "missing" }, "no PTX of module"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := storeInMemory{}
			var bad string
			d, configs := openTuner(t, store, func(p *cudakernels.Plan) {
				if p.Config == bad {
					c.spoil(&p.Launches[0])
				}
			})
			bad = configs[len(configs)-1]
			notes := tune(t, d, tuned)
			if len(notes) != 1 || !strings.Contains(notes[0], c.says) || !strings.Contains(notes[0], bad) || !strings.Contains(notes[0], "conv_forward fp32") {
				t.Errorf("notes %q, want one that names %s and says %q", notes, bad, c.says)
			}
			if got := d.Tuned(); len(got) != 1 || got[0].Variant == bad {
				t.Errorf("%+v", got)
			}
			if d.mem.held != 0 {
				t.Errorf("%d bytes are held", d.mem.held)
			}
			// Another shape, in another run: neither tried nor told again.
			again, _ := openTuner(t, store, func(p *cudakernels.Plan) {
				if p.Config == bad {
					t.Error("the wrong variant was tried again")
				}
			})
			other := tuned
			other.N = 3
			if notes := tune(t, again, other); len(notes) != 0 {
				t.Errorf("later: %q", notes)
			}
		})
	}
}

// The memory left bounds what can be tried.
func TestTuneWithoutRoom(t *testing.T) {
	if !emulated(open(t)) {
		t.Skip("a real GPU has its own memory")
	}
	t.Setenv("GPUSTALL_EMU_MEMORY", "64")
	store := storeInMemory{}
	d, _ := openTuner(t, store, nil)
	large := tuned
	large.N = 8192
	notes := tune(t, d, large, tuned)
	if len(notes) != 1 || !strings.Contains(notes[0], "1 of 2 kernels") || !strings.Contains(notes[0], "batch_size") {
		t.Errorf("notes: %q", notes)
	}
	if len(d.mem.pieces) != 0 {
		t.Errorf("tuning took %d pieces from the driver", len(d.mem.pieces))
	}
	if len(store) != 1 {
		t.Errorf("stored: %v", store)
	}
}

// Tuning stops when its time is up; what is left is not decided.
func TestTuneStops(t *testing.T) {
	d, configs := openTuner(t, storeInMemory{}, func(*cudakernels.Plan) { t.Error("tried without time, or at Prepare") })
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	<-ctx.Done()
	ls := []device.Launch{{Op: tuned}}
	notes := d.Tune(ctx, ls, nil)
	if len(notes) != 1 || !strings.Contains(notes[0], "0 of 1 kernels") {
		t.Errorf("%q", notes)
	}
	if d.Untuned(ls) != 1 {
		t.Error("the operation counts as decided")
	}
	// Prepare leaves it at that.
	if c := d.tuner.choose(tuned, ""); c != configs[0] {
		t.Errorf("took %q", c)
	}
}

// A variant found wrong is neither taken nor compared with where it would be the
// planner's guess.
func TestTuneWrongGuess(t *testing.T) {
	store := storeInMemory{}
	d, configs := openTuner(t, store, nil)
	d.tuner.variants.condemn(d.tuner.variants.mark(tuned, d.code.target, configs[0]), "it was wrong")
	again, _ := openTuner(t, store, nil)
	if c := again.tuner.choose(tuned, ""); c == configs[0] {
		t.Errorf("took %q", c)
	}
	again, _ = openTuner(t, store, func(p *cudakernels.Plan) {
		if p.Config == configs[0] {
			t.Error("the wrong variant was tried")
		}
	})
	tune(t, again, tuned)
	if got := again.Tuned(); len(got) != 1 || got[0].First != configs[1] || got[0].Variant == configs[0] {
		t.Errorf("%+v", got)
	}
}

// What is asked of every knob change and start must not be felt there.
func BenchmarkDecisions(b *testing.B) {
	d := openWith(b, Config{Choices: storeInMemory{}, TuneEmulated: true})
	m, err := nn.New("resnet18", nn.Shape{H: 32, W: 32, C: 3}, 10)
	if err != nil {
		b.Fatal(err)
	}
	ls, err := m.Launches(nn.PlanConfig{Batch: 128, Type: kernels.BF16})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("overhead", func(b *testing.B) {
		for range b.N {
			d.Overhead(ls)
		}
	})
	b.Run("untuned", func(b *testing.B) {
		for range b.N {
			d.Untuned(ls)
		}
	})
}
