package ptxvm

import (
	"fmt"
	"strconv"
	"strings"
)

// "Asynchronous Warpgroup Level Matrix Instructions", of sm_90a. Each of the four warps of a warpgroup
// computes its own 16 rows of the 64 when it comes to the instruction. But only when the warp has waited
// for the group are the results there, and the shared memory that was read is free.
var warpgroups = map[string]func(*builder){
	"wgmma": func(b *builder) {
		switch b.one("mma_async", "fence", "commit_group", "wait_group") {
		case "mma_async":
			multiplyAsync(b)
		case "fence":
			b.must("sync", "aligned")
			b.in.kind = together
			b.in.run = func(w *warp, _ uint32) { w.flight.fenced = w.flight.clock }
		case "commit_group":
			b.must("sync", "aligned")
			b.in.kind = together
			b.in.run = func(w *warp, _ uint32) {
				f := &w.flight
				f.groups = append(f.groups, f.open)
				f.open = nil
			}
		default:
			b.must("sync", "aligned")
			o := b.operand()
			if o.kind != isNumber || o.value > 1<<20 {
				b.fail("no number of groups")
				return
			}
			b.in.kind = together
			b.in.run = func(w *warp, _ uint32) {
				f := &w.flight
				for len(f.groups) > int(o.value) {
					for _, p := range f.groups[0] {
						w.arrive(p)
					}
					f.groups = f.groups[1:]
				}
			}
		}
		b.p.async = true
	},
}

// flight is what a warp knows of its asynchronous products.
type flight struct {
	open   []asyncProduct
	groups [][]asyncProduct
	issued int // of all products

	// A clock of the warp's instructions, and when each register was written last;
	// accumulators must be fenced against other uses.
	clock, fenced int
	stamps        []int
	flying        []int // products under way, by register id
}

// asyncProduct is a product under way.
type asyncProduct struct {
	at    int // clock
	accum []register
	words []int // of shared memory that it reads
}

// issue is one product as all warps of the warpgroup must issue it.
type issue struct {
	line int
	a, b uint64
}

// wgmma is a "wgmma.mma_async" of 16-bit floats, both operands in shared memory and the
// accumulators in float32.
type wgmma struct {
	line           int
	columns        int // of the result, "N"; it has 64 rows
	widen          func(uint32) float64
	accum          []register
	a, b           register // the descriptors of the operands
	scale          register // the accumulators are added to, unless it is zero
	sign           float64  // of the product
	transA, transB bool     // "transposed": major along M or N instead of K
}

// multiplyAsync reads the operands of a wgmma: d, a, b, scale-d, scale-a, scale-b, and whether
// a and b are transposed.
func multiplyAsync(b *builder) {
	b.must("sync", "aligned")
	shape := ""
	if len(b.mods) > 0 {
		shape = b.mods[0]
	}
	columns, ok := strings.CutPrefix(shape, "m64n")
	columns, ok2 := strings.CutSuffix(columns, "k16")
	n, err := strconv.Atoi(columns)
	if !ok || !ok2 || err != nil || n%8 != 0 || n < 8 || n > 256 {
		b.fail("unknown shape .%s", shape)
		return
	}
	b.must(shape, "f32")
	typ := b.one("f16", "bf16")
	b.must(typ)
	m := &wgmma{line: b.in.line, columns: n, widen: half, sign: 1}
	if typ == "bf16" {
		m.widen = bfloat
	}
	m.accum = b.registers(n/2, 4, func(o operand, size int) register {
		if o.kind != isRegister || o.reg.size != size {
			b.fail("an accumulator that is no register of %d bytes", size)
		}
		return o.reg
	})
	m.a, m.b = b.src(8), b.src(8)
	m.scale = b.src(0)
	negA, negB := b.choice("-1", "1"), b.choice("-1", "1")
	m.transA, m.transB = b.choice("1", "0"), b.choice("1", "0")
	if negA != negB {
		m.sign = -1
	}
	b.in.kind = together
	b.in.run = func(w *warp, _ uint32) { m.run(w) }
}

