package cpu

// Products of float32 by tiles of bfloat16s: see thirds.h for what they compute, and how exactly.
const (
	thirdsK     = 32          // of the inner dimension, a chunk
	thirdsN     = 32          // columns of a panel
	thirdsLeft  = 3 * 16 * 32 // bfloat16s of a chunk of 16 rows
	thirdsRight = 3 * 16 * 64 // and of a panel
)

// thirds says whether products of float32 are made that way.
func (p *Pool) thirds() bool { return p.dots == dotsOfAMX && p.variant == avx512 }

// leftThirds and rightThirds are how many bfloat16s operands of m rows, or n columns, take.
func leftThirds(m, k int) int  { return ceil(m, 16) * ceil(k, thirdsK) * thirdsLeft }
func rightThirds(n, k int) int { return ceil(n, thirdsN) * ceil(k, thirdsK) * thirdsRight }
