package cuda

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/kernels"
)

var update = flag.Bool("update", false, "write what is generated: the packed PTX, the tables of docs/dev")

// The pages that this package generates: one whole, and a table of the other between markers.
const (
	tablesPage  = "../../docs/dev/kernels-tables.md"
	kernelsPage = "../../docs/dev/kernels.md"
)

// TestKernelDocs holds the generated tables of docs/dev against the operations and
// ptx/resources.tsv. With -update it writes them.
func TestKernelDocs(t *testing.T) {
	generated(t, tablesPage, "# The CUDA kernels in numbers\n\n"+
		"Generated: `go test ./kernels/cuda -run Docs -update`. [kernels.md](kernels.md) says what these tables mean. Nothing here was measured.\n\n"+
		"## Registers\n\n"+registerTable(t)+
		"\n## Least times of a ResNet-18 step\n\n"+rooflineTable()+
		"\n## What the planner takes on an H100\n\n"+configTable(t))
	page, err := os.ReadFile(kernelsPage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- totals begin -->\n", "<!-- totals end -->"
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no markers for the totals", kernelsPage)
	}
	generated(t, kernelsPage, before+begin+totalsTable()+end+after)
}

// generated fails where a file is not want. With -update it writes the file.
func generated(t *testing.T, path, want string) {
	t.Helper()
	have, err := os.ReadFile(path)
	switch {
	case err == nil && string(have) == want:
	case !*update:
		t.Errorf("%s is old (%v): run go test ./kernels/cuda -run Docs -update", path, err)
	default:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// resource is a line of ptx/resources.tsv: what a kernel takes on a GPU.
type resource struct {
	module, entry, sm          string
	registers, shared, spilled int
}

// resources reads ptx/resources.tsv, and the name of the assembler that it is of.
func resources(t *testing.T) (all []resource, assembler string) {
	t.Helper()
	text, err := os.ReadFile("ptx/resources.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# "); ok {
			assembler = cmp.Or(assembler, rest)
			continue
		}
		var r resource
		if _, err := fmt.Sscan(line, &r.module, &r.entry, &r.sm, &r.registers, &r.shared, &r.spilled); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, r)
	}
	return all, assembler
}

func TestNoSpills(t *testing.T) {
	all, _ := resources(t)
	for _, r := range all {
		if r.spilled != 0 {
			t.Errorf("%s spills %d bytes on sm_%s", r.entry, r.spilled, r.sm)
		}
	}
}

