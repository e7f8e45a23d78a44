package ptxvm

import (
	"math"
	"math/bits"
	"strings"
)

// "Logic and Shift Instructions" and "Comparison and Selection Instructions".
var logic = map[string]func(*builder){
	"and":  func(b *builder) { b.bitwise(func(x, y uint64) uint64 { return x & y }) },
	"or":   func(b *builder) { b.bitwise(func(x, y uint64) uint64 { return x | y }) },
	"xor":  func(b *builder) { b.bitwise(func(x, y uint64) uint64 { return x ^ y }) },
	"not":  invert,
	"setp": compare,
	"selp": choose,
}

// bitwise works on predicates too: 32 lanes at once.
func (b *builder) bitwise(f func(x, y uint64) uint64) {
	t := b.one("pred", "b16", "b32", "b64")
	if t == "pred" {
		d, x, y := b.dst(0), b.src(0), b.src(0)
		b.in.run = func(w *warp, m uint32) {
			w.setPredicate(d, m, uint32(f(uint64(w.p[x.slot]), uint64(w.p[y.slot]))))
		}
		return
	}
	size := typeSize(t)
	d, x, y := b.dst(size), b.src(size), b.src(size)
	b.integer2(size, d, x, y, f)
}

func invert(b *builder) {
	t := b.one("pred", "b16", "b32", "b64")
	if t == "pred" {
		d, x := b.dst(0), b.src(0)
		b.in.run = func(w *warp, m uint32) { w.setPredicate(d, m, ^w.p[x.slot]) }
		return
	}
	d, x := b.dst(typeSize(t)), b.src(typeSize(t))
	b.in.run = b.lanes(func(w *warp, l int) { w.set(d, l, ^w.value(x, l)) })
}

// compare is "setp" with one destination and no boolean operation.
func compare(b *builder) {
	op := b.one("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
	t := b.one("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f16", "f32")
	size := typeSize(t)
	if size == 0 || strings.HasPrefix(t, "f") {
		b.compareFloat(op, t)
		return
	}
	var f func(order int) bool
	switch op {
	case "eq":
		f = func(o int) bool { return o == 0 }
	case "ne":
		f = func(o int) bool { return o != 0 }
	case "lt", "lo":
		f = func(o int) bool { return o < 0 }
	case "le", "ls":
		f = func(o int) bool { return o <= 0 }
	case "gt", "hi":
		f = func(o int) bool { return o > 0 }
	case "ge", "hs":
		f = func(o int) bool { return o >= 0 }
	default:
		b.fail("setp.%s.%s", op, t)
		return
	}
	// Names of unsigned order belong to unsigned types, and bits are only equal
	// or not.
	if (op[0] == 'h' || op == "lo" || op == "ls") && t[0] != 'u' || t[0] == 'b' && op != "eq" && op != "ne" {
		b.fail("setp.%s.%s", op, t)
		return
	}
	d, x, y := b.dst(0), b.src(size), b.src(size)
	sign := t[0] == 's'
	b.predicate(d, func(w *warp, l int) bool {
		u, v := w.value(x, l), w.value(y, l)
		if sign { // the same order, without sign
			u, v = uint64(signed(u, size))+1<<63, uint64(signed(v, size))+1<<63
		}
		switch {
		case u < v:
			return f(-1)
		case u > v:
			return f(1)
		}
		return f(0)
	})
}

func (b *builder) predicate(d register, f func(w *warp, l int) bool) {
	b.in.run = func(w *warp, m uint32) {
		var v uint32
		for rest := m; rest != 0; rest &= rest - 1 {
			l := bits.TrailingZeros32(rest) & 31
			if f(w, l) {
				v |= 1 << l
			}
		}
		w.setPredicate(d, m, v)
	}
}

// compareFloat: a NaN makes a comparison false, those that end in u true.
func (b *builder) compareFloat(op, t string) {
	var f func(x, y float32) bool
	switch op {
	case "eq", "equ":
		f = func(x, y float32) bool { return x == y }
	case "ne", "neu":
		f = func(x, y float32) bool { return x < y || x > y }
	case "lt", "ltu":
		f = func(x, y float32) bool { return x < y }
	case "le", "leu":
		f = func(x, y float32) bool { return x <= y }
	case "gt", "gtu":
		f = func(x, y float32) bool { return x > y }
	case "ge", "geu":
		f = func(x, y float32) bool { return x >= y }
	case "num":
		f = func(x, y float32) bool { return true }
	case "nan":
		f = func(x, y float32) bool { return false }
	default:
		b.fail("setp.%s.%s", op, t)
		return
	}
	unordered := len(op) == 3 && op[2] == 'u' || op == "nan"
	size := typeSize(t)
	d, x, y := b.dst(0), b.src(size), b.src(size)
	b.predicate(d, func(w *warp, l int) bool {
		u, v := float32of(w.r32[x.slot][l]), float32of(w.r32[y.slot][l])
		if size == 2 {
			u, v = halfFloat(uint16(w.r32[x.slot][l])), halfFloat(uint16(w.r32[y.slot][l]))
		}
		if math.IsNaN(float64(u)) || math.IsNaN(float64(v)) {
			return unordered
		}
		return f(u, v)
	})
}

// choose is "selp": the result is defined where the predicate and the operand it
// chooses are.
func choose(b *builder) {
	size := typeSize(b.one("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32"))
	d := b.dst(size)
	guard := len(b.in.reads)
	x, y := b.src(size), b.src(size)
	p := b.src(0)
	b.in.reads = b.in.reads[:guard]
	b.in.run = func(w *warp, m uint32) {
		known, p := w.defined[p.id], w.p[p.slot]
		defined := known & (w.defined[x.id]&p | w.defined[y.id]&^p)
		w.undefined = m &^ defined
		if size == 8 {
			pick(lanes64(w, d), lanes64(w, x), lanes64(w, y), p, m)
		} else {
			pick(lanes32(w, d), lanes32(w, x), lanes32(w, y), p, m)
		}
	}
}

// pick is x where p is set and y where it is not, in the lanes of m.
func pick[T uint32 | uint64](d, x, y *[32]T, p, m uint32) {
	for ; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m) & 31
		v := y[l]
		if p>>l&1 != 0 {
			v = x[l]
		}
		d[l] = v
	}
}
