package cpu

// dots is the instructions with which a processor multiplies bfloat16s, as in dots.h.
type dots int32

const (
	noDots    dots = iota
	dotsOf512      // AVX512_BF16
	dotsOfAMX
)

func (d dots) String() string { return [...]string{"", "avx512_bf16", "amx"}[d] }

// dotted is the number of columns of a panel. The inner dimension is padded to a multiple of it.
const dotted = 32

// rows16 is a left operand, as struct rows16 of dots.h.
type rows16 struct {
	p               []uint16
	ld, block, step int
}

// flagHalves has a product written as bfloat16s; HALVES in dots.h.
const flagHalves = 4
