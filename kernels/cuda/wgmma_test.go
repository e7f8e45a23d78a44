package cuda

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/kernels"
	"dev.gpustall/kernels/verify"
	"dev.gpustall/kernels/verify/ptxvm"
)

// Depths of many tiles, so that every place of a pipeline is filled more than once,
// and results that no tile divides.
var wgmmaConvs = []kernels.Conv{
	{N: 2, H: 7, W: 9, C: 72, K: 136, R: 3, S: 3, Stride: 1, Pad: 1},
	{N: 3, H: 11, W: 8, C: 136, K: 88, R: 3, S: 3, Stride: 2, Pad: 1},
	{N: 5, H: 12, W: 13, C: 264, K: 72, R: 1, S: 1, Stride: 1},
	{N: 3, H: 17, W: 15, C: 40, K: 272, R: 1, S: 1, Stride: 2},
}

func wgmmaOps(g kernels.Conv, typ kernels.Type, flag bool) []kernels.Op {
	return []kernels.Op{
		kernels.ConvForward{Conv: g, Type: typ, Bias: flag, ReLU: flag},
		kernels.ConvBackwardData{Conv: g, Type: typ, Accumulate: flag},
		kernels.ConvBackwardWeight{Conv: g, Type: typ, Bias: flag},
	}
}

func wgmmaConfigs(op kernels.Op, target Target) []string {
	return slices.DeleteFunc(Configs(op, target), func(c string) bool { return !strings.HasPrefix(c, "wgmma") })
}

// Every wgmma tile against the references, lanes and blocks forwards or backwards,
// depths split in parts and not. That the order does not matter to the bit is shown
// by TestConvolution, which has these tiles too.
func TestWgmma(t *testing.T) {
	e := verify.NewEmulator(t)
	shapes := wgmmaConvs
	if testing.Short() {
		shapes = shapes[:1]
	}
	for i, g := range shapes {
		for _, op := range append(wgmmaOps(g, kernels.BF16, i%2 == 0), wgmmaOps(g, kernels.F16, i%2 == 1)...) {
			want := inputs(op, 1)
			op.Reference(want)
			for j, config := range wgmmaConfigs(op, Target{SM: 90}) {
				plan, err := NewPlan(op, Target{SM: 90, Processors: 1 + j%2*7}, config)
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("%s %+v %s", op.Name(), op, config)
				got := inputs(op, 1)
				emulate(e, op, plan, got, identity(len(got)), (i+j)%2 == 1)
				compare(t, name, op, got, want)
			}
		}
	}
}

// Their depths in parts: uneven ones, more of them than there are depth tiles, and
// phases of a data gradient that have no taps. The planner would split none of these
// shapes, which are small. Once in each order of lanes and blocks: the same, to the
// bit.
func TestWgmmaSplitDepth(t *testing.T) {
	e := verify.NewEmulator(t)
	shapes := wgmmaConvs
	if testing.Short() {
		shapes = shapes[3:]
	}
	counts := []int{3, 7, 2, 4, 5} // of 1 to 27 depth tiles
	for i, g := range shapes {
		for n, op := range append(wgmmaOps(g, kernels.BF16, i%2 == 0)[:2], wgmmaOps(g, kernels.F16, i%2 == 1)[:2]...) {
			target := Target{SM: 90, Processors: 3}
			for j, l := range splitPlan(op, target).wgmmaTiles(true) {
				if (i+j+n/2)%2 == 0 {
					continue // the other type has it
				}
				config := fmt.Sprintf("%sk%d", l, counts[(i+j)%len(counts)])
				checkPlan(t, e, op, splitDepth(t, op, target, config), fmt.Sprintf("%s %+v %s", op.Name(), op, config))
			}
		}
	}
}

