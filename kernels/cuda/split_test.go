package cuda

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/kernels"
	"dev.gpustall/kernels/verify"
)

// Depths split in parts that are uneven, and in more of them than there are depth
// tiles; with phases of a data gradient that have no taps. The planner would split
// none of these shapes, which are small.
func TestSplitDepth(t *testing.T) {
	e := verify.NewEmulator(t)
	shapes := testConvs
	if testing.Short() {
		shapes = shapes[2:4]
	}
	counts := []int{2, 3, 70, 5}
	for i, g := range shapes {
		for _, typ := range floatTypes {
			odd := i%2 == 1
			for _, op := range []kernels.Op{
				kernels.ConvForward{Conv: g, Type: typ, Bias: odd, ReLU: i%3 == 0},
				kernels.ConvBackwardData{Conv: g, Type: typ, Accumulate: odd},
			} {
				ran := map[string]bool{}
				for _, target := range testTargets {
					for j, l := range splitPlan(op, target).tiles {
						if l.wgmma {
							continue // TestWgmmaSplitDepth
						}
						config := fmt.Sprintf("%sk%d", l, counts[(i+j)%len(counts)])
						plan := splitDepth(t, op, target, config)
						if entry := plan.Launches[0].Entry; !ran[entry] { // the same for all GPUs
							ran[entry] = true
							checkPlan(t, e, op, plan, fmt.Sprintf("%s %+v sm_%d %s", op.Name(), op, target.SM, config))
						}
					}
				}
			}
		}
	}
}

// testPTXSplit is the same for the PTX.
func testPTXSplit(t *testing.T) {
	counts := []int{2, 3, 70}
	for i, g := range few([]kernels.Conv{testConvs[2], testConvs[6], testConvs[7]}, 1) {
		for _, typ := range floatTypes {
			odd := i%2 == 1
			for _, op := range []kernels.Op{
				kernels.ConvForward{Conv: g, Type: typ, Bias: odd, ReLU: odd},
				kernels.ConvBackwardData{Conv: g, Type: typ, Accumulate: odd},
			} {
				bufs := inputs(op, 1)
				want := clone(bufs)
				op.Reference(want)
				for _, target := range ptxTargets[1:] {
					for j, l := range splitPlan(op, target).tiles {
						plan := splitDepth(t, op, target, fmt.Sprintf("%sk%d", l, counts[(i+j)%len(counts)]))
						checkPTXPlan(t, op, plan, target.SM, bufs, want, identity(len(bufs)), j%2 == 1)
					}
				}
			}
		}
	}
}

func splitPlan(op kernels.Op, target Target) convPlan {
	return kernelOf(op, target).(convKernel).convPlan
}

// splitDepth plans op with a config that Configs need not list.
func splitDepth(t *testing.T, op kernels.Op, target Target, config string) Plan {
	t.Helper()
	p := planner{t: target, plan: Plan{Config: config}}
	kernelOf(op, target).plan(&p, config)
	if p.err != nil || len(p.plan.Launches) != 2 || p.plan.Scratch == 0 {
		t.Fatalf("%+v %s: %d launches, %d bytes of scratch memory, error %v", op, config, len(p.plan.Launches), p.plan.Scratch, p.err)
	}
	return p.plan
}

// Many parts of few results: the threads of a block share them.
func TestManyParts(t *testing.T) {
	e := verify.NewEmulator(t)
	target := Target{SM: 80, Processors: 132}
	for _, g := range []kernels.Conv{
		{N: 9, H: 33, W: 31, C: 8, K: 16, R: 1, S: 1, Stride: 1},
		{N: 3, H: 33, W: 31, C: 3, K: 5, R: 1, S: 1, Stride: 1},
	} {
		op := kernels.ConvBackwardWeight{Conv: g, Type: kernels.F32}
		plan, err := NewPlan(op, target, "")
		if err != nil {
			t.Fatal(err)
		}
		sum := plan.Launches[len(plan.Launches)-1]
		if !strings.HasPrefix(sum.Entry, "sum_parts_fp32") || sum.Args[6].Value < 2 {
			t.Fatalf("%+v: the last launch is %s with %d slices; this test wants several", op, sum.Entry, sum.Args[6].Value)
		}
		checkPlan(t, e, op, plan, fmt.Sprintf("%s %+v", op.Name(), op))
	}
}

