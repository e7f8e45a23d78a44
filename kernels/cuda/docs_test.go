package cuda

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"dev.gpustall/kernels"
)

var update = flag.Bool("update", false, "write what is generated: the packed PTX, the table of docs/dev")

// kernelsPage has a table that this package generates, between markers.
const kernelsPage = "../../docs/dev/kernels.md"

// TestKernelDocs holds that table against the operations. With -update it writes it.
func TestKernelDocs(t *testing.T) {
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

// resources reads ptx/resources.tsv.
func resources(t *testing.T) (all []resource) {
	t.Helper()
	text, err := os.ReadFile("ptx/resources.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "# ") {
			continue
		}
		var r resource
		if _, err := fmt.Sscan(line, &r.module, &r.entry, &r.sm, &r.registers, &r.shared, &r.spilled); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

func TestNoSpills(t *testing.T) {
	for _, r := range resources(t) {
		if r.spilled != 0 {
			t.Errorf("%s spills %d bytes on sm_%s", r.entry, r.spilled, r.sm)
		}
	}
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
