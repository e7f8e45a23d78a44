//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"gorgonia.org/cu"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
	"dev.gpustall/kernels"
	cudakernels "dev.gpustall/kernels/cuda"
)

// errNoRoom means that there is too little memory to try an operation's variants.
var errNoRoom = errors.New("too little memory")

// margin is how many bytes surround what a trial's kernels write, to notice writes outside.
const margin = 256

// poison is what outputs and scratch memory hold before a variant runs: NaNs.
const poison = 0xff

// trial runs variants of an operation on memory of its own. Inputs are fixed random numbers,
// outputs hold NaNs at first. It belongs to a process that does not train (serve.go), so a variant
// can break nothing but that process.
type trial struct {
	d       *Device
	op      kernels.Op
	args    []kernels.Arg
	blocks  []*block
	bufs    []device.Buffer
	scratch *block
	marks   [2]cu.Event
	want    [][]byte  // what the first variant left in each output, margins included
	scale   []float64 // the largest magnitude in each
	got     []byte
}

// errHung is wrapped by the error of a kernel that does not end.
var errHung = errors.New("it does not end")

func (d *Device) newTrial(op kernels.Op) (*trial, error) {
	r := &trial{d: d, op: op, args: op.Args()}
	r.want, r.scale = make([][]byte, len(r.args)), make([]float64, len(r.args))
	need := d.mem.scratchOf(op)
	take := func(n int64) *block {
		b, err := d.mem.alloc(n)
		if err == nil {
			r.blocks = append(r.blocks, b)
		}
		return b
	}
	for _, a := range r.args {
		b := take(int64(a.Size()) + 2*margin)
		if b == nil {
			r.free()
			return nil, errNoRoom
		}
		r.bufs = append(r.bufs, device.Buffer{Addr: b.addr + margin, Size: a.Size()})
	}
	if need > 0 {
		if r.scratch = take(need); r.scratch == nil {
			r.free()
			return nil, errNoRoom
		}
	}
	err := d.ctx.Do(func() (err error) {
		for i := range r.marks {
			if r.marks[i], err = cu.MakeEvent(cu.DefaultEvent); err != nil {
				return err
			}
		}
		return nil
	})
	for i, a := range r.args {
		if err == nil && a.Role == kernels.In {
			err = r.fill(i)
		}
	}
	if err != nil {
		r.free()
		return nil, err
	}
	return r, nil
}

// period is how many random numbers a buffer repeats. It is a prime, so that rows and tiles of any
// width get different numbers.
const period = 1<<20 - 3

// fill writes random numbers, uniform in -1 to 1, into argument i. Integers are zero.
func (r *trial) fill(i int) error {
	a, pattern := r.args[i], r.pattern(i)
	for at := 0; at < a.Size(); at += len(pattern) {
		part := pattern[:min(len(pattern), a.Size()-at)]
		if err := r.d.ctx.CopyIn(r.bufs[i].Addr+uint64(at), part, r.d.setup); err != nil {
			return err
		}
	}
	err := r.sync()
	runtime.KeepAlive(pattern) // the driver may read it until now
	return err
}

// pattern returns the bytes that argument i repeats.
func (r *trial) pattern(i int) []byte {
	a, size := r.args[i], r.args[i].Type.Size()
	pattern := make([]byte, min(a.Len, period)*size)
	if a.Type != kernels.U8 && a.Type != kernels.I32 {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		v := make([]float32, len(pattern)/size)
		for j := range v {
			v[j] = 2*rng.Float32() - 1
		}
		kernels.Store(pattern, a.Type, v)
	}
	return pattern
}

// expect computes the right results with the operation's reference on the host, instead of taking
// the first variant's.
func (r *trial) expect() {
	bufs := make([][]byte, len(r.args))
	for i, a := range r.args {
		bufs[i] = make([]byte, a.Size())
		pattern := r.pattern(i)
		for at := 0; at < len(bufs[i]); at += len(pattern) {
			copy(bufs[i][at:], pattern)
		}
	}
	r.op.Reference(bufs)
	for i, a := range r.args {
		if a.Role != kernels.In {
			r.want[i] = slices.Concat(make([]byte, margin), bufs[i], make([]byte, margin))
			r.scale[i] = magnitude(bufs[i], a.Type)
		}
	}
}