// The planner splits the depth of a layer with few results, and not that of one that fills the GPU.
// It lists a handful of such variants at the most, in bounded memory, under names that all differ.
func TestSplitVariants(t *testing.T) {
	target := Target{SM: 90, Processors: 132}
	few := kernels.Conv{N: 128, H: 4, W: 4, C: 512, K: 512, R: 3, S: 3, Stride: 1, Pad: 1}
	many := kernels.Conv{N: 1024, H: 32, W: 32, C: 64, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}
	split := regexp.MustCompile(`k\d+$`)
	for _, typ := range floatTypes {
		for _, c := range []struct {
			op    kernels.Op
			wants bool
		}{
			{kernels.ConvForward{Conv: few, Type: typ}, true}, {kernels.ConvBackwardData{Conv: few, Type: typ}, true},
			{kernels.ConvForward{Conv: many, Type: typ}, false}, {kernels.ConvBackwardData{Conv: many, Type: typ}, false},
			{kernels.ConvBackwardWeight{Conv: few, Type: typ}, false},
		} {
			seen, n, wgmma := map[string]bool{}, 0, 0
			for _, config := range Configs(c.op, target) {
				if seen[config] {
					t.Errorf("%s %+v: two variants are called %s", c.op.Name(), c.op, config)
				}
				seen[config] = true
				if !split.MatchString(config) {
					continue
				}
				if strings.HasPrefix(config, "wgmma") {
					wgmma++
				} else {
					n++
				}
				plan, err := NewPlan(c.op, target, config)
				if err != nil || plan.Scratch > maxSplitBytes {
					t.Errorf("%s %+v %s: %d bytes of scratch memory, error %v", c.op.Name(), c.op, config, plan.Scratch, err)
				}
			}
			if n > maxVariants || (n > 0) != c.wants {
				t.Errorf("%s %+v: %d variants with a split depth, want some: %v, at most %d", c.op.Name(), c.op, n, c.wants, maxVariants)
			}
			if wgmma > maxWgmmaVariants || (wgmma > 0) != (c.wants && typ.Size() == 2) {
				t.Errorf("%s %+v: %d wgmma variants with a split depth, at most %d", c.op.Name(), c.op, wgmma, maxWgmmaVariants)
			}
		}
	}
}

// What a tile is said to leave room for is what its registers leave room for:
// 65536 of them in a multiprocessor, given out by 256 to a warp.
func TestTilesResident(t *testing.T) {
	all := resources(t)
	tiles := slices.Concat(tiles16, tilesTuring, tilesTF32, simtTiles32, []tile{wideTile16, simtTile16, simtTile1}, wgmmaTiles, wgmmaWideTiles)
	entry := regexp.MustCompile(`^conv_[a-z_]+_(?:fp32|tf32|fp16|bf16)_(\w+)$`)
	fits := map[string]int{}
	for _, r := range all {
		m := entry.FindStringSubmatch(r.entry)
		if m == nil {
			continue
		}
		for _, l := range tiles {
			if l.String() != m[1] {
				continue
			}
			n := 65536 / (ceil(32*r.registers, 256) * 256 * l.threads / 32)
			if old, ok := fits[m[1]]; !ok || n < old {
				fits[m[1]] = n
			}
		}
	}
	for _, l := range tiles {
		if fits[l.String()] != l.resident {
			t.Errorf("tile %s: a multiprocessor is said to hold %d blocks, its registers hold %d in the worst case", l, l.resident, fits[l.String()])
		}
	}
}
