package cuda

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"dev.gpustall/kernels"
	"dev.gpustall/kernels/verify/ptxvm"
)

// Faults of the kind that only running the PTX shows, put into it one at a time:
// each must make the interpreter fail, or the comparison.

// mutation changes one place of an entry's text.
type mutation struct {
	name   string
	op     kernels.Op
	config string
	entry  string // part of the name of the launch's kernel that is changed
	match  *regexp.Regexp
	with   string // as in ReplaceAllString
}

const tileTuring = "mma64x64x32s2"

func ptxMutations() []mutation {
	// A tile's every column is used: what a warp does wrong must show.
	g := kernels.Conv{N: 2, H: 9, W: 7, C: 16, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}
	forward := kernels.ConvForward{Conv: g, Type: kernels.F16, Bias: true, ReLU: true}
	data := kernels.ConvBackwardData{Conv: kernels.Conv{N: 2, H: 9, W: 7, C: 64, K: 16, R: 3, S: 3, Stride: 1, Pad: 1}, Type: kernels.BF16, Accumulate: true}
	weight := kernels.ConvBackwardWeight{Conv: g, Type: kernels.BF16}
	tf32 := kernels.ConvForward{Conv: g, Type: kernels.TF32}
	// 24 channels of a tile's 64, so that there are copies of nothing; and a depth of
	// 6 tiles, so that the last group lands where the results are gathered.
	narrow := kernels.ConvForward{Conv: kernels.Conv{N: 2, H: 9, W: 7, C: 16, K: 24, R: 3, S: 3, Stride: 1, Pad: 1}, Type: kernels.F16}
	deep := kernels.ConvForward{Conv: kernels.Conv{N: 2, H: 9, W: 8, C: 16, K: 64, R: 3, S: 4, Stride: 1, Pad: 1}, Type: kernels.F16}
	// Few channels, so that several blocks sum each.
	norm := kernels.BatchNormForward{Rows: 300, C: 8, Type: kernels.F16, Eps: 1e-5, Momentum: 0.1, Train: true, ReLU: true, Residual: true}
	many := kernels.Conv{N: 2, H: 16, W: 16, C: 16, K: 64, R: 1, S: 1, Stride: 1}
	linear := kernels.Linear{N: 5, In: 512, Out: 10, Type: kernels.F32}
	pool := kernels.MaxPool{N: 1, H: 7, W: 9, C: 5, Size: 3, Stride: 2, Pad: 1, Type: kernels.F32}
	const tile16, tile32, wgmma = "mma64x64x32s4", "mma64x64x16s4", "wgmma128x64x64s4"
	m := func(name string, op kernels.Op, config, entry, match, with string) mutation {
		return mutation{name, op, config, entry, regexp.MustCompile(match), with}
	}
	return []mutation{
		m("halves of a conversion", forward, tile16, "conv", `(cvt\.rn\.f16x2\.f32\s+%r\d+), (%f\d+), (%f\d+)`, "$1, $3, $2"),
		m("halves of a conversion", data, tile16, "conv", `(cvt\.rn\.bf16x2\.f32\s+%r\d+), (%f\d+), (%f\d+)`, "$1, $3, $2"),
		m("no barrier", forward, tile16, "conv", `bar\.sync 0;`, ""),
		m("no barrier", norm, "", "stats", `bar\.sync 0;`, ""),
		m("a group too few waited for", forward, tile16, "conv", `wait_group 2;`, "wait_group 3;"),
		m("a group too few waited for", deep, tile16, "conv", `wait_group 0;`, "wait_group 1;"),
		m("no wait", forward, tile16, "conv", `cp\.async\.wait_group \d;`, ""),
		m("no commit", forward, tile16, "conv", `cp\.async\.commit_group;`, ""),
		m("registers of ldmatrix", forward, tile16, "conv", `(ldmatrix\S+ \{%r\d+),(%r\d+),(%r\d+)`, "$1,$3,$2"),
		m("registers of ldmatrix", weight, tile16, "conv", `(ldmatrix\S+ )\{(%r\d+),(%r\d+)`, "$1{$3,$2"),
		m("ldmatrix not transposed", weight, tile16, "conv", `\.trans`, ""),
		m("registers of mma's a", tf32, tile32, "conv", `(mma\S+ \{\S+\}, )\{(%r\d+),(%r\d+),(%r\d+)`, "$1{$2,$4,$3"),
		m("registers of mma's b", forward, tile16, "conv", `(mma\S+ \{\S+\}, \{\S+\}, )\{(%r\d+),(%r\d+)\}`, "$1{$3,$2}"),
		m("registers of mma's result", forward, tile16, "conv", `(mma\S+ )\{(%f\d+),(%f\d+)`, "$1{$3,$2"),
		m("copies of what is outside", narrow, tile16, "conv", `(cp\.async\.c\S+ \[%r\d+\], \[%rd\d+\], 16), %r\d+`, "$1"),
		m("another parameter", forward, tile16, "conv", `(ld\.param\.u32 .*_param_)[4-8]\]`, "${1}9]"),
		m("a longer parameter", pool, "", "maxpool", `\.param \.u32`, ".param .u64"),
		// Between blocks: before a block says that its part is there, and before the last
		// one reads the others'. (scale_check's blocks share nothing but atomics, whose
		// order without a fence the interpreter does not know to be open.)
		m("no fence", norm, "", "stats", `fence\.acq_rel\.gpu;`, ""),
		m("no fence", kernels.BatchNormBackward{Rows: 300, C: 8, Type: kernels.F16, ReLU: true}, "", "sums", `fence\.acq_rel\.gpu;`, ""),
		m("no fence", kernels.ConvBackwardWeight{Conv: many, Type: kernels.BF16, Bias: true}, tile16, "sum_rows", `fence\.acq_rel\.gpu;`, ""),
		m("no fence", kernels.SoftmaxXent{N: 133, C: 10}, "", "xent", `fence\.acq_rel\.gpu;`, ""),
		m("a count too many", norm, "", "stats", `(atom\.global\.add\.u32 %r\d+, \[%rd\d+\]), %r\d+`, "$1, 2"),
		m("another lane", linear, "", "linear", `(shfl\.sync\.bfly\.b32 %f\d+, %f\d+), %r\d+`, "$1, 0"),
		m("a shorter vector", norm, "", "apply", `(st\.global)\.v4\.b32(\s+\[\S+\], \{%r\d+, %r\d+), %r\d+, %r\d+`, "$1.v2.b32$2"),
		m("a shifted load", norm, "", "apply", `(ld\.global\.v4\.u32.*\[%rd\d+)\]`, "$1+16]"),
		m("a sign", pool, "", "maxpool", `setp\.ge\.s32`, "setp.lt.s32"),
		m("registers of mma's a", forward, tileTuring, "conv", `(mma\S+ \{\S+\}, )\{(%r\d+),(%r\d+)\}`, "$1{$3,$2}"),
		m("halves of mma's depth", forward, tileTuring, "conv", `(mma\S+ \{\S+\}, )\{(%r\d+),%r\d+\}`, "$1{$2,$2}"),
		m("words of a plain copy", forward, tileTuring, "conv", `(st\.shared\.v4\.u32 \[%r\d+\], )\{(%r\d+),(%r\d+)`, "$1{$3,$2"),
		m("no barrier", forward, tileTuring, "conv", `bar\.sync 0;`, ""),
		m("another stride in a descriptor", deep, wgmma, "conv", `4611686293305360384`, "4611686155866406912"), // 512 bytes for 1024
		m("another half of a swizzled line", deep, wgmma, "conv", `(add\.s64 .*), 4;`, "$1, 2;"),
		m("operands exchanged", deep, wgmma, "conv", `(mma_async.*\}), (%rd\d+), (%rd\d+)`, "$1, $3, $2"),
		m("an operand transposed", deep, wgmma, "conv", `1, 1, 1, 0, 0;`, "1, 1, 1, 0, 1;"),
		m("an operand not transposed", weight, wgmma, "conv", `1, 1, 1, 1, 1;`, "1, 1, 1, 0, 1;"),
		m("no accumulation", deep, wgmma, "conv", `1, 1, 1, 0, 0;`, "0, 1, 1, 0, 0;"),
		m("accumulators exchanged", deep, wgmma, "conv", `(mma_async\S+ )\{(%f\d+),(%f\d+),(%f\d+)`, "$1{$2,$4,$3"),
		m("no fence of accumulators", deep, wgmma, "conv", `wgmma\.fence\.sync\.aligned;`, ""),
		m("no fence of shared memory", deep, wgmma, "conv", `fence\.proxy\.async\.shared::cta;`, ""),
		m("no commit", deep, wgmma, "conv", `wgmma\.commit_group\.sync\.aligned;`, ""),
		m("a group too few waited for", deep, wgmma, "conv", `(wgmma\.wait_group\S+) 0;`, "$1 1;"),
		m("a group too few waited for", deep, wgmma, "conv", `(wgmma\.wait_group\S+) 1;`, "$1 2;"),
		m("no barrier", deep, wgmma, "conv", `bar\.sync 0;`, ""),
		m("another part of a depth", deep, wgmma, "conv", `%ctaid\.z`, "%ctaid.y"),
		m("another part of a depth", forward, tile16, "conv", `%ctaid\.z`, "%ctaid.y"),
	}
}