// Try runs variants of op in this process and calls tell with the result of each. It compares them
// with the first variant, or with the reference. A wrong variant may break the device; its result
// says so and is the last. The error is that of tell, that of a variant that broke the device, or
// that there is too little memory.
func (d *Device) Try(op kernels.Op, configs []string, reference bool, tell func(device.Tried) error) error {
	r, err := d.newTrial(op)
	if err != nil {
		return err
	}
	if reference {
		r.expect()
	}
	for i, config := range configs {
		first := i == 0 && !reference
		took, err := r.run(config, first)
		t := device.Tried{Variant: config, Time: took}
		if err != nil {
			t.Why = err.Error()
			t.Broken = errors.Is(err, errHung) || d.drain() != nil
		}
		switch {
		case errors.Is(err, errHung):
			t.Why = "hangs: " + t.Why
		case t.Broken:
			t.Why = "broke the GPU's context: " + t.Why
		}
		if e := tell(t); e != nil || t.Broken {
			return errors.Join(err, e) // giving memory back might wait for ever
		}
		if err != nil && first {
			break // there is nothing to compare the others with
		}
	}
	r.free()
	return nil
}

// Configs returns the variants of op on this GPU, and those that are for experiments alone.
func (d *Device) Configs(op kernels.Op) (configs, experiments []string) {
	return cudakernels.Configs(op, d.code.target), cudakernels.Experiments(op, d.code.target)
}

// Occupancy returns how many blocks of a variant's first kernel a multiprocessor holds at once:
// what the driver says, and what the planner counts on.
func (d *Device) Occupancy(op kernels.Op, config string) (blocks, planned int, err error) {
	plan, err := cudakernels.NewPlan(op, d.code.target, config)
	if err != nil {
		return 0, 0, err
	}
	l := plan.Launches[0]
	f, err := d.code.function(l.Module, l.Entry, int(l.Shared))
	if err != nil {
		return 0, 0, err
	}
	err = d.ctx.Do(func() (err error) {
		blocks, err = f.MaxActiveBlocksPerMultiProcessor(int(l.Block[0]), int64(l.Shared))
		return err
	})
	return blocks, l.Resident, err
}

// sync waits for the trial's stream, at most patience.
func (r *trial) sync() error {
	if err := r.d.ctx.Record(r.marks[1], r.d.setup); err != nil {
		return err
	}
	return r.await()
}

// await waits for the second mark. It polls, because a wait in the driver does not return when a
// kernel hangs.
func (r *trial) await() error {
	deadline := time.Now().Add(r.d.tuner.patience)
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		if done, err := r.d.ctx.Query(r.marks[1]); done || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it has not ended after %v: %w", r.d.tuner.patience, errHung)
		}
		time.Sleep(pause)
	}
}

// reset puts what the kernels write back to its state before they ran.
func (r *trial) reset() error {
	for i, a := range r.args {
		if a.Role == kernels.In {
			continue
		}
		if err := r.set(r.bufs[i].Addr-margin, int64(a.Size())+2*margin); err != nil {
			return err
		}
		if a.Role == kernels.InOut {
			if err := r.fill(i); err != nil {
				return err
			}
		}
	}
	if r.scratch != nil {
		return r.set(r.scratch.addr, r.scratch.size)
	}
	return nil
}

func (r *trial) set(addr uint64, n int64) error {
	return r.d.ctx.Do(func() error { return cu.MemsetD8Async(cu.DevicePtr(addr), poison, n, r.d.setup) })
}

