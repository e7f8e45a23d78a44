package ptxvm

// "Matrix Fragments for mma": which element of a matrix each register of each
// lane holds. group is lane/4, in the lane's place in it.

// cell is an element's row and column.
type cell struct{ row, col int }

// fragment lists, for each register in turn, the elements it holds, the lowest
// bits first.
type fragment func(group, in int) [][]cell

// mmaShape is one of the shapes that the kernels use. A is 16 x k, B k x 8, and
// C and D 16 x 8.
type mmaShape struct {
	k       int
	widen   func(bits uint32) float64 // an element of A or B
	bits    int                       // of an element
	a, b, c fragment
}

func pairs(cells ...cell) [][]cell { // two 16-bit elements a register
	var regs [][]cell
	for _, c := range cells {
		regs = append(regs, []cell{c, {c.row, c.col + 1}})
	}
	return regs
}

func downPairs(cells ...cell) [][]cell { // likewise, one below the other
	var regs [][]cell
	for _, c := range cells {
		regs = append(regs, []cell{c, {c.row + 1, c.col}})
	}
	return regs
}

func singles(cells ...cell) [][]cell {
	var regs [][]cell
	for _, c := range cells {
		regs = append(regs, []cell{c})
	}
	return regs
}

// fragmentC returns the cells of C, which are the same in all shapes: c0 and c1 in row
// group, c2 and c3 eight rows below. Their columns are 2*in and the next.
func fragmentC(g, t int) [][]cell {
	return singles(cell{g, 2 * t}, cell{g, 2*t + 1}, cell{g + 8, 2 * t}, cell{g + 8, 2*t + 1})
}

func half(v uint32) float64   { return float64(halfFloat(uint16(v))) }
func bfloat(v uint32) float64 { return float64(float32of(v << 16)) }
func single(v uint32) float64 { return float64(float32of(v)) }

// m16n8k16, 16-bit elements: a0 a1 at (group, 2*in), a2 a3 eight rows below, a4
// to a7 the same eight columns on. b0 b1 at (2*in, group), b2 b3 eight rows below.
func shape16(widen func(uint32) float64) mmaShape {
	return mmaShape{
		k: 16, bits: 16, widen: widen,
		a: func(g, t int) [][]cell {
			return pairs(cell{g, 2 * t}, cell{g + 8, 2 * t}, cell{g, 2*t + 8}, cell{g + 8, 2*t + 8})
		},
		b: func(g, t int) [][]cell { return downPairs(cell{2 * t, g}, cell{2*t + 8, g}) },
		c: fragmentC,
	}
}

// m16n8k8, 16-bit elements: the left half of the above.
func shape8(widen func(uint32) float64) mmaShape {
	return mmaShape{
		k: 8, bits: 16, widen: widen,
		a: func(g, t int) [][]cell { return pairs(cell{g, 2 * t}, cell{g + 8, 2 * t}) },
		b: func(g, t int) [][]cell { return downPairs(cell{2 * t, g}) },
		c: fragmentC,
	}
}

// m16n8k8, tf32: a0 at (group, in), a1 eight rows below, a2 and a3 four columns
// on; b0 at (in, group), b1 four rows below.
var shapeTF32 = mmaShape{
	k: 8, bits: 32, widen: single,
	a: func(g, t int) [][]cell {
		return singles(cell{g, t}, cell{g + 8, t}, cell{g, t + 4}, cell{g + 8, t + 4})
	},
	b: func(g, t int) [][]cell { return singles(cell{t, g}, cell{t + 4, g}) },
	c: fragmentC,
}

// multiplyMatrices is "mma.sync.aligned" with float32 accumulators.
func multiplyMatrices(b *builder) {
	b.must("sync", "aligned")
	shape := b.one("m16n8k16", "m16n8k8")
	b.must("row", "col", "f32")
	typ := b.one("f16", "bf16", "tf32")
	b.must(typ, "f32")
	var s mmaShape
	switch shape + typ {
	case "m16n8k16f16":
		s = shape16(half)
	case "m16n8k16bf16":
		s = shape16(bfloat)
	case "m16n8k8f16":
		s = shape8(half)
	case "m16n8k8tf32":
		s = shapeTF32
	default:
		b.fail("no %s of %s", shape, typ)
		return
	}
	ds := b.registers(4, 4, b.write)
	as := b.registers(len(s.a(0, 0)), 4, b.read)
	bs := b.registers(len(s.b(0, 0)), 4, b.read)
	cs := b.registers(4, 4, b.read)
	b.in.kind = together
	at := [3]spread{spreadOf(s.a, false), spreadOf(s.b, true), spreadOf(s.c, false)}
	k := s.k
	b.in.run = func(w *warp, _ uint32) {
		// Products are exact in float64 and so nearly are their sums; the manual
		// leaves order and rounding of the accumulation open.
		var A, B, C [16][16]float64 // B by columns
		at[0].gather(w, as, s.bits, s.widen, &A)
		at[1].gather(w, bs, s.bits, s.widen, &B)
		at[2].gather(w, cs, 32, single, &C)
		if typ == "tf32" {
			s.lowBits(w, as)
			s.lowBits(w, bs)
		}
		for i, d := range ds {
			D := &w.r32[d.slot]
			for l, c := range at[2][i] {
				a, b := &A[c[0].row], &B[c[0].col]
				sum := C[c[0].row][c[0].col]
				for j := range k {
					sum += a[j] * b[j]
				}
				D[l] = canonical(float32(sum))
			}
		}
	}
}

// spread is a fragment over the warp: for each register and lane, the places of
// its elements.
type spread [][32][2]cell

// spreadOf lists f's cells, exchanging rows and columns if asked to.
func spreadOf(f fragment, exchange bool) spread {
	s := make(spread, len(f(0, 0)))
	for l := range 32 {
		for i, cells := range f(l/4, l%4) {
			for j, c := range cells {
				if exchange {
					c.row, c.col = c.col, c.row
				}
				s[i][l][j] = c
			}
		}
	}
	return s
}

// gather collects the matrix whose fragments are in rs.
func (s spread) gather(w *warp, rs []register, bits int, widen func(uint32) float64, to *[16][16]float64) {
	for i, r := range rs {
		R := &w.r32[r.slot]
		for l := range R {
			c := &s[i][l]
			if bits == 32 {
				to[c[0].row][c[0].col] = widen(R[l])
				continue
			}
			to[c[0].row][c[0].col] = widen(R[l] & 0xffff)
			to[c[1].row][c[1].col] = widen(R[l] >> 16)
		}
	}
}

// lowBits refuses float32 that were not converted to tf32: the manual wants
// operands in tf32, which has no lower 13 bits.
func (s mmaShape) lowBits(w *warp, rs []register) {
	for _, r := range rs {
		for l, v := range w.r32[r.slot] {
			if v&0x1fff != 0 {
				w.fail(l, "an operand %#x that is not tf32", v)
				return
			}
		}
	}
}