// onlyEntry is a module's text with one of its entries.
func onlyEntry(t *testing.T, text []byte, entry string) string {
	t.Helper()
	const start = ".visible .entry "
	head, _, _ := bytes.Cut(text, []byte(start))
	_, body, ok := bytes.Cut(text, []byte(start+entry+"("))
	if !ok {
		t.Fatalf("no entry %s", entry)
	}
	body, _, _ = bytes.Cut(body, []byte(start))
	return string(head) + start + entry + "(" + string(body)
}

func TestPTXMutations(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	target := Target{SM: 90, Processors: 3}
	made := 0
	for _, m := range ptxMutations() {
		target := target
		if m.config == tileTuring {
			target.SM = 75
		}
		plan, err := NewPlan(m.op, target, m.config)
		if err != nil {
			t.Fatal(err)
		}
		var module, text string
		for _, l := range plan.Launches {
			if strings.Contains(l.Entry, m.entry) {
				b, err := PTX(l.Module, target.SM)
				if err != nil {
					t.Fatal(err)
				}
				module, text = l.Module, onlyEntry(t, b, l.Entry)
			}
		}
		bufs := inputs(m.op, 1)
		want := clone(bufs)
		m.op.Reference(want)
		runPlan := func(plan Plan, text string) error {
			changed, err := ptxvm.Parse(module, []byte(text))
			if err == nil {
				err = changed.Compile()
			}
			if err != nil {
				t.Fatalf("%s: %v", m.name, err)
			}
			got := clone(bufs)
			err = runPTX(t, m.op, plan, func(l Launch) *ptxvm.Module {
				if l.Module == module && strings.Contains(l.Entry, m.entry) {
					return changed
				}
				return ptxModule(t, l.Module, target.SM)
			}, got, identity(len(bufs)), false)
			if err == nil {
				err = differ(m.op, got, want)
			}
			return err
		}
		plans := []Plan{plan}
		if m.op.Name() == "conv_forward" { // its kernels end in one of two ways
			plans = append(plans, splitDepth(t, m.op, target, m.config+"k2"))
		}
		run := func(text string) error {
			for _, plan := range plans {
				if err := runPlan(plan, text); err != nil {
					return err
				}
			}
			return nil
		}
		if err := run(text); err != nil {
			t.Fatalf("%s: as it is: %v", plan.Config, err)
		}
		sites := m.match.FindAllStringIndex(text, -1)
		if len(sites) == 0 {
			t.Errorf("%s: nothing to change in %s", m.name, plan.Launches[0].Entry)
		}
		r.Shuffle(len(sites), func(i, j int) { sites[i], sites[j] = sites[j], sites[i] })
		if testing.Short() && len(sites) > 1 {
			sites = sites[:1]
		}
		for _, at := range sites {
			old := text[at[0]:at[1]]
			made++
			changed := m.match.ReplaceAllString(old, m.with)
			if err := run(text[:at[0]] + changed + text[at[1]:]); err == nil {
				t.Errorf("%s %s: %q instead of %q is not noticed", m.op.Name(), m.name, changed, old)
			}
		}
	}
	t.Logf("%d mutations", made)
}

