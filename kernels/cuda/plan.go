// Package cuda holds the kernels of NVIDIA GPUs: their sources (*.cu, *.h), the PTX
// that clang made of them, and for each operation the launches that compute it.
package cuda

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/kernels"
)

// Target is what a launch's geometry depends on besides the operation.
type Target struct {
	SM         int // compute capability, 10*major + minor: 80, 90
	Processors int // multiprocessors: 132 on an H100 SXM
	Shared     int // bytes of shared memory that one block may opt in to; 0: what SM guarantees
}

// TensorCores says whether matrix products of a type run on tensor cores, given
// channels in multiples of 16 bytes. On others they run on CUDA cores, in float32
// arithmetic. Volta's tensor cores are not used.
func (t Target) TensorCores(typ kernels.Type) bool {
	return t.SM >= 80 && typ != kernels.F32 || t.SM >= 75 && typ == kernels.F16
}

// Plan is how an operation runs on a GPU: its launches, in order, on one
// stream.
type Plan struct {
	// Config is the name of the variant that was taken: one of Configs.
	Config   string
	Launches []Launch
	// Scratch is the bytes of device memory, aligned to 256, that the launches use
	// between them. Its contents need not be kept or cleared, so that the plans
	// of one stream can share the memory.
	Scratch int
}

// Launch is one kernel launch. When Shared is over 48 KiB the function
// needs CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES raised to it first.
type Launch struct {
	Module      string // for PTX
	Entry       string // function in the module
	Grid, Block [3]uint32
	Shared      uint32 // bytes of dynamic shared memory
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

// NewPlan returns the launches of op. The config is one of Configs, or empty
// for the first of them. Buffers of activations, weights and their gradients
// must be aligned to 16 bytes. It fails for an operation it does not know, a
// config the operation does not have and shapes past 2^31 elements.
func NewPlan(op kernels.Op, t Target, config string) (Plan, error) {
	configs := Configs(op, t)
	if len(configs) == 0 {
		return Plan{}, fmt.Errorf("cuda kernels: no kernel for operation %s (%T): use the cpu device", op.Name(), op)
	}
	if config == "" {
		config = configs[0]
	}
	if !slices.Contains(configs, config) {
		return Plan{}, fmt.Errorf("cuda kernels: operation %s has no config %q on sm_%d: choose one of %s",
			op.Name(), config, t.SM, strings.Join(configs, ", "))
	}
	for _, a := range op.Args() {
		if a.Len >= 1<<31 {
			return Plan{}, fmt.Errorf("cuda kernels: buffer %q of %s has %d elements, over the 2^31 that the kernels index: lower batch_size", a.Name, op.Name(), a.Len)
		}
	}
	p := planner{t: t, plan: Plan{Config: config}}
	p.build(op)
	if p.err != nil {
		return Plan{}, fmt.Errorf("cuda kernels: plan %s: %w", op.Name(), p.err)
	}
	return p.plan, nil
}

// Configs names the variants that compute op on t, the likeliest to be the
// fastest first: what an autotuner may choose from. Names are stable. There is
// none when there is no kernel for the operation.
func Configs(op kernels.Op, t Target) []string {
	switch op := op.(type) {
	case kernels.ConvForward:
		return newConvPlan(op.Conv, convForward, op.Type, t).configs()
	case kernels.ConvBackwardData:
		return newConvPlan(op.Conv, convBackwardData, op.Type, t).configs()
	case kernels.ConvBackwardWeight:
		return newConvPlan(op.Conv, convBackwardWeight, op.Type, t).configs()
	case kernels.BatchNormForward, kernels.BatchNormBackward, kernels.MaxPool, kernels.MaxPoolBackward, kernels.AvgPool, kernels.AvgPoolBackward,
		kernels.Linear, kernels.LinearBackward, kernels.SoftmaxXent,
		kernels.Augment, kernels.PadChannels, kernels.Cast, kernels.Zero, kernels.Add, kernels.ReLUBackward, kernels.SGD, kernels.ScaleCheck:
		return []string{"default"}
	}
	return nil
}

//go:embed ptx/*.ptx
var ptx embed.FS

// PTX returns the text of a module for a device of compute capability sm.
// The driver compiles it for the device; it takes the newest PTX that the device
// can run. PTX for sm_90a runs on 9.0 alone, not on what comes after. It fails
// below sm_70.
func PTX(name string, sm int) ([]byte, error) {
	if sm == 90 {
		if b, err := ptx.ReadFile("ptx/" + name + ".sm_90a.ptx"); err == nil {
			return b, nil
		}
	}
	for _, arch := range []int{80, 75, 70} {
		if sm < arch {
			continue
		}
		if b, err := ptx.ReadFile(fmt.Sprintf("ptx/%s.sm_%d.ptx", name, arch)); err == nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("cuda kernels: no PTX of module %q for sm_%d: GPUs from sm_70 (Volta) on are supported", name, sm)
}

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

func (p *planner) build(op kernels.Op) {
	switch op := op.(type) {
	case kernels.ConvForward:
		p.convForward(op)
	case kernels.ConvBackwardData:
		p.convBackwardData(op)
	case kernels.ConvBackwardWeight:
		p.convBackwardWeight(op)
	case kernels.BatchNormForward:
		p.batchNormForward(op)
	case kernels.BatchNormBackward:
		p.batchNormBackward(op)
	case kernels.MaxPool:
		p.maxPool(op)
	case kernels.MaxPoolBackward:
		p.maxPoolBackward(op)
	case kernels.AvgPool:
		p.avgPool(op)
	case kernels.AvgPoolBackward:
		p.avgPoolBackward(op)
	case kernels.Linear:
		p.linear(op)
	case kernels.LinearBackward:
		p.linearBackward(op)
	case kernels.SoftmaxXent:
		p.softmaxXent(op)
	case kernels.Augment:
		p.augment(op)
	case kernels.PadChannels:
		p.padChannels(op)
	case kernels.Cast:
		p.cast(op)
	case kernels.Zero:
		p.zero(op)
	case kernels.Add:
		p.add(op)
	case kernels.ReLUBackward:
		p.reluBackward(op)
	case kernels.SGD:
		p.sgd(op)
	case kernels.ScaleCheck:
		p.scaleCheck(op)
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