// testPTXWgmmaSplit is the same for the PTX: results of which every column is there,
// and phases without taps.
func testPTXWgmmaSplit(t *testing.T) {
	wide := kernels.Conv{N: 2, H: 9, W: 8, C: 72, K: 264, R: 1, S: 1, Stride: 1}
	back := wide
	back.C, back.K = wide.K, wide.C
	few := kernels.Conv{N: 2, H: 7, W: 5, C: 72, K: 72, R: 1, S: 1, Stride: 2}
	target := ptxTargets[0]
	for i, typ := range []kernels.Type{kernels.BF16, kernels.F16} {
		for n, op := range []kernels.Op{
			kernels.ConvForward{Conv: wide, Type: typ, Bias: true}, kernels.ConvBackwardData{Conv: back, Type: typ, Accumulate: true}, kernels.ConvBackwardData{Conv: few, Type: typ},
		} {
			bufs := inputs(op, 1)
			want := clone(bufs)
			op.Reference(want)
			for j, l := range splitPlan(op, target).wgmmaTiles(true) {
				if testing.Short() && (i+j)%2 == 0 {
					continue
				}
				plan := splitDepth(t, op, target, fmt.Sprintf("%sk%d", l, 2+(j+n)%2))
				checkPTXPlan(t, op, plan, target.SM, bufs, want, identity(len(bufs)), j%2 == 1)
			}
		}
	}
}

// They are further variants: for bf16 and fp16, on compute capability 9.0 alone,
// behind all others.
func TestWgmmaIsNeverTheDefault(t *testing.T) {
	g := kernels.Conv{N: 128, H: 16, W: 16, C: 128, K: 128, R: 3, S: 3, Stride: 1, Pad: 1}
	odd, few := g, g
	odd.C, few.H, few.W, few.C, few.K = 12, 4, 4, 512, 512 // and one whose depth is worth splitting
	for _, sm := range []int{70, 75, 80, 86, 89, 90, 100, 103, 120} {
		for _, typ := range floatTypes {
			for i, op := range slices.Concat(wgmmaOps(g, typ, false), wgmmaOps(few, typ, false), wgmmaOps(odd, typ, false)) {
				configs := Configs(op, Target{SM: sm, Processors: 132})
				first := slices.IndexFunc(configs, func(c string) bool { return strings.HasPrefix(c, "wgmma") })
				if want := sm == 90 && typ.Size() == 2 && i < 6; (first >= 0) != want {
					t.Errorf("sm_%d %+v: %q", sm, op, configs)
				}
				if first == 0 || first > 0 && slices.ContainsFunc(configs[first:], func(c string) bool { return !strings.HasPrefix(c, "wgmma") }) {
					t.Errorf("sm_%d %s: wgmma is not behind all others: %q", sm, op.Name(), configs)
				}
			}
		}
	}
}

// PTX for sm_90a runs on 9.0 and on nothing that came before or after.
func TestWgmmaModules(t *testing.T) {
	for _, sm := range []int{80, 89, 90, 100, 103, 120} {
		for _, d := range []direction{convForward, convBackwardData, convBackwardWeight} {
			for _, typ := range []kernels.Type{kernels.F16, kernels.BF16} {
				b, err := PTX(d.String()+"_"+typ.String()+"_wgmma", sm)
				if (err == nil) != (sm == 90) || err == nil && !bytes.Contains(b, []byte("\n.target sm_90a\n")) {
					t.Errorf("sm_%d %s %s: %v", sm, d, typ, err)
				}
			}
		}
	}
}

// The experiment without the proxy fence is nobody's choice, and emulation and
// interpreter notice what it leaves out.
func TestUnfenced(t *testing.T) {
	target := Target{SM: 90, Processors: 3}
	deep := kernels.Conv{N: 2, H: 9, W: 8, C: 64, K: 64, R: 3, S: 4, Stride: 1, Pad: 1}
	for _, op := range wgmmaOps(deep, kernels.BF16, false) {
		names := Experiments(op, target)
		if len(names) != 1 || slices.Contains(Configs(op, target), names[0]) || len(Experiments(op, Target{SM: 80})) > 0 {
			t.Fatalf("%s: %q", op.Name(), names)
		}
		plan, err := NewPlan(op, target, names[0])
		if err != nil {
			t.Fatal(err)
		}
		bufs := inputs(op, 1)
		want := clone(bufs)
		op.Reference(want)
		err = runPTX(t, op, plan, func(l Launch) *ptxvm.Module { return ptxModule(t, l.Module, target.SM) }, clone(bufs), identity(len(bufs)), false)
		if err == nil || !strings.Contains(err.Error(), "fence") {
			t.Errorf("%s: the interpreter says %v", op.Name(), err)
		}
		if fails(t, 0, op, plan, want, false) == "" {
			t.Errorf("%s: the emulation notices nothing", op.Name())
		}
	}
}

