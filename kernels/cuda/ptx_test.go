package cuda

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"dev.gpustall/kernels"
	"dev.gpustall/kernels/verify/ptxvm"
)

// The embedded PTX itself, interpreted, against the references: what clang made of
// the sources, the inline assembly and the launches that the device makes.

var ptxModules sync.Map // of *ptxvm.Module, by name and .target

func ptxModule(t *testing.T, name string, sm int) *ptxvm.Module {
	t.Helper()
	text, err := PTX(name, sm)
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

// addresses is where an operation's buffers lie, and its plan's memory.
type addresses struct {
	bufs              []uint64
	scratch, counters uint64
}

// device is the interpreter's memory for one operation.
type device struct {
	memory ptxvm.Memory
	addresses
}

func newDevice(t *testing.T, op kernels.Op, plan Plan, bufs [][]byte, alias []int) *device {
	t.Helper()
	d := &device{addresses: addresses{bufs: make([]uint64, len(bufs))}}
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
		if a.Role != kernels.Out {
			write(d.bufs[i], bufs[i])
		}
	}
	d.scratch = d.memory.Alloc("scratch", plan.Scratch, 256)
	d.counters = d.memory.Alloc("counters", CounterBytes, 256)
	write(d.counters, make([]byte, CounterBytes))
	return d
}

// launch is l with the bytes of its parameters.
func (at addresses) launch(l Launch, reverse bool) ptxvm.Launch {
	run := ptxvm.Launch{Entry: l.Entry, Grid: ints3(l.Grid), Block: ints3(l.Block), Shared: int(l.Shared), Reverse: reverse}
	for _, a := range l.Args {
		v, size := a.Value, 8
		switch a.Kind {
		case Buffer:
			v += at.bufs[a.Index]
		case Scratch:
			v += at.scratch
		case Counter:
			v += at.counters
		case Null:
			v = 0
		case Scalar:
			size = 4
		}
		run.Params = append(run.Params, binary.LittleEndian.AppendUint64(nil, v)[:size])
	}
	return run
}

func ints3(v [3]uint32) [3]int { return [3]int{int(v[0]), int(v[1]), int(v[2])} }

// runPTX computes op as the plan says, on the modules that module gives. The
// results replace the contents of bufs.
func runPTX(t *testing.T, op kernels.Op, plan Plan, module func(Launch) *ptxvm.Module, bufs [][]byte, alias []int, reverse bool) error {
	t.Helper()
	d := newDevice(t, op, plan, bufs, alias)
	for _, l := range plan.Launches {
		err := module(l).Run(d.launch(l, reverse), &d.memory)
		if err != nil {
			return err
		}
	}
	for i, a := range op.Args() {
		if a.Role != kernels.In {
			if err := d.memory.Read(d.bufs[i], bufs[i]); err != nil {
				return err
			}
		}
	}
	left := make([]byte, CounterBytes)
	if err := d.memory.Read(d.counters, left); err != nil {
		return err
	}
	if !bytes.Equal(left, make([]byte, CounterBytes)) {
		return fmt.Errorf("%s leaves its counters set", op.Name())
	}
	return nil
}

// checkPTX compares op with its reference for the targets and their configs, in
// both orders of blocks. alias: as in checkEmulated.
func checkPTX(t *testing.T, op kernels.Op, alias ...int) {
	t.Helper()
	bufs := inputs(op, 1)
	want := clone(bufs)
	op.Reference(want)
	shared := aliased(len(bufs), alias)
	seen := map[string]bool{}
	for i, target := range ptxTargets {
		for j, config := range Configs(op, target) {
			plan, err := NewPlan(op, target, config)
			if err != nil {
				t.Fatalf("%+v: %v", op, err)
			}
			first := plan.Launches[0]
			key := ptxModule(t, first.Module, target.SM).Target + first.Entry
			if seen[key] && len(plan.Launches) == 1 {
				continue // the same text, ran already
			}
			seen[key] = true
			checkPTXPlan(t, op, plan, target.SM, bufs, want, shared, (i+j)%2 == 1)
		}
	}
}

func checkPTXPlan(t *testing.T, op kernels.Op, plan Plan, sm int, bufs, want [][]byte, shared []int, reverse bool) {
	t.Helper()
	name := fmt.Sprintf("%s %+v sm_%d %s", op.Name(), op, sm, plan.Config)
	got := clone(bufs)
	err := runPTX(t, op, plan, func(l Launch) *ptxvm.Module { return ptxModule(t, l.Module, sm) }, got, shared, reverse)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	compare(t, name, op, got, want)
}

// ptxTargets has one target for each set of PTX files. Targets that share most files
// differ in their processors: with few the loops over the grid turn, and with many the
// sums are split.
var ptxTargets = []Target{{SM: 90, Processors: 1}, {SM: 80, Processors: 132}, {SM: 75, Processors: 1}, {SM: 70, Processors: 132}}