// Operands of tf32 products are converted: float32 as they are do not pass.
func TestPTXMutationTF32(t *testing.T) {
	t.Parallel()
	op := kernels.ConvForward{Conv: kernels.Conv{N: 1, H: 8, W: 8, C: 16, K: 64, R: 1, S: 1, Stride: 1}, Type: kernels.TF32}
	target := ptxTargets[0]
	plan, err := NewPlan(op, target, "mma64x64x16s4")
	if err != nil {
		t.Fatal(err)
	}
	bufs := inputs(op, 1)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 2 {
		for j := range kernels.Floats(bufs[i]) {
			kernels.Floats(bufs[i])[j] = 1 + r.Float32()
		}
	}
	l := plan.Launches[0]
	b, err := PTX(l.Module, target.SM)
	if err != nil {
		t.Fatal(err)
	}
	text := onlyEntry(t, b, l.Entry)
	for i := -1; i < strings.Count(text, "cvt.rna.tf32.f32"); i++ {
		n := 0
		changed := regexp.MustCompile(`cvt\.rna\.tf32\.f32`).ReplaceAllStringFunc(text, func(s string) string {
			if n++; n == i+1 {
				return "mov.b32"
			}
			return s
		})
		m, err := ptxvm.Parse(l.Module, []byte(changed))
		if err != nil {
			t.Fatal(err)
		}
		err = runPTX(t, op, plan, func(Launch) *ptxvm.Module { return m }, clone(bufs), identity(len(bufs)), false)
		if i < 0 && err != nil {
			t.Fatal(err)
		}
		if i >= 0 && (err == nil || !strings.Contains(err.Error(), "not tf32")) {
			t.Errorf("without conversion %d: error %v", i, err)
		}
	}
}
