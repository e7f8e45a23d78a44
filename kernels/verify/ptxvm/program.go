package ptxvm

// program is a function in the form that warps run.
type program struct {
	fn   *function
	code []instruction

	// Registers by class, in slots; an id numbers them all, for what is defined.
	// Constants and special registers are registers that are set when a warp
	// starts.
	n32, n64, nPred, ids int
	constants            []constant
	specials             []special

	shared  []variable // static arrays, by address
	static  int        // bytes of them
	dynamic *variable  // the array whose length the launch gives
	async   bool       // it has instructions of warpgroups
}

type class uint8

const (
	predicate class = iota
	bits32          // registers of 16 and 32 bits; of 16, the upper half is zero
	bits64
)

// register is where an operand is.
type register struct {
	class class
	size  int // bytes; 0 for a predicate
	slot  int
	id    int
}

type constant struct {
	register
	value uint64
}

type special struct {
	register
	name string
}

// kind says what an instruction does to its warp, beside what run does.
type kind uint8

const (
	plain kind = iota
	branch
	exit
	barrier  // all threads of the block
	together // all threads of the warp
	members  // the threads of a mask in a register
)

// instruction is one instruction with its operands resolved.
type instruction struct {
	line    int
	kind    kind
	guard   int // slot of the guard predicate; -1: none
	negate  bool
	target  int      // of a branch
	uniform bool     // all lanes that come to it take it, or none (bra.uni)
	mask    register // of members
	reads   []int    // ids that must be defined, the guard's first
	writes  []int    // ids that then are
	// Arithmetic on what is not defined gives what is not defined, and no error:
	// compilers compute such values and drop them.
	passes bool
	// run executes it for the lanes in m. Errors are left in the warp.
	run func(w *warp, m uint32)
}

// sharedBase is where shared memory begins: not at 0, so that a null pointer is
// no address.
const sharedBase = 0x400

// layout places the static arrays, then the dynamic one, which is aligned as it
// asks for and no better.
func (p *program) layout(dynamic []variable) {
	at := sharedBase
	for i := range p.shared {
		v := &p.shared[i]
		at = (at + v.align - 1) &^ (v.align - 1)
		v.offset = at
		at += v.size
	}
	p.static = at - sharedBase
	for _, v := range dynamic {
		at = (at + v.align - 1) &^ (v.align - 1)
		if at%(2*v.align) == 0 {
			at += v.align
		}
		v.offset = at
		p.dynamic = &v
	}
}
