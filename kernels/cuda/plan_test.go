package cuda

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/kernels"
)

// function is a kernel as its PTX declares it.
type function struct {
	name    string
	params  []int // bytes of each
	threads int   // most in a block
}

var (
	entryPTX  = regexp.MustCompile(`(?s)\.visible \.entry (\w+)\((.*?)\)\n(.*?)\{`)
	paramPTX  = regexp.MustCompile(`\.param \.([a-z])(\d+)`)
	threadPTX = regexp.MustCompile(`\.maxntid (\d+)`)
)

func functions(t *testing.T, module string, sm int) map[string]function {
	t.Helper()
	b, err := PTX(module, sm)
	if err != nil {
		t.Fatal(err)
	}
	fs := map[string]function{}
	for _, m := range entryPTX.FindAllStringSubmatch(string(b), -1) {
		f := function{name: m[1]}
		for _, p := range paramPTX.FindAllStringSubmatch(m[2], -1) {
			f.params = append(f.params, map[string]int{"64": 8, "32": 4}[p[2]])
		}
		fmt.Sscan(threadPTX.FindStringSubmatch(m[3])[1], &f.threads)
		fs[f.name] = f
	}
	if len(fs) == 0 {
		t.Fatalf("module %s for sm_%d declares no kernel", module, sm)
	}
	return fs
}

// everyOp has an operation for each kernel.
func everyOp() []kernels.Op {
	var ops []kernels.Op
	shapes := append(slices.Clone(testConvs), kernels.Conv{N: 64, H: 56, W: 56, C: 64, K: 256, R: 3, S: 3, Stride: 1, Pad: 1},
		kernels.Conv{N: 1024, H: 32, W: 32, C: 64, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}, kernels.Conv{N: 256, H: 112, W: 112, C: 128, K: 64, R: 3, S: 3, Stride: 2, Pad: 1})
	for _, c := range []int{512, 508, 511} { // few results and much depth, which is split
		shapes = append(shapes, kernels.Conv{N: 8, H: 4, W: 4, C: c, K: c, R: 3, S: 3, Stride: 1, Pad: 1})
	}
	for _, typ := range floatTypes {
		for _, g := range shapes {
			ops = append(ops, kernels.ConvForward{Conv: g, Type: typ, Bias: true}, kernels.ConvBackwardData{Conv: g, Type: typ}, kernels.ConvBackwardWeight{Conv: g, Type: typ, Bias: true})
		}
		for _, c := range []int{3, 64, 4096} {
			pool := kernels.MaxPool{N: 256, H: 32, W: 32, C: c, Size: 2, Stride: 2, Type: typ}
			avg := kernels.AvgPool{N: 256, H: 4, W: 4, C: c, Type: typ}
			stack := kernels.StackFrames{N: 9, T: 16, Pixels: 64, C: c, Taps: 3, Pad: 1, Type: typ}
			lin := kernels.Linear{N: 1000, In: c, Out: 1000, Type: typ}
			ops = append(ops, kernels.BatchNormForward{Rows: 131072, C: c, Type: typ, Train: true}, kernels.BatchNormBackward{Rows: 131072, C: c, Type: typ},
				pool, kernels.MaxPoolBackward{MaxPool: pool}, avg, kernels.AvgPoolBackward{AvgPool: avg}, lin, stack, kernels.StackFramesBackward{StackFrames: stack}, kernels.LinearBackward{Linear: lin})
		}
		ops = append(ops, kernels.Augment{N: 9, H: 32, W: 32, C: 3, CPad: 8, Type: typ}, kernels.PadChannels{Rows: 9, C: 3, CPad: 8, Type: typ},
			kernels.Cast{N: 9, Type: typ}, kernels.Add{N: 9, Type: typ}, kernels.Dropout{N: 9, Type: typ}, kernels.ReLUBackward{N: 9, Type: typ})
		for _, rule := range kernels.Rules() {
			ops = append(ops, kernels.Optimizer{Rule: rule, N: 9, Copy: typ})
		}
	}
	return append(ops, kernels.Zero{N: 9}, kernels.NextNoise{}, kernels.ScaleCheck{N: 9}, kernels.SoftmaxXent{N: 1024, C: 10})
}

