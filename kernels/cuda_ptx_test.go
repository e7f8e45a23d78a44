package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"dev.gpustall/kernels/ptxvm"
)

// The embedded PTX itself, interpreted, against the references: what clang made of
// the sources, the inline assembly and the launches that the device makes.

var ptxModules sync.Map // of *ptxvm.Module, by name and .target

func ptxModule(t *testing.T, name string, sm int) *ptxvm.Module {
	t.Helper()
	text, err := CUDAModule(name, sm)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := bytes.Cut(text, []byte(".target "))
	target, _, _ := bytes.Cut(after, []byte("\n"))
	key := name + " " + string(target)
	if m, ok := ptxModules.Load(key); ok {
		return m.(*ptxvm.Module)
	}
	m, err := ptxvm.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	ptxModules.Store(key, m)
	return m
}

// device is the interpreter's memory for one operation.
type device struct {
	memory            ptxvm.Memory
	bufs              []uint64
	scratch, counters uint64
}

func newDevice(t *testing.T, op Op, plan CUDAPlan, bufs [][]byte, alias []int) *device {
	t.Helper()
	d := &device{bufs: make([]uint64, len(bufs))}
	write := func(addr uint64, b []byte) {
		if err := d.memory.Write(addr, b); err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range op.Args() {
		if alias[i] != i {
			d.bufs[i] = d.bufs[alias[i]]
			continue
		}
		d.bufs[i] = d.memory.Alloc(a.Name, a.Size(), 16)
		if a.Role != Out {
			write(d.bufs[i], bufs[i])
		}
	}
	d.scratch = d.memory.Alloc("scratch", plan.Scratch, 256)
	d.counters = d.memory.Alloc("counters", CUDACounterBytes, 256)
	write(d.counters, make([]byte, CUDACounterBytes))
	return d
}

// params are the bytes of a launch's parameters.
func (d *device) params(l CUDALaunch) [][]byte {
	var ps [][]byte
	for _, a := range l.Args {
		v, size := a.Value, 8
		switch a.Kind {
		case CUDABuffer:
			v += d.bufs[a.Index]
		case CUDAScratch:
			v += d.scratch
		case CUDACounter:
			v += d.counters
		case CUDANull:
			v = 0
		case CUDAScalar:
			size = 4
		}
		ps = append(ps, binary.LittleEndian.AppendUint64(nil, v)[:size])
	}
	return ps
}

func ints3(v [3]uint32) [3]int { return [3]int{int(v[0]), int(v[1]), int(v[2])} }

// runPTX computes op as the plan says, on the modules that module gives. The
// results replace the contents of bufs.
func runPTX(t *testing.T, op Op, plan CUDAPlan, module func(name string) *ptxvm.Module, bufs [][]byte, alias []int, reverse bool) error {
	t.Helper()
	d := newDevice(t, op, plan, bufs, alias)
	for _, l := range plan.Launches {
		err := module(l.Module).Run(ptxvm.Launch{
			Entry: l.Entry, Grid: ints3(l.Grid), Block: ints3(l.Block), Shared: int(l.Shared), Params: d.params(l), Reverse: reverse,
		}, &d.memory)
		if err != nil {
			return err
		}
	}
	for i, a := range op.Args() {
		if a.Role != In {
			if err := d.memory.Read(d.bufs[i], bufs[i]); err != nil {
				return err
			}
		}
	}
	left := make([]byte, CUDACounterBytes)
	if err := d.memory.Read(d.counters, left); err != nil {
		return err
	}
	if !bytes.Equal(left, make([]byte, CUDACounterBytes)) {
		return fmt.Errorf("%s leaves its counters set", op.Name())
	}
	return nil
}

// checkPTX compares op with its reference for the targets and their configs.
// alias: as in checkCUDA.
func checkPTX(t *testing.T, op Op, targets []CUDATarget, alias ...int) {
	t.Helper()
	bufs := inputs(op, 1)
	want := clone(bufs)
	op.Reference(want)
	shared := identity(len(bufs))
	for i := 0; i < len(alias); i += 2 {
		shared[alias[i]] = alias[i+1]
	}
	for i, target := range targets {
		for j, config := range CUDAConfigs(op, target) {
			plan, err := CUDA(op, target, config)
			if err != nil {
				t.Fatalf("%+v: %v", op, err)
			}
			name := fmt.Sprintf("%s %+v sm_%d %s", op.Name(), op, target.SM, config)
			got := clone(bufs)
			err = runPTX(t, op, plan, func(m string) *ptxvm.Module { return ptxModule(t, m, target.SM) }, got, shared, (i+j)%2 == 1)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			compare(t, name, op, got, want)
		}
	}
}

// One target for each set of PTX files, with few processors, so that loops over
// the grid turn and depths are split.
var ptxTargets = []CUDATarget{{SM: 80, Processors: 3}, {SM: 75, Processors: 7}, {SM: 70, Processors: 132}}

func TestPTXElementwise(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 7, 64, 1003} {
		for _, typ := range floatTypes {
			checkPTX(t, Add{N: n, Type: typ}, ptxTargets)
			checkPTX(t, ReLUBackward{N: n, Type: typ}, ptxTargets, 2, 0)
			checkPTX(t, Cast{N: n, Type: typ}, ptxTargets)
			checkPTX(t, SGD{N: n, Copy: typ}, ptxTargets)
		}
		checkPTX(t, Zero{N: n}, ptxTargets)
		checkPTX(t, ScaleCheck{N: n}, ptxTargets)
	}
	for _, c := range [][2]int{{3, 4}, {3, 8}, {1, 16}, {4, 6}} {
		for _, typ := range floatTypes {
			checkPTX(t, PadChannels{Rows: 101, C: c[0], CPad: c[1], Type: typ}, ptxTargets)
			checkPTX(t, Augment{N: 3, H: 9, W: 7, C: c[0], CPad: c[1], Type: typ,
				Mean: [4]float32{0.49, 0.48, 0.45, 0.5}, Std: [4]float32{0.2, 0.19, 0.21, 0.25}}, ptxTargets)
		}
	}
}

