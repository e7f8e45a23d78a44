package cpu

// dots is how a processor multiplies bfloat16s, as in dots.h.
type dots int32

const (
	noDots    dots = iota
	dotsOf512      // AVX512_BF16
	dotsOfAMX
)

func (d dots) String() string { return [...]string{"", "avx512_bf16", "amx"}[d] }

// dotted is the number of columns of a panel, and what the inner dimension is a multiple of.
const dotted = 32

// rows16 is a left operand: see struct rows16.
type rows16 struct {
	p               []uint16
	ld, block, step int
}

// flagHalves says that a product is written as bfloat16s: see HALVES.
const flagHalves = 4
