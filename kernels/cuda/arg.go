package cuda

import (
	"math"

	"dev.gpustall/kernels"
)

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

// stored is the type of t's elements in memory, as the kernels' names have it.
func stored(t kernels.Type) string {
	if t == kernels.TF32 {
		return kernels.F32.String()
	}
	return t.String()
}