func TestPTXBatchNorm(t *testing.T) {
	t.Parallel()
	for i, s := range [][2]int{{1, 8}, {37, 16}, {300, 72}, {50, 5}, {7, 33}} {
		for _, typ := range floatTypes {
			relu, residual := i%2 == 0, i%3 != 0
			for _, train := range []bool{false, true} {
				checkPTX(t, BatchNormForward{Rows: s[0], C: s[1], Type: typ, Eps: 1e-5, Momentum: 0.1, Train: train, ReLU: relu, Residual: residual}, ptxTargets)
			}
			checkPTX(t, BatchNormBackward{Rows: s[0], C: s[1], Type: typ, ReLU: relu, Residual: residual}, ptxTargets, 6, 0)
		}
	}
}

func TestPTXPooling(t *testing.T) {
	t.Parallel()
	for _, p := range []MaxPool{
		{N: 2, H: 8, W: 6, C: 16, Size: 2, Stride: 2},
		{N: 1, H: 7, W: 9, C: 8, Size: 3, Stride: 2, Pad: 1},
		{N: 3, H: 5, W: 5, C: 3, Size: 3, Stride: 1},
		{N: 1, H: 9, W: 9, C: 5, Size: 2, Stride: 3},
	} {
		for _, typ := range floatTypes {
			p.Type = typ
			a := AvgPool{N: p.N, H: p.H, W: p.W, C: p.C, Type: typ}
			for _, op := range []Op{p, MaxPoolBackward{p}, a, AvgPoolBackward{a}} {
				checkPTX(t, op, ptxTargets)
			}
		}
	}
}

func TestPTXHead(t *testing.T) {
	t.Parallel()
	for _, s := range [][3]int{{1, 1, 1}, {5, 512, 10}, {33, 40, 3}, {7, 67, 100}} {
		for _, typ := range floatTypes {
			l := Linear{N: s[0], In: s[1], Out: s[2], Type: typ}
			checkPTX(t, l, ptxTargets)
			checkPTX(t, LinearBackward{l}, ptxTargets)
		}
		checkPTX(t, SoftmaxXent{N: s[0], C: s[2]}, ptxTargets)
		checkPTX(t, SoftmaxXent{N: s[1], C: s[2]}, ptxTargets)
	}
}

func TestPTXConvolution(t *testing.T) {
	t.Parallel()
	shapes := cudaConvs
	if testing.Short() {
		shapes = shapes[:1]
	}
	for i, g := range shapes {
		for _, typ := range floatTypes {
			odd := i%2 == 1
			checkPTX(t, ConvForward{Conv: g, Type: typ, Bias: odd, ReLU: i%3 == 0}, ptxTargets)
			checkPTX(t, ConvBackwardData{Conv: g, Type: typ, Accumulate: odd}, ptxTargets)
			checkPTX(t, ConvBackwardWeight{Conv: g, Type: typ, Bias: odd}, ptxTargets)
		}
	}
}
