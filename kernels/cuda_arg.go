package kernels

import "math"

func buffer(i int) CUDAArg         { return CUDAArg{Kind: CUDABuffer, Index: uint8(i)} }
func scratchAt(off uint64) CUDAArg { return CUDAArg{Kind: CUDAScratch, Value: off} }
func counterAt(off int) CUDAArg    { return CUDAArg{Kind: CUDACounter, Value: uint64(off)} }
func scalar(v int) CUDAArg         { return CUDAArg{Kind: CUDAScalar, Value: uint64(uint32(int32(v)))} }
func float(v float32) CUDAArg      { return CUDAArg{Kind: CUDAScalar, Value: uint64(math.Float32bits(v))} }
func boolean(b bool) CUDAArg       { return scalar(count(b)) }
func optional(have bool, i int) CUDAArg {
	if !have {
		return CUDAArg{Kind: CUDANull}
	}
	return buffer(i)
}

// scalars appends integers to args.
func scalars(args []CUDAArg, vs ...int) []CUDAArg {
	for _, v := range vs {
		args = append(args, scalar(v))
	}
	return args
}

func ceil(a, b int) int { return (a + b - 1) / b }

// stored is the type of t's elements in memory, as the kernels' names have it.
func stored(t Type) string {
	if t == TF32 {
		return F32.String()
	}
	return t.String()
}
