package cuda

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/kernels"
)

var update = flag.Bool("update", false, "write what is generated: the packed PTX, the tables of docs/dev")

// docs/dev/kernels.md holds, between markers, tables that follow from the operations
// and from ptx/resources.tsv.
func TestKernelDocs(t *testing.T) {
	const path = "../../docs/dev/kernels.md"
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(old)
	for name, table := range map[string]string{
		"registers": registerTable(t), "roofline": rooflineTable(), "totals": totalsTable(), "configs": configTable(t),
	} {
		begin, end := "<!-- "+name+" begin -->\n", "<!-- "+name+" end -->"
		before, rest, ok := strings.Cut(doc, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no markers for %s", path, name)
		}
		doc = before + begin + table + end + after
	}
	if doc == string(old) {
		return
	}
	if !*update {
		t.Fatalf("%s is old: run go test ./kernels/cuda -run Docs -update", path)
	}
	if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
		t.Fatal(err)
	}
}

// registerTable has a row for each kernel and a column for each GPU.
func registerTable(t *testing.T) string {
	f, err := os.Open("ptx/resources.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	arches := []string{"70", "75", "80", "86", "89", "90", "90a", "100", "120"}
	regs, shared := map[string]map[string]string{}, map[string]string{}
	var names []string
	var b strings.Builder
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "# ptxas") {
			fmt.Fprintf(&b, "%s; registers a thread, by compute capability.\n\n", strings.TrimPrefix(lines.Text(), "# "))
		}
		v := strings.Split(lines.Text(), "\t")
		if strings.HasPrefix(v[0], "#") {
			continue
		}
		if v[5] != "0" {
			t.Errorf("%s spills %s bytes on sm_%s", v[1], v[5], v[2])
		}
		if regs[v[1]] == nil {
			regs[v[1]] = map[string]string{}
			names = append(names, v[1])
		}
		regs[v[1]][v[2]], shared[v[1]] = v[3], v[4]
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	fmt.Fprintf(&b, "| kernel | static shared, bytes | sm_%s |\n|---|--:|%s\n", strings.Join(arches, " | sm_"), strings.Repeat("--:|", len(arches)))
	for _, n := range names {
		fmt.Fprintf(&b, "| %s | %s |", n, shared[n])
		for _, a := range arches {
			fmt.Fprintf(&b, " %s |", regs[n][a])
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
