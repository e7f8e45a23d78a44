//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
	cudakernels "dev.gpustall/kernels/cuda"
)

// hopper is a convolution with variants of two families on compute capability 9.0.
var hopper = kernels.ConvForward{Conv: kernels.Conv{N: 2, H: 8, W: 8, C: 64, K: 64, R: 1, S: 1, Stride: 1}, Type: kernels.BF16}

// A variant that breaks its context, hangs or crashes costs its process and its
// family, and is named; the others are tried by the next process, once.
func TestFamilyFalls(t *testing.T) {
	if !emulated(open(t)) {
		t.Skip("a real driver does not fail on command")
	}
	t.Setenv("GPUSTALL_EMU_SM", "90")
	t.Setenv("GPUSTALL_EMU_FAULTY", "wgmma")
	for how, says := range map[string]string{
		"":      "broke the GPU's context: it fails: CUDA_ERROR_ILLEGAL_ADDRESS",
		"hang":  "hangs: it fails: it has not ended after 1s",
		"crash": "ended its process: ",
	} {
		t.Run(how, func(t *testing.T) {
			t.Setenv("GPUSTALL_EMU_FAULTS", how)
			store := storeInMemory{}
			d := openWith(t, Config{Choices: store, Trials: trials, TuneEmulated: true})
			d.tuner.patience = time.Second
			if how == "" {
				d.tuner.patience = time.Minute
			}
			started := 0
			start := d.tuner.newTester
			d.tuner.newTester = func() (*tester, error) { started++; return start() }
			back := kernels.ConvBackwardWeight{Conv: hopper.Conv, Type: kernels.F16}
			notes := tune(t, d, hopper, back)
			if len(notes) != 1 || !strings.Contains(notes[0], says) || !strings.Contains(notes[0], "wgmma kernels are left out") || !strings.Contains(notes[0], "conv_forward bf16 variant wgmma") {
				t.Errorf("notes %q, want one that names the variant and says %q", notes, says)
			}
			if started != 2 {
				t.Errorf("%d processes: one that broke and one for the rest are enough", started)
			}
			for _, got := range d.Tuned() {
				if cudakernels.Family(got.Variant) != "mma" || len(got.Tried) < 5 || got.Time == 0 {
					t.Errorf("%+v", got)
				}
			}
			// The next start knows.
			again := openWith(t, Config{Choices: store, TuneEmulated: true})
			other := hopper
			other.N = 3
			if left := again.tuner.usable(other); len(left) < 5 || slices.ContainsFunc(left, func(c string) bool { return cudakernels.Family(c) != "mma" }) {
				t.Errorf("later it would try %q", left)
			}
		})
	}
}

// Where the planner's own guess breaks the context, another family is tried; and
// where nothing is left, the guess stays and nothing hangs.
func TestGuessFalls(t *testing.T) {
	if !emulated(open(t)) {
		t.Skip("a real driver does not fail on command")
	}
	t.Setenv("GPUSTALL_EMU_SM", "90")
	t.Setenv("GPUSTALL_EMU_DELAY", "0")
	for faulty, want := range map[string]string{"_mma": "wgmma", "mma": "mma"} {
		t.Run(faulty, func(t *testing.T) {
			t.Setenv("GPUSTALL_EMU_FAULTY", faulty)
			d := openWith(t, Config{Choices: storeInMemory{}, Trials: trials, TuneEmulated: true})
			tune(t, d, hopper)
			if got := d.Tuned(); len(got) != 1 || cudakernels.Family(got[0].Variant) != want {
				t.Errorf("%+v, want %s", got, want)
			}
		})
	}
}

// A process that cannot be had, or that somebody ended, condemns nothing.
func TestNoTester(t *testing.T) {
	open(t)
	missing := filepath.Join(t.TempDir(), "missing")
	for name, cmd := range map[string]func() *exec.Cmd{
		"no program": func() *exec.Cmd { return exec.Command(missing) },
		"another":    func() *exec.Cmd { return exec.Command("true") },
		"killed":     func() *exec.Cmd { return exec.Command("sh", "-c", "kill -9 $$") },
		"refuses":    func() *exec.Cmd { c := trials(); c.Env = append(c.Env, "GPUSTALL_LIBCUDA="+missing); return c },
	} {
		t.Run(name, func(t *testing.T) {
			store := storeInMemory{}
			d := openWith(t, Config{Choices: store, Trials: cmd, TuneEmulated: true})
			notes := d.Tune(t.Context(), []device.Launch{{Op: tuned}}, nil)
			if len(notes) != 1 || !strings.Contains(notes[0], "1 of 1 kernels take the planner's guess: there is no process to try kernels in: ") {
				t.Errorf("%q", notes)
			}
			if len(store) != 0 {
				t.Errorf("stored %v", store)
			}
		})
	}
}

// A person who starts the process that tries kernels is told what to start instead.
func TestServeNobody(t *testing.T) {
	err := serve(strings.NewReader(""), io.Discard, nil)
	if f := errs.Explain(err); !errors.Is(err, io.EOF) || f.Op == "" || f.Object == "" || f.Hint == "" {
		t.Errorf("%v: %+v", err, f)
	}
}

// One that is ended from outside while it tries says nothing of the variant.
func TestTesterKilled(t *testing.T) {
	if !emulated(open(t)) {
		t.Skip("a real driver does not hang on command")
	}
	t.Setenv("GPUSTALL_EMU_FAULTY", "conv")
	t.Setenv("GPUSTALL_EMU_FAULTS", "hang")
	d := openWith(t, Config{Choices: storeInMemory{}, Trials: trials, TuneEmulated: true})
	tt, err := d.tuner.newTester()
	if err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(50*time.Millisecond, tt.kill)
	defer timer.Stop()
	err = tt.try(t.Context(), question{tuned, cudakernels.Configs(tuned, d.code.target)}, time.Minute, func(a answer) { t.Errorf("%+v", a) })
	if !errors.Is(err, errTester) || !strings.Contains(err.Error(), "ended from outside") {
		t.Error(err)
	}
}

// Training starts at the first try where every wgmma kernel breaks the context, and
// says which it was.
func TestTrainsOnFaultyWgmma(t *testing.T) {
	if !emulated(open(t)) {
		t.Skip("a real driver does not fail on command")
	}
	t.Setenv("GPUSTALL_EMU_SM", "90")
	t.Setenv("GPUSTALL_EMU_FAULTY", "wgmma")
	r := run{model: "cnn", batch: 4, typ: kernels.BF16, steps: 3, tune: true}.train(t)
	if r.err != nil {
		t.Fatal(r.err)
	}
	said := false
	for _, n := range r.snap.Notes {
		said = said || n.Level == "warn" && strings.Contains(n.Text, "variant wgmma") && strings.Contains(n.Text, "ILLEGAL_ADDRESS")
	}
	if len(r.snap.Recent) != 3 || !said {
		t.Errorf("%d steps; notes %+v", len(r.snap.Recent), r.snap.Notes)
	}
}