// registerTable has a row for each module and a column for each GPU: the most registers that
// one of the module's kernels takes.
func registerTable(t *testing.T) string {
	arches := []string{"70", "75", "80", "86", "89", "90", "90a", "100", "120"}
	type row struct {
		kernels map[string]bool
		most    map[string]int
		shared  int
	}
	rows := map[string]*row{}
	all, assembler := resources(t)
	for _, r := range all {
		if rows[r.module] == nil {
			rows[r.module] = &row{map[string]bool{}, map[string]int{}, 0}
		}
		m := rows[r.module]
		m.kernels[r.entry] = true
		m.most[r.sm] = max(m.most[r.sm], r.registers)
		m.shared = max(m.shared, r.shared)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The most of any kernel of a module, by %s.\n\n", assembler)
	fmt.Fprintf(&b, "| module | kernels | static shared, bytes | sm_%s |\n|---|--:|--:|%s\n", strings.Join(arches, " | sm_"), strings.Repeat("--:|", len(arches)))
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		m := rows[name]
		fmt.Fprintf(&b, "| %s | %d | %d |", name, len(m.kernels), m.shared)
		for _, a := range arches {
			if m.most[a] == 0 {
				b.WriteString(" |")
			} else {
				fmt.Fprintf(&b, " %d |", m.most[a])
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// layer is an operation of ResNet-18 in its form for CIFAR, for one batch.
type layer struct {
	name  string
	count int // of these in the network
	op    kernels.Op
}

// resnet18 lists a training step in bfloat16.
func resnet18(n int) []layer {
	const typ = kernels.BF16
	var ls []layer
	conv := func(name string, count, hw, c, k, rs, stride int) {
		g := kernels.Conv{N: n, H: hw, W: hw, C: c, K: k, R: rs, S: rs, Stride: stride, Pad: rs / 2}
		ls = append(ls, layer{name, count, kernels.ConvForward{Conv: g, Type: typ}})
		if name != "stem" {
			ls = append(ls, layer{name, count, kernels.ConvBackwardData{Conv: g, Type: typ}})
		}
		ls = append(ls, layer{name, count, kernels.ConvBackwardWeight{Conv: g, Type: typ}})
	}
	norm := func(name string, count, hw, c int, relu, residual bool) {
		f := kernels.BatchNormForward{Rows: n * hw * hw, C: c, Type: typ, Train: true, ReLU: relu, Residual: residual}
		ls = append(ls, layer{name, count, f}, layer{name, count, kernels.BatchNormBackward{Rows: f.Rows, C: c, Type: typ, ReLU: relu, Residual: residual}})
	}
	conv("stem", 1, 32, 8, 64, 3, 1)
	conv("layer1", 4, 32, 64, 64, 3, 1)
	norm("stem, layer1 bn1", 3, 32, 64, true, false)
	norm("layer1 bn2", 2, 32, 64, true, true)
	for i, hw := range []int{16, 8, 4} {
		name, k := fmt.Sprintf("layer%d", i+2), 128<<i
		conv(name+".0.conv1", 1, 2*hw, k/2, k, 3, 2)
		conv(name+".0.downsample", 1, 2*hw, k/2, k, 1, 2)
		conv(name, 3, hw, k, k, 3, 1)
		norm(name+" bn1", 2, hw, k, true, false)
		norm(name+" downsample bn", 1, hw, k, false, false)
		norm(name+" bn2", 2, hw, k, true, true)
	}
	pool := kernels.AvgPool{N: n, H: 4, W: 4, C: 512, Type: typ}
	fc := kernels.Linear{N: n, In: 512, Out: 10, Type: typ}
	weights := 0
	for _, l := range ls {
		if w, ok := l.op.(kernels.ConvBackwardWeight); ok {
			weights += l.count * w.WeightLen()
		}
		if b, ok := l.op.(kernels.BatchNormBackward); ok {
			weights += l.count * 2 * b.C
		}
	}
	return append(ls, layer{"avgpool", 1, pool}, layer{"avgpool", 1, kernels.AvgPoolBackward{AvgPool: pool}}, layer{"fc", 1, fc}, layer{"fc", 1, kernels.LinearBackward{Linear: fc}},
		layer{"loss", 1, kernels.SoftmaxXent{N: n, C: 10}}, layer{"all", 1, kernels.Optimizer{N: weights + 512*10 + 10, Copy: typ}})
}

// parameters is the number of ResNet-18's.
func parameters(ls []layer) int {
	for _, l := range ls {
		if s, ok := l.op.(kernels.Optimizer); ok {
			return s.N
		}
	}
	return 0
}

// besides lists what a step has under some knobs, or in the form for ImageNet, and
// not in resnet18's.
func besides(n int) []layer {
	all := parameters(resnet18(n))
	pool := kernels.MaxPool{N: n, H: 112, W: 112, C: 64, Size: 3, Stride: 2, Pad: 1, Type: kernels.BF16}
	return []layer{
		{"input, device_transforms=on", 1, kernels.Augment{N: n, H: 32, W: 32, C: 3, CPad: 8, Type: kernels.BF16}},
		{"input, device_transforms=off", 1, kernels.PadChannels{Rows: n * 32 * 32, C: 3, CPad: 8, Type: kernels.BF16}},
		{"all, precision=fp16", 1, kernels.ScaleCheck{N: all}},
		{"all, gradient_accumulation", 1, kernels.Add{N: all, Type: kernels.F32}},
		{"all, gradient_accumulation", 1, kernels.Zero{N: 4 * all}},
		{"all, a change to bf16", 1, kernels.Cast{N: all, Type: kernels.BF16}},
		{"a ReLU of its own, layer1's size", 1, kernels.ReLUBackward{N: n * 32 * 32 * 64, Type: kernels.BF16}},
		{"stem's pooling, ImageNet form", 1, pool},
		{"stem's pooling, ImageNet form", 1, kernels.MaxPoolBackward{MaxPool: pool}},
	}
}

// The rates of the arithmetic: an H100's memory as it is seen to be reached, and
// bfloat16 on its tensor cores likewise.
const (
	bytesPerMicrosecond = 3.0e12 / 1e6
	flopsPerMicrosecond = 798e12 / 1e6
)

func limit(l layer) (us float64, bound string) {
	if m, c := l.op.Bytes()/bytesPerMicrosecond, l.op.FLOPs()/flopsPerMicrosecond; m >= c {
		return m, "memory"
	} else {
		return c, "compute"
	}
}

func rooflineTable() string {
	var b strings.Builder
	b.WriteString("| layer | times | operation | GFLOP, 128 | MB, 128 | us, 128 | bound | GFLOP, 1024 | MB, 1024 | us, 1024 | bound |\n|---|--:|---|--:|--:|--:|---|--:|--:|--:|---|\n")
	small, large := append(resnet18(128), besides(128)...), append(resnet18(1024), besides(1024)...)
	for i := range small {
		fmt.Fprintf(&b, "| %s | %d | %s |", small[i].name, small[i].count, small[i].op.Name())
		for _, l := range []layer{small[i], large[i]} {
			us, bound := limit(l)
			fmt.Fprintf(&b, " %.3g | %.3g | %.1f | %s |", l.op.FLOPs()/1e9, l.op.Bytes()/1e6, us, bound)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// totalsTable sums a step by kind of operation.
func totalsTable() string {
	var b strings.Builder
	b.WriteString("| operation | us, batch 128 | us, batch 1024 |\n|---|--:|--:|\n")
	var order []string
	sums := map[string][2]float64{}
	for i, n := range []int{128, 1024} {
		for _, l := range resnet18(n) {
			us, _ := limit(l)
			for _, key := range []string{l.op.Name(), "a step"} {
				v, seen := sums[key]
				if !seen && key != "a step" {
					order = append(order, key)
				}
				v[i] += us * float64(l.count)
				sums[key] = v
			}
		}
	}
	for _, key := range append(order, "a step") {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f |\n", key, sums[key][0], sums[key][1])
	}
	return b.String()
}

// configTable shows what the planner takes for each convolution on an H100.
func configTable(t *testing.T) string {
	target := Target{SM: 90, Processors: 132}
	var b strings.Builder
	b.WriteString("| layer | operation | first config, 128 | blocks | first config, 1024 | blocks |\n|---|---|---|--:|---|--:|\n")
	small, large := resnet18(128), resnet18(1024)
	for i := range small {
		if !strings.HasPrefix(small[i].op.Name(), "conv_") {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s |", small[i].name, small[i].op.Name())
		for _, l := range []layer{small[i], large[i]} {
			plan, err := NewPlan(l.op, target, "")
			if err != nil {
				t.Fatal(err)
			}
			g := plan.Launches[0].Grid
			fmt.Fprintf(&b, " %s | %d |", plan.Config, g[0]*g[1]*g[2])
		}
		b.WriteString("\n")
	}
	return b.String()
}
