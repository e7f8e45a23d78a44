package cpu

// Products of float32 by AMX's tiles of bfloat16s. thirds.h says what they compute, and how
// exactly.
const (
	thirdsK     = 32          // a chunk of the inner dimension
	thirdsN     = 32          // columns of a panel
	thirdsLeft  = 3 * 16 * 32 // bfloat16s of a chunk of 16 rows
	thirdsRight = 3 * 16 * 64 // bfloat16s of a chunk of a panel
)

// thirds reports whether the pool multiplies float32 by thirds.
func (p *Pool) thirds() bool { return p.dots == dotsOfAMX && p.variant == avx512 }

// leftThirds and rightThirds return how many bfloat16s an operand of m rows, or n columns, takes.
func leftThirds(m, k int) int  { return ceil(m, 16) * ceil(k, thirdsK) * thirdsLeft }
func rightThirds(n, k int) int { return ceil(n, thirdsN) * ceil(k, thirdsK) * thirdsRight }