// run checks a variant, times it and returns the time of one launch. The results must be like those
// of the first variant.
func (r *trial) run(config string, first bool) (time.Duration, error) {
	cmds, err := r.commands(config)
	if err != nil {
		return 0, err
	}
	defer cmds.Free()
	if err := r.d.drain(); err != nil { // nothing else runs beside it
		return 0, err
	}
	if err := r.reset(); err != nil {
		return 0, err
	}
	if _, err := r.d.ctx.Run(cmds, r.d.setup); err != nil {
		return 0, fmt.Errorf("it does not launch: %w", err)
	}
	if err := r.sync(); err != nil {
		return 0, fmt.Errorf("it fails: %w", err)
	}
	for i, a := range r.args {
		if a.Role == kernels.In {
			continue
		}
		if err := r.check(i, a, first); err != nil {
			return 0, err
		}
	}
	return r.time(cmds)
}

// check compares output i with the first variant's, and looks for writes outside.
func (r *trial) check(i int, a kernels.Arg, first bool) error {
	n := a.Size() + 2*margin
	if cap(r.got) < n {
		r.got = make([]byte, n)
	}
	got := r.got[:n]
	if err := errors.Join(r.d.ctx.CopyOut(got, r.bufs[i].Addr-margin, r.d.setup), r.sync()); err != nil {
		return err
	}
	for j, v := range got {
		if j == margin {
			break
		}
		if v != poison || got[n-1-j] != poison {
			return fmt.Errorf("it writes outside of %s", a.Name)
		}
	}
	if first {
		r.want[i], r.got = got, nil
		r.scale[i] = magnitude(got[margin:n-margin], a.Type)
		return nil
	}
	if err := compare(got[margin:n-margin], r.want[i][margin:n-margin], a.Type).within(tolerance(r.op, a), r.scale[i]); err != nil {
		return fmt.Errorf("it computes %s as %w", a.Name, err)
	}
	return nil
}

// commands prepares a variant's launches.
func (r *trial) commands(config string) (*driver.Commands, error) {
	plan, err := cudakernels.NewPlan(r.op, r.d.code.target, config)
	if err != nil {
		return nil, err
	}
	if r.d.tamper != nil {
		r.d.tamper(&plan)
	}
	var base uint64
	if r.scratch != nil {
		base = r.scratch.addr
	}
	cmds, err := driver.NewCommands(len(plan.Launches))
	if err != nil {
		return nil, err
	}
	bind := r.d.binder()
	for i := range plan.Launches {
		k, err := bind.resolve(&plan.Launches[i], r.bufs, base)
		if err == nil {
			err = cmds.Launch(&k)
		}
		if err != nil {
			cmds.Free()
			return nil, err
		}
	}
	return cmds, nil
}

// tuneRounds is how many rounds of a variant are timed. The fastest counts.
const tuneRounds = 4

// time returns the device time of one launch, after one that has loaded the code.
func (r *trial) time(cmds *driver.Commands) (least time.Duration, err error) {
	ctx, s := r.d.ctx, r.d.setup
	run := func(n int) (time.Duration, error) {
		if err := ctx.Record(r.marks[0], s); err != nil {
			return 0, err
		}
		for range n {
			if _, err := ctx.Run(cmds, s); err != nil {
				return 0, err
			}
		}
		if err := errors.Join(ctx.Record(r.marks[1], s), r.await()); err != nil {
			return 0, err
		}
		t, err := ctx.Elapsed(r.marks[0], r.marks[1])
		return t / time.Duration(n), err
	}
	if least, err = run(1); err != nil {
		return 0, err
	}
	n, rounds := 1, tuneRounds
	switch {
	case least < 200*time.Microsecond: // several, so that the launch itself does not count
		n = 8
	case least > 100*time.Millisecond: // noise is small beside it
		rounds = 1
	}
	for range rounds {
		t, err := run(n)
		if err != nil {
			return 0, err
		}
		least = min(least, t)
	}
	return least, nil
}

// free gives everything back, to the driver too. It waits for the device.
func (r *trial) free() {
	_ = r.d.drain() // a device that failed says so at its next call
	for _, b := range r.blocks {
		r.d.mem.free(b)
	}
	r.blocks = nil
	r.d.mem.trim() // the next operation's sizes are others
	_ = r.d.ctx.Do(func() error {
		for i := range r.marks {
			_ = cu.DestroyEvent(&r.marks[i]) // at the latest the context destroys it
		}
		return nil
	})
}
