package kernels

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

// CUDATarget is what a launch's geometry depends on besides the operation.
type CUDATarget struct {
	SM         int // compute capability, 10*major + minor: 80, 90
	Processors int // multiprocessors: 132 on an H100 SXM
	Shared     int // bytes of shared memory that one block may opt in to; 0: what SM guarantees
}

// TensorCores says whether matrix products of a type run on tensor cores, given
// channels in multiples of 16 bytes. On others they run on CUDA cores, in float32
// arithmetic. Volta's tensor cores are not used.
func (t CUDATarget) TensorCores(typ Type) bool {
	return t.SM >= 80 && typ != F32 || t.SM >= 75 && typ == F16
}

// CUDAPlan is how an operation runs on a GPU: its launches, in order, on one
// stream.
type CUDAPlan struct {
	// Config is the name of the variant that was taken: one of CUDAConfigs.
	Config   string
	Launches []CUDALaunch
	// Scratch is the bytes of device memory, aligned to 256, that the launches use
	// between them. Its contents need not be kept or cleared, so that the plans
	// of one stream can share the memory.
	Scratch int
}

// CUDALaunch is one kernel launch. When Shared is over 48 KiB the function
// needs CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES raised to it first.
type CUDALaunch struct {
	Module      string // for CUDAModule
	Entry       string // function in the module
	Grid, Block [3]uint32
	Shared      uint32 // bytes of dynamic shared memory
	Args        []CUDAArg
}

// CUDAArg is one kernel parameter, in the order of the kernel's signature.
type CUDAArg struct {
	Kind  CUDAArgKind
	Index uint8  // of the operation's buffers, for CUDABuffer
	Value uint64 // offset in bytes of an address; the bits of a scalar
}

// CUDAArgKind says what a kernel parameter is.
type CUDAArgKind uint8

const (
	CUDABuffer  CUDAArgKind = iota // 8 bytes: address of the operation's buffer Index, plus Value
	CUDAScratch                    // 8 bytes: address of the plan's scratch memory, plus Value
	CUDACounter                    // 8 bytes: address of the counters, plus Value
	CUDANull                       // 8 bytes: no memory: a null pointer
	CUDAScalar                     // 4 bytes: Value
)

// CUDACounterBytes is the size of the counters: device memory that is cleared
// once and that every launch leaves cleared. Launches that may overlap (on
// different streams) must not share it.
const CUDACounterBytes = 16 << 10

// CUDAMaxArgs bounds the parameters of a kernel.
const CUDAMaxArgs = 24

// CUDA returns the launches of op. The config is one of CUDAConfigs, or empty
// for the first of them. Buffers of activations, weights and their gradients
// must be aligned to 16 bytes. It fails for an operation it does not know, a
// config the operation does not have and shapes past 2^31 elements.
func CUDA(op Op, t CUDATarget, config string) (CUDAPlan, error) {
	configs := CUDAConfigs(op, t)
	if len(configs) == 0 {
		return CUDAPlan{}, fmt.Errorf("kernels: no CUDA kernel for operation %s (%T): use the cpu device", op.Name(), op)
	}
	if config == "" {
		config = configs[0]
	}
	if !slices.Contains(configs, config) {
		return CUDAPlan{}, fmt.Errorf("kernels: operation %s has no CUDA config %q on sm_%d: choose one of %s",
			op.Name(), config, t.SM, strings.Join(configs, ", "))
	}
	for _, a := range op.Args() {
		if a.Len >= 1<<31 {
			return CUDAPlan{}, fmt.Errorf("kernels: buffer %q of %s has %d elements, over the 2^31 that the CUDA kernels index: lower batch_size", a.Name, op.Name(), a.Len)
		}
	}
	p := cudaPlanner{t: t, plan: CUDAPlan{Config: config}}
	p.build(op)
	if p.err != nil {
		return CUDAPlan{}, fmt.Errorf("kernels: plan %s for CUDA: %w", op.Name(), p.err)
	}
	return p.plan, nil
}

// CUDAConfigs names the variants that compute op on t, the likeliest to be the
// fastest first: what an autotuner may choose from. Names are stable. There is
// none when CUDA does not know the operation.
func CUDAConfigs(op Op, t CUDATarget) []string {
	switch op := op.(type) {
	case ConvForward:
		return newConvPlan(op.Conv, convForward, op.Type, t).configs()
	case ConvBackwardData:
		return newConvPlan(op.Conv, convBackwardData, op.Type, t).configs()
	case ConvBackwardWeight:
		return newConvPlan(op.Conv, convBackwardWeight, op.Type, t).configs()
	case BatchNormForward, BatchNormBackward, MaxPool, MaxPoolBackward, AvgPool, AvgPoolBackward,
		Linear, LinearBackward, SoftmaxXent,
		Augment, PadChannels, Cast, Zero, Add, ReLUBackward, SGD, ScaleCheck:
		return []string{"default"}
	}
	return nil
}

//go:embed ptx/*.ptx
var ptx embed.FS

// CUDAModule returns the PTX of a module for a device of compute capability sm.
// The driver compiles it for the device; it takes the newest PTX that the device
// can run. PTX for sm_90a runs on 9.0 alone, not on what comes after. It fails
// below sm_70.
func CUDAModule(name string, sm int) ([]byte, error) {
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
	return nil, fmt.Errorf("kernels: no PTX of module %q for sm_%d: GPUs from sm_70 (Volta) on are supported", name, sm)
}

// cudaPlanner collects an operation's launches.
type cudaPlanner struct {
	t    CUDATarget
	plan CUDAPlan
	err  error
}

func (p *cudaPlanner) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *cudaPlanner) build(op Op) {
	switch op := op.(type) {
	case ConvForward:
		p.convForward(op)
	case ConvBackwardData:
		p.convBackwardData(op)
	case ConvBackwardWeight:
		p.convBackwardWeight(op)
	case BatchNormForward:
		p.batchNormForward(op)
	case BatchNormBackward:
		p.batchNormBackward(op)
	case MaxPool:
		p.maxPool(op)
	case MaxPoolBackward:
		p.maxPoolBackward(op)
	case AvgPool:
		p.avgPool(op)
	case AvgPoolBackward:
		p.avgPoolBackward(op)
	case Linear:
		p.linear(op)
	case LinearBackward:
		p.linearBackward(op)
	case SoftmaxXent:
		p.softmaxXent(op)
	case Augment:
		p.augment(op)
	case PadChannels:
		p.padChannels(op)
	case Cast:
		p.cast(op)
	case Zero:
		p.zero(op)
	case Add:
		p.add(op)
	case ReLUBackward:
		p.reluBackward(op)
	case SGD:
		p.sgd(op)
	case ScaleCheck:
		p.scaleCheck(op)
	}
}

// scratch reserves n bytes and returns their offset.
func (p *cudaPlanner) scratch(n int) uint64 {
	off := (p.plan.Scratch + 255) &^ 255
	p.plan.Scratch = off + n
	return uint64(off)
}

// launch appends a launch of one-dimensional blocks.
func (p *cudaPlanner) launch(module, entry string, grid [3]int, threads int, args ...CUDAArg) *CUDALaunch {
	p.plan.Launches = append(p.plan.Launches, CUDALaunch{
		Module: module, Entry: entry,
		Grid:  [3]uint32{uint32(grid[0]), uint32(grid[1]), uint32(grid[2])},
		Block: [3]uint32{uint32(threads), 1, 1},
		Args:  args,
	})
	return &p.plan.Launches[len(p.plan.Launches)-1]
}
