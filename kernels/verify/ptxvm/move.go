package ptxvm

import "math/bits"

// "Data Movement and Conversion Instructions" that touch no memory.
var moves = map[string]func(*builder){
	"mov":  move,
	"cvt":  convert,
	"cvta": toAddress,
}

// move copies, packs a vector's elements into a register, the first lowest, or
// unpacks them.
func move(b *builder) {
	t := b.one("pred", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64")
	size := typeSize(t)
	if t == "pred" {
		d, x := b.dst(0), b.src(0)
		b.in.run = func(w *warp, m uint32) { w.setPredicate(d, m, w.p[x.slot]) }
		return
	}
	to, from := b.operand(), b.operand()
	switch {
	case to.kind == isVector && t[0] == 'b':
		x := b.read(from, size)
		part, ds := b.vector(to, size, b.write)
		b.in.run = b.lanes(func(w *warp, l int) {
			v := w.value(x, l)
			for i, d := range ds {
				w.set(d, l, v>>(8*part*i))
			}
		})
	case from.kind == isVector && t[0] == 'b':
		d := b.write(to, size)
		part, xs := b.vector(from, size, b.read)
		b.in.run = b.lanes(func(w *warp, l int) {
			var v uint64
			for i, x := range xs {
				v |= w.value(x, l) << (8 * part * i)
			}
			w.set(d, l, v)
		})
	default:
		d, x := b.write(to, size), b.read(from, size)
		if size == 8 {
			b.in.run = unary64(d, x, func(x uint64) uint64 { return x })
			return
		}
		b.in.run = func(w *warp, m uint32) {
			D, X := &w.r32[d.slot], &w.r32[x.slot]
			if m == full {
				*D = *X
				return
			}
			for ; m != 0; m &= m - 1 {
				l := bits.TrailingZeros32(m) & 31
				D[l] = X[l]
			}
		}
	}
}

// vector resolves elements that together have size bytes.
func (b *builder) vector(o operand, size int, use func(operand, int) register) (part int, rs []register) {
	n := len(o.list)
	if n != 2 && n != 4 || size/n < 2 {
		b.fail("a vector of %d elements in %d bytes", n, size)
		return 1, nil
	}
	for _, e := range o.list {
		rs = append(rs, use(e, size/n))
	}
	return size / n, rs
}

// toAddress is "cvta": between addresses in a state space and generic ones.
// Global memory is where generic addresses are; shared memory has a window.
func toAddress(b *builder) {
	back := b.has("to")
	space := b.one("global", "shared")
	b.must("u64")
	b.in.passes = false
	d, x := b.dst(8), b.src(8)
	in := func(v uint64) bool { return v >= sharedWindow && v < sharedWindow+windowSize }
	b.in.run = b.lanes(func(w *warp, l int) {
		v := w.r64[x.slot][l]
		switch {
		case space == "shared" && back:
			if !in(v) {
				w.fail(l, "address %#x is not in shared memory", v)
			}
			v -= sharedWindow
		case space == "shared":
			if v >= windowSize {
				w.fail(l, "address %#x is past shared memory", v)
			}
			v += sharedWindow
		case in(v):
			w.fail(l, "address %#x is in shared memory, not in global", v)
		}
		w.r64[d.slot][l] = v
	})
}

// The window of shared memory among generic addresses. No buffer is there.
const (
	sharedWindow = 0x7100_0000_0000
	windowSize   = 1 << 24
)
