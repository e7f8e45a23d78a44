package ptxvm

import (
	"math/bits"
	"slices"
)

// builder makes one instruction. It takes the opcode's modifiers and the operands one after the other. A
// modifier or operand that is left over is an error.
type builder struct {
	*compiler
	in   *instruction
	mods []string
	ops  []operand
}

// builders has an entry for the first word of each opcode. Each is in the file of
// its chapter of "Instruction Set".
var builders map[string]func(*builder)

func init() {
	builders = map[string]func(*builder){}
	for _, chapter := range []map[string]func(*builder){accesses, control, collectives, asyncs, warpgroups} {
		for name, f := range chapter {
			builders[name] = f
		}
	}
	for _, chapter := range []map[string]func(*builder){integers, floats, logic, moves} {
		for name, f := range chapter {
			builders[name] = func(b *builder) { b.in.passes = true; f(b) }
		}
	}
}

// has takes the modifier if it comes next.
func (b *builder) has(mod string) bool {
	if len(b.mods) == 0 || b.mods[0] != mod {
		return false
	}
	b.mods = b.mods[1:]
	return true
}

// must takes modifiers that have to come next.
func (b *builder) must(mods ...string) {
	for _, m := range mods {
		if !b.has(m) {
			b.fail("modifier .%s expected", m)
		}
	}
}

// one takes the next modifier, which is one of these.
func (b *builder) one(of ...string) string {
	if len(b.mods) == 0 || !slices.Contains(of, b.mods[0]) {
		b.fail("one of the modifiers %q expected", of)
		return of[0]
	}
	m := b.mods[0]
	b.mods = b.mods[1:]
	return m
}

func (b *builder) operand() operand {
	if len(b.ops) == 0 {
		b.fail("an operand too few")
		return operand{}
	}
	o := b.ops[0]
	b.ops = b.ops[1:]
	return o
}

// write makes o a destination of a register of size bytes (0: a predicate).
func (b *builder) write(o operand, size int) register {
	if b.err != nil {
		return register{}
	}
	if o.kind != isRegister || o.negated || o.second != nil || o.reg.size != size {
		b.fail("a destination that is no register of %d bytes", size)
	}
	for _, s := range b.p.specials {
		if s.id == o.reg.id {
			b.fail("%s cannot be written", s.name)
		}
	}
	b.in.writes = append(b.in.writes, o.reg.id)
	return o.reg
}

// read makes o a source of size bytes (0: a predicate).
func (b *builder) read(o operand, size int) register {
	switch {
	case b.err != nil:
	case o.negated || o.second != nil:
		b.fail("a source with a sign that does not belong")
	case o.kind == isNumber && size == 0 && o.float == 0:
		return b.constantOf(-b2u(o.value != 0), 0)
	case o.kind == isNumber && (o.float != 0 && o.float != size || !fits(o.value, size)):
		b.fail("a number that is not of %d bytes", size)
	case o.kind == isNumber:
		return b.constantOf(o.value, size)
	case o.kind == isName && b.shared[o.name]:
		return b.constantOf(b.address(o.name), size)
	case o.kind != isRegister || o.reg.size != size:
		b.fail("a source that is no register of %d bytes", size)
	default:
		b.in.reads = append(b.in.reads, o.reg.id)
		return o.reg
	}
	return register{}
}

func (b *builder) dst(size int) register { return b.write(b.operand(), size) }
func (b *builder) src(size int) register { return b.read(b.operand(), size) }

// lane calls of 32-bit and 64-bit operations.

const full = ^uint32(0)

// lanes32 and lanes64 are a register's values, one for each lane.
func lanes32(w *warp, r register) *[32]uint32 { return &w.r32[r.slot] }
func lanes64(w *warp, r register) *[32]uint64 { return &w.r64[r.slot] }

func unary32(d, a register, f func(a uint32) uint32) func(*warp, uint32) {
	return lanewise1(lanes32, d, a, f)
}

func binary32(d, a, c register, f func(a, c uint32) uint32) func(*warp, uint32) {
	return lanewise2(lanes32, d, a, c, f)
}

func unary64(d, a register, f func(a uint64) uint64) func(*warp, uint32) {
	return lanewise1(lanes64, d, a, f)
}

func binary64(d, a, c register, f func(a, c uint64) uint64) func(*warp, uint32) {
	return lanewise2(lanes64, d, a, c, f)
}

func lanewise1[T uint32 | uint64](lanes func(*warp, register) *[32]T, d, a register, f func(a T) T) func(*warp, uint32) {
	return func(w *warp, m uint32) {
		D, A := lanes(w, d), lanes(w, a)
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			D[l] = f(A[l])
		}
	}
}

func lanewise2[T uint32 | uint64](lanes func(*warp, register) *[32]T, d, a, c register, f func(a, c T) T) func(*warp, uint32) {
	return func(w *warp, m uint32) {
		D, A, C := lanes(w, d), lanes(w, a), lanes(w, c)
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			D[l] = f(A[l], C[l])
		}
	}
}

// value and set read and write a register of either width in one lane.
func (w *warp) value(r register, l int) uint64 {
	if r.class == bits64 {
		return w.r64[r.slot][l]
	}
	return uint64(w.r32[r.slot][l])
}

func (w *warp) set(r register, l int, v uint64) {
	switch r.size {
	case 8:
		w.r64[r.slot][l] = v
	case 4:
		w.r32[r.slot][l] = uint32(v)
	default:
		w.r32[r.slot][l] = uint32(uint16(v))
	}
}

// setPredicate sets the bits of lanes m of a predicate as in v.
func (w *warp) setPredicate(r register, m, v uint32) { w.p[r.slot] = w.p[r.slot]&^m | v&m }

func b2u(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

func signed(v uint64, size int) int64 {
	shift := 64 - 8*uint(size)
	return int64(v<<shift) >> shift
}