// Every plan names a kernel that its module has, with the parameters and the
// limits that the PTX declares; and there is no kernel that no plan names.
func TestPlansFitThePTX(t *testing.T) {
	for _, sm := range []int{70, 75, 80, 86, 89, 90, 100, 120} {
		target := Target{SM: sm, Processors: 132}
		modules, used := map[string]map[string]function{}, map[string]bool{}
		for _, op := range everyOp() {
			configs := Configs(op, target)
			if len(configs) == 0 {
				t.Fatalf("%s has no config", op.Name())
			}
			for _, config := range configs {
				plan, err := NewPlan(op, target, config)
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range plan.Launches {
					if modules[l.Module] == nil {
						modules[l.Module] = functions(t, l.Module, sm)
					}
					used[l.Entry] = true
					if why := misfit(l, modules[l.Module], target, plan.Scratch); why != "" {
						t.Errorf("%s %+v sm_%d %s: %s: %s", op.Name(), op, sm, config, l.Entry, why)
					}
				}
			}
		}
		for _, fs := range modules {
			for name := range fs {
				// Before sm_80, tensor-core types run on CUDA cores; those have all.
				if !used[name] {
					t.Errorf("sm_%d: no plan names kernel %s", sm, name)
				}
			}
		}
	}
}

func misfit(l Launch, fs map[string]function, target Target, scratch int) string {
	f, ok := fs[l.Entry]
	var sizes []int
	for _, a := range l.Args {
		size := 8
		if a.Kind == Scalar {
			size = 4
		}
		sizes = append(sizes, size)
		if a.Kind == Scratch && a.Value >= uint64(scratch) || a.Kind == Counter && a.Value >= CounterBytes {
			return "an argument behind the scratch memory or the counters"
		}
	}
	threads := l.Block[0] * l.Block[1] * l.Block[2]
	switch {
	case !ok:
		return "not in module " + l.Module
	case !slices.Equal(sizes, f.params):
		return fmt.Sprintf("arguments of %v bytes for parameters of %v", sizes, f.params)
	case len(l.Args) > MaxArgs:
		return fmt.Sprintf("%d arguments", len(l.Args))
	case threads == 0 || int(threads) > f.threads:
		return fmt.Sprintf("%d threads, at most %d", threads, f.threads)
	case l.Grid[0] == 0 || l.Grid[1] == 0 || l.Grid[2] == 0 || l.Grid[0] >= 1<<31 || l.Grid[1] > 65535 || l.Grid[2] > 65535:
		return fmt.Sprintf("grid %v", l.Grid)
	case int(l.Shared) > target.sharedLimit():
		return fmt.Sprintf("%d bytes of shared memory", l.Shared)
	}
	return ""
}

func TestRefuses(t *testing.T) {
	target := Target{SM: 80, Processors: 100}
	for _, c := range []struct {
		op     kernels.Op
		config string
		want   string
	}{
		{kernels.Add{N: 4, Type: kernels.F32}, "mma", `has no config "mma"`},
		{kernels.Add{N: 1 << 31, Type: kernels.F32}, "", "lower batch_size"},
		{kernels.BatchNormForward{Rows: 2, C: 1 << 20, Type: kernels.F32, Train: true}, "", "channels"},
	} {
		if _, err := NewPlan(c.op, target, c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewPlan(%+v, %q): error %v, want %q in it", c.op, c.config, err, c.want)
		}
	}
	if _, err := PTX("reduce", 61); err == nil {
		t.Error("PTX gives PTX to sm_61")
	}
	if _, err := PTX("absent", 90); err == nil {
		t.Error("PTX finds a module that does not exist")
	}
}

// The same operation, target and config always give the same plan: an autotuner's
// cache depends on it.
func TestPlanIsStable(t *testing.T) {
	op := kernels.ConvBackwardWeight{Conv: testConvs[0], Type: kernels.BF16, Bias: true}
	target := Target{SM: 90, Processors: 132}
	first := Configs(op, target)
	if again := Configs(op, target); !slices.Equal(first, again) || len(first) < 5 {
		t.Errorf("configs %v, then %v", first, again)
	}
	a, err := NewPlan(op, target, "")
	if err != nil || a.Config != first[0] {
		t.Errorf("the empty config gives %q, %v; want %q", a.Config, err, first[0])
	}
}
