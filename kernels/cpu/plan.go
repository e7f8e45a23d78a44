// Package cpu holds the CPU device's kernels: float32 and bfloat16, NHWC activations
// and KRSC weights, on a pool of threads.
//
// A Plan is a list of operations bound to memory. Everything is decided when it
// is prepared, the scratch memory included, so running it allocates nothing.
//
// The arithmetic is C with the processor's vectors (see simd.h). It is compiled for
// several instruction sets, and the best is chosen at run time. Without cgo it is plain
// Go.
package cpu

import (
	"fmt"
	"slices"

	"dev.gpustall/kernels"
)

// Call is one operation on host memory, in the order the operation documents
// (kernels.Op.Args). Buffers must be aligned to 4 bytes; 64 is faster.
type Call struct {
	Op   kernels.Op
	Bufs [][]byte
}

// Plan is a prepared list of calls. It runs on one goroutine at a time.
type Plan struct {
	pool    *Pool
	steps   []func()
	scratch int       // float32s: the most that a step needs
	base    int       // where the scratch of the step that is being bound begins
	mem     []float32 // the scratch memory, which the steps share: they run one after the other
	late    []func()  // called by Bind, for what can only be bound once mem is known
}

// Prepare binds the calls. The plan cannot run before Bind gave it its scratch
// memory.
func (p *Pool) Prepare(calls []Call) (*Plan, error) {
	pl := &Plan{pool: p, steps: make([]func(), len(calls))}
	for i, c := range calls {
		if err := check(c); err != nil {
			return nil, fmt.Errorf("prepare call %d (%s): %w", i, c.Op.Name(), err)
		}
		pl.steps[i] = pl.bind(c)
	}
	return pl, nil
}

// Scratch returns the bytes of scratch memory that the plan needs, with a margin for alignment.
func (pl *Plan) Scratch() int {
	if pl.scratch == 0 {
		return 0
	}
	return pl.scratch*4 + 64
}

// Bind gives the plan its scratch memory, at least Scratch() bytes. Called again, it replaces the
// memory; the plan must not be running then. Plans that never run at the same time may share it.
func (pl *Plan) Bind(scratch []byte) error {
	if len(scratch) < pl.Scratch() {
		return fmt.Errorf("bind scratch memory: %d bytes are too few, the plan needs %d", len(scratch), pl.Scratch())
	}
	if pl.scratch > 0 {
		pl.mem = kernels.Floats(scratch[misaligned(scratch):])[:pl.scratch]
	}
	for _, bind := range pl.late {
		bind()
	}
	return nil
}

// Len returns the number of steps, one for each call.
func (pl *Plan) Len() int { return len(pl.steps) }

// Run runs step i: the i-th call. Steps must run in order, each once a pass.
func (pl *Plan) Run(i int) { pl.steps[i]() }

// need reserves n float32s of scratch for one step.
func (pl *Plan) need(n int) { pl.scratch = max(pl.scratch, n) }

// check returns an error for a call that the kernels cannot run.
func check(c Call) error {
	args := c.Op.Args()
	for _, a := range args {
		if a.Type == kernels.F16 {
			return fmt.Errorf("%s of %v: the cpu kernels compute in fp32 and bf16", a.Name, a.Type)
		}
	}
	return kernels.Check(args, len(c.Bufs), func(i int) int { return len(c.Bufs[i]) })
}

// bind returns the step that runs c.
func (pl *Plan) bind(c Call) func() {
	if slices.ContainsFunc(c.Op.Args(), func(a kernels.Arg) bool { return a.Type == kernels.BF16 }) {
		return bf16{pl}.bind(c)
	}
	f := func(i int) []float32 {
		if i >= len(c.Bufs) {
			return nil
		}
		return kernels.Floats(c.Bufs[i])
	}
	switch op := c.Op.(type) {
	case kernels.ConvForward:
		return convolutions{pl}.forward(op, f(0), f(1), f(2), f(3))
	case kernels.ConvBackwardData:
		return convolutions{pl}.backwardData(op, f(0), f(1), f(2))
	case kernels.ConvBackwardWeight:
		return convolutions{pl}.backwardWeight(op, f(0), f(1), f(2), f(3))
	case kernels.Linear:
		return convolutions{pl}.linear(op, f(0), f(1), f(2), f(3))
	case kernels.LinearBackward:
		return convolutions{pl}.linearBackward(op, f(0), f(1), f(2), f(3), f(4), f(5))
	case kernels.Augment:
		return transforms{pl}.augment(op, c.Bufs[0], kernels.Ints(c.Bufs[1]), f(2))
	case kernels.Resample:
		return transforms{pl}.resample(op, c.Bufs[0], kernels.Ints(c.Bufs[1]), c.Bufs[2])
	case kernels.Shift:
		return transforms{pl}.shift(op, c.Bufs[0], kernels.Ints(c.Bufs[1]), c.Bufs[2])
	case kernels.Blur:
		return transforms{pl}.blur(op, c.Bufs[0], kernels.Ints(c.Bufs[1]), c.Bufs[2])
	case kernels.Colours:
		return transforms{pl}.colours(op, c.Bufs[0], kernels.Ints(c.Bufs[1]), c.Bufs[2])
	case kernels.PadChannels:
		return pl.padChannels(op, f(0), f(1))
	case kernels.Cast:
		x, y := f(0), f(1)
		return pl.spans(op.N, func(lo, hi int) { copy(y[lo:hi], x[lo:hi]) })
	case kernels.Zero:
		x := c.Bufs[0]
		return pl.parallel(ceil(op.N, 4*spanFloats), op.N, func(lo, hi int) { clear(x[lo:hi]) })
	}
	if run := pl.bindNative(c); run != nil {
		return run
	}
	return func() { c.Op.Reference(c.Bufs) }
}