// run computes the warp's rows. The product is under way until the warp waits for it.
func (m *wgmma) run(w *warp) {
	da, db, ok := w.uniform(m.a, m.b)
	if !ok || !w.joins(issue{m.line, da, db}) {
		return
	}
	p := asyncProduct{at: w.flight.clock, accum: m.accum}
	add := w.p[m.scale.slot]
	if add != 0 && add != full {
		w.fail(-1, "scale-d differs between lanes")
		return
	}
	if !w.fenced(m.accum, add != 0) {
		return
	}
	var A [16][16]float64
	B := make([][16]float64, m.columns)
	rows := w.first / 32 % 4 * 16
	w.matrix(&p, da, m.transA, rows, 16, func(r, k int, v uint32) { A[r][k] = m.sign * m.widen(v) })
	w.matrix(&p, db, m.transB, 0, m.columns, func(r, k int, v uint32) { B[r][k] = m.widen(v) })
	if w.error != "" {
		return
	}
	for l := range 32 {
		for i, d := range m.accum {
			// "Accumulator D": rows by warp and lane, two of them 8 apart; columns in
			// groups of 8.
			row, col := l/4+i/2%2*8, i/4*8+l%4*2+i%2
			sum := 0.0
			if add != 0 {
				sum = float64(float32of(w.r32[d.slot][l]))
			}
			for k := range 16 {
				sum += A[row][k] * B[col][k]
			}
			w.r32[d.slot][l] = canonical(float32(sum))
		}
	}
	w.depart(p)
}

// fenced reports whether a product may use its accumulators, which it reads where read is set.
func (w *warp) fenced(accum []register, read bool) bool {
	for _, r := range accum {
		switch {
		case w.flight.flying[r.id] > 0: // in order behind the one under way
		case read && w.defined[r.id] != full:
			w.fail(-1, "an accumulator that was never given a value")
			return false
		case w.flight.stamps[r.id] > w.flight.fenced:
			w.fail(-1, "an accumulator was written with no wgmma.fence since")
			return false
		}
	}
	return true
}

// choice takes an immediate that is one of two. It returns true for the first.
func (b *builder) choice(yes, no string) bool {
	o := b.operand()
	s := strconv.FormatInt(int64(o.value), 10)
	if o.kind != isNumber || s != yes && s != no {
		b.fail("neither %s nor %s", yes, no)
	}
	return s == yes
}

// uniform returns the values of two descriptors. They must be the same in all lanes.
func (w *warp) uniform(a, b register) (uint64, uint64, bool) {
	x, y := w.r64[a.slot], w.r64[b.slot]
	for l := range 32 {
		if x[l] != x[0] || y[l] != y[0] {
			w.fail(l, "a matrix descriptor that differs between lanes")
			return 0, 0, false
		}
	}
	return x[0], y[0], true
}

// joins reports whether the warp's warpgroup is whole and executes the same products in the same order.
func (w *warp) joins(i issue) bool {
	b := w.block
	group := w.first / 128
	if (group+1)*128 > len(b.fences) {
		w.fail(-1, "a warpgroup of less than 4 warps")
		return false
	}
	n := w.flight.issued
	w.flight.issued++
	if n == len(b.issues[group]) {
		b.issues[group] = append(b.issues[group], i)
	}
	if was := b.issues[group][n]; was != i {
		w.fail(-1, "product %d of this warp is %v, of another of its warpgroup %v", n, i, was)
		return false
	}
	return true
}

// depart begins a product. Until it arrives, its results are undefined and the shared memory that it
// reads is in use.
func (w *warp) depart(p asyncProduct) {
	for _, r := range p.accum {
		w.flight.flying[r.id]++
		w.defined[r.id] = 0
	}
	for _, i := range p.words {
		w.block.memory.async[i]++
	}
	w.flight.open = append(w.flight.open, p)
}

// arrive ends a product. Its results are there, and it reads no more.
func (w *warp) arrive(p asyncProduct) {
	s, f := w.block.memory, &w.flight
	for _, i := range p.words {
		s.async[i]--
		s.reader[i] = newTouch(w.block.epoch, manyThreads)
	}
	for _, r := range p.accum {
		if f.stamps[r.id] > p.at {
			w.fail(-1, "an accumulator was written while its product was under way")
			return
		}
		if f.flying[r.id]--; f.flying[r.id] == 0 {
			w.defined[r.id] = full
		}
	}
}

func (i issue) String() string { return fmt.Sprintf("line %d of %#x and %#x", i.line, i.a, i.b) }
