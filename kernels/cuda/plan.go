// Package cuda holds the kernels of NVIDIA GPUs: their sources (*.cu, *.h), the PTX
// that clang made of them, and for each operation the launches that compute it.
package cuda

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"dev.gpustall/kernels"
)

// Target is what a launch's geometry depends on besides the operation.
type Target struct {
	SM         int // compute capability, 10*major + minor: 80, 90
	Processors int // multiprocessors: 132 on an H100 SXM
	Shared     int // bytes of shared memory that one block may opt in to; 0: the least for SM
}

// TensorCores says whether matrix products of a type run on tensor cores. They
// need channels in multiples of 16 bytes as well. Everything else runs on CUDA
// cores, in float32 arithmetic. Volta's tensor cores are not used.
func (t Target) TensorCores(typ kernels.Type) bool {
	return t.SM >= 80 && typ != kernels.F32 || t.SM >= 75 && typ == kernels.F16
}

// sharedLimit returns the shared memory a block may opt in to (CUDA C++ Programming
// Guide, "Technical Specifications per Compute Capability").
func (t Target) sharedLimit() int {
	switch {
	case t.Shared > 0:
		return t.Shared
	case t.SM == 90 || t.SM == 100 || t.SM == 103:
		return 227 << 10
	case t.SM == 80 || t.SM == 87:
		return 163 << 10
	case t.SM >= 80:
		return 99 << 10
	case t.SM >= 75:
		return 64 << 10
	}
	return 96 << 10
}

// Plan is how an operation runs on a GPU: its launches, in order, on one
// stream.
type Plan struct {
	// Config is the name of the chosen variant: one of Configs.
	Config   string
	Launches []Launch
	// Scratch is how many bytes of device memory, aligned to 256, the launches need to
	// pass results from one to the next. Nothing in it outlives the plan's run and it
	// need not be cleared, so all plans of one stream can share the memory.
	Scratch int
}

// Launch is one kernel launch. When Shared is over 48 KiB the function
// needs CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES raised to it first.
type Launch struct {
	Module      string // for PTX
	Entry       string // function in the module
	Grid, Block [3]uint32
	Shared      uint32 // bytes of dynamic shared memory
	Resident    int    // blocks that a multiprocessor holds at once, as the planner counts on; 0: unknown
	Args        []Arg
}

// Arg is one kernel parameter, in the order of the kernel's signature.
type Arg struct {
	Kind  ArgKind
	Index uint8  // of the operation's buffers, for Buffer
	Value uint64 // offset in bytes of an address; the bits of a scalar
}

// ArgKind says what a kernel parameter is.
type ArgKind uint8

const (
	Buffer  ArgKind = iota // 8 bytes: address of the operation's buffer Index, plus Value
	Scratch                // 8 bytes: address of the plan's scratch memory, plus Value
	Counter                // 8 bytes: address of the counters, plus Value
	Null                   // 8 bytes: no memory: a null pointer
	Scalar                 // 4 bytes: Value
)

// CounterBytes is the size of the counters: device memory that is cleared
// once and that every launch leaves cleared. Launches that may overlap (on
// different streams) must not share it.
const CounterBytes = 16 << 10

// MaxArgs bounds the parameters of a kernel.
const MaxArgs = 24

// NewPlan returns the launches of op. The config is one of Configs or Experiments, or
// empty for the first of them. Buffers of activations, weights and their gradients
// must be aligned to 16 bytes. NewPlan fails for an operation without a kernel, for
// a config that the operation does not have and for buffers of 2^31 elements or more.
func NewPlan(op kernels.Op, t Target, config string) (Plan, error) {
	k := kernelOf(op, t)
	if k == nil {
		return Plan{}, fmt.Errorf("cuda kernels: no kernel for operation %s (%T): use the cpu device", op.Name(), op)
	}
	configs := k.configs()
	if config == "" {
		config = configs[0]
	}
	if !slices.Contains(configs, config) && !slices.Contains(Experiments(op, t), config) {
		return Plan{}, fmt.Errorf("cuda kernels: operation %s has no config %q on sm_%d: choose one of %s",
			op.Name(), config, t.SM, strings.Join(configs, ", "))
	}
	for _, a := range op.Args() {
		if a.Len >= 1<<31 {
			return Plan{}, fmt.Errorf("cuda kernels: buffer %q of %s has %d elements, over the 2^31 that the kernels index: lower batch_size", a.Name, op.Name(), a.Len)
		}
	}
	p := planner{t: t, plan: Plan{Config: config}}
	k.plan(&p, config)
	if p.err != nil {
		return Plan{}, fmt.Errorf("cuda kernels: plan %s: %w", op.Name(), p.err)
	}
	return p.plan, nil
}

// Configs names the variants that compute op on t, the likeliest to be the
// fastest first: what an autotuner may choose from. Names are stable. There are
// none when there is no kernel for the operation.
func Configs(op kernels.Op, t Target) []string {
	if k := kernelOf(op, t); k != nil {
		return k.configs()
	}
	return nil
}