// attempt is a testing.TB that keeps what stopped it to itself.
type attempt struct {
	testing.TB
	why string
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fails runs op with an injected fault and says what was wrong with it, or nothing.
func fails(t *testing.T, fault int, op kernels.Op, plan Plan, want [][]byte, reverse bool) string {
	a := &attempt{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e := verify.NewEmulator(a)
		e.Inject(fault)
		got := inputs(op, 1)
		emulate(e, op, plan, got, identity(len(got)), reverse)
		for i, arg := range op.Args() {
			if arg.Role == kernels.In {
				continue
			}
			rel, abs := tolerance(op, arg)
			w := kernels.Load(want[i], arg.Type)
			for j, v := range kernels.Load(got[i], arg.Type) {
				if !(math.Abs(float64(v-w[j])) <= abs+rel*math.Abs(float64(w[j]))) {
					a.Fatalf("%s[%d] is %g, want %g", arg.Name, j, v, w[j])
				}
			}
		}
	}()
	<-done
	return a.why
}

// Each instruction of the pipeline and each field of a descriptor is needed, and the
// emulation finds it when it is missing or wrong: verify/emulation/fault.h.
func TestWgmmaFaultsAreCaught(t *testing.T) {
	const forward, data, weight = 1, 2, 4
	faults := []struct {
		name   string
		spares int // directions it does not hurt
	}{
		{"none", forward | data | weight},
		{"no proxy fence", 0},
		{"no wgmma.fence", 0},
		{"no commit", 0},
		{"no barrier", 0},
		{"a place filled one tile early", 0},
		{"no last wait", 0},
		{"a product before its copies", 0},
		{"leading and stride offset swapped", 0},
		{"wrong leading offset", forward}, // not used by deep operands
		{"wrong stride offset", 0},
		{"wrong transposition of a", 0},
		{"wrong transposition of b", 0},
		{"wrong swizzle", 0},
		{"tiles not aligned", 0},
	}
	g := kernels.Conv{N: 2, H: 12, W: 13, C: 136, K: 200, R: 2, S: 1, Stride: 1}
	// A part of a depth has as many tiles as there are places, or more.
	deep := kernels.Conv{N: 2, H: 7, W: 6, C: 136, K: 136, R: 3, S: 1, Stride: 1}
	check := func(d int, op kernels.Op, plan Plan, reverse ...bool) {
		want := inputs(op, 1)
		op.Reference(want)
		for i, f := range faults {
			for _, reverse := range reverse {
				why := fails(t, i, op, plan, want, reverse)
				if harmless := f.spares>>d&1 != 0; harmless != (why == "") {
					t.Errorf("%s %s, %s: %q", op.Name(), plan.Config, f.name, why)
				} else if testing.Verbose() {
					t.Logf("%s %s, %s: %s", op.Name(), plan.Config, f.name, why)
				}
			}
		}
	}
	target := Target{SM: 90, Processors: 1}
	for d, op := range wgmmaOps(g, kernels.BF16, false) {
		plan, err := NewPlan(op, target, "wgmma128x128x64s3")
		if err != nil {
			t.Fatal(err)
		}
		check(d, op, plan, false, true)
	}
	for d, op := range wgmmaOps(deep, kernels.BF16, false)[:2] {
		check(d, op, splitDepth(t, op, target, "wgmma128x128x64s3k2"), d == 0)
	}
}