// Experiments names variants of op that must never train. They leave out something that a manual asks
// for, to measure what it costs.
func Experiments(op kernels.Op, t Target) []string {
	if k, ok := kernelOf(op, t).(interface{ unlisted() []string }); ok {
		return k.unlisted()
	}
	return nil
}

// kernel computes one operation, of given shape, on one kind of GPU.
type kernel interface {
	configs() []string              // at least one
	plan(p *planner, config string) // appends the launches of a variant
}

// kernelOf returns the table of the operations that GPUs compute. It returns nil for any other.
func kernelOf(op kernels.Op, t Target) kernel {
	switch op := op.(type) {
	case kernels.ConvForward:
		return newConvForward(op, t)
	case kernels.ConvBackwardData:
		return newConvBackwardData(op, t)
	case kernels.ConvBackwardWeight:
		return newConvBackwardWeight(op, t)
	case kernels.BatchNormForward:
		return only(op, (*planner).batchNormForward)
	case kernels.BatchNormBackward:
		return only(op, (*planner).batchNormBackward)
	case kernels.MaxPool:
		return only(op, (*planner).maxPool)
	case kernels.MaxPoolBackward:
		return only(op, (*planner).maxPoolBackward)
	case kernels.AvgPool:
		return only(op, (*planner).avgPool)
	case kernels.AvgPoolBackward:
		return only(op, (*planner).avgPoolBackward)
	case kernels.Linear:
		return only(op, (*planner).linear)
	case kernels.LinearBackward:
		return only(op, (*planner).linearBackward)
	case kernels.SoftmaxXent:
		return only(op, (*planner).softmaxXent)
	case kernels.Augment:
		return only(op, (*planner).augment)
	case kernels.Resample:
		return only(op, (*planner).resample)
	case kernels.Shift:
		return only(op, (*planner).shift)
	case kernels.Blur:
		return only(op, (*planner).blur)
	case kernels.Colours:
		return only(op, (*planner).colours)
	case kernels.PadChannels:
		return only(op, (*planner).padChannels)
	case kernels.Cast:
		return only(op, (*planner).cast)
	case kernels.Zero:
		return only(op, (*planner).zero)
	case kernels.Add:
		return only(op, (*planner).add)
	case kernels.ReLUBackward:
		return only(op, (*planner).reluBackward)
	case kernels.StackFrames:
		return only(op, (*planner).stackForward)
	case kernels.StackFramesBackward:
		return only(op, (*planner).stackBackward)
	case kernels.Dropout:
		return only(op, (*planner).dropout)
	case kernels.NextNoise:
		return only(op, (*planner).nextNoise)
	case kernels.Optimizer:
		return only(op, (*planner).optimizer)
	case kernels.ScaleCheck:
		return only(op, (*planner).scaleCheck)
	}
	return nil
}

// onlyKernel is the kernel of an operation that has one variant.
type onlyKernel func(*planner)

func only[T kernels.Op](op T, build func(*planner, T)) kernel {
	return onlyKernel(func(p *planner) { build(p, op) })
}

func (k onlyKernel) configs() []string         { return []string{"default"} }
func (k onlyKernel) plan(p *planner, _ string) { k(p) }

// planner collects an operation's launches.
type planner struct {
	t    Target
	plan Plan
	err  error
}

func (p *planner) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// scratch reserves n bytes and returns their offset.
func (p *planner) scratch(n int) uint64 {
	off := (p.plan.Scratch + 255) &^ 255
	p.plan.Scratch = off + n
	return uint64(off)
}

// launch appends a launch of one-dimensional blocks.
func (p *planner) launch(module, entry string, grid [3]int, threads int, args ...Arg) *Launch {
	p.plan.Launches = append(p.plan.Launches, Launch{
		Module: module, Entry: entry,
		Grid:  [3]uint32{uint32(grid[0]), uint32(grid[1]), uint32(grid[2])},
		Block: [3]uint32{uint32(threads), 1, 1},
		Args:  args,
	})
	return &p.plan.Launches[len(p.plan.Launches)-1]
}

// The arguments of launches.

func buffer(i int) Arg         { return Arg{Kind: Buffer, Index: uint8(i)} }
func scratchAt(off uint64) Arg { return Arg{Kind: Scratch, Value: off} }
func counterAt(off int) Arg    { return Arg{Kind: Counter, Value: uint64(off)} }
func scalar(v int) Arg         { return Arg{Kind: Scalar, Value: uint64(uint32(int32(v)))} }
func float(v float32) Arg      { return Arg{Kind: Scalar, Value: uint64(math.Float32bits(v))} }
func boolean(b bool) Arg {
	if b {
		return scalar(1)
	}
	return scalar(0)
}
func optional(have bool, i int) Arg {
	if !have {
		return Arg{Kind: Null}
	}
	return buffer(i)
}

// scalars appends integers to args.
func scalars(args []Arg, vs ...int) []Arg {
	for _, v := range vs {
		args = append(args, scalar(v))
	}
	return args
}

func ceil(a, b int) int { return (a + b - 1) / b }

// stored returns the type of t's elements in memory, as it is written in kernel names.
func stored(t kernels.Type) string {
	if t == kernels.TF32 {
		return kernels.F32.String()
	}
	return t.String()
}
