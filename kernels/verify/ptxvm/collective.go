package ptxvm

import (
	"encoding/binary"
)

// "Control Flow Instructions".
var control = map[string]func(*builder){
	"bra": func(b *builder) {
		b.in.uniform = b.has("uni")
		o := b.operand()
		if o.kind != isName {
			b.fail("a branch to what is no label")
		}
		b.in.kind = branch
		b.jumps = append(b.jumps, jump{len(b.p.code), o.name, b.scope, b.in.line})
	},
	"ret":  func(b *builder) { b.in.kind = exit }, // of an entry
	"exit": func(b *builder) { b.in.kind = exit },
}

// Instructions that threads execute together: "Parallel Synchronization and
// Communication Instructions" and "Warp Level Matrix Instructions".
var collectives = map[string]func(*builder){
	"bar": func(b *builder) {
		b.must("sync")
		if o := b.operand(); o.kind != isNumber || o.value != 0 {
			b.fail("a barrier that is not 0")
		}
		b.in.kind = barrier
	},
	"shfl":     shuffle,
	"ldmatrix": loadMatrices,
	"mma":      multiplyMatrices,
}

// shuffle is "shfl.sync": the source lane follows from a's mode, b and the clamp
// and segment mask in c. Without a destination predicate, a source out of range
// gives the lane its own value.
func shuffle(b *builder) {
	b.must("sync")
	mode := b.one("up", "down", "bfly", "idx")
	b.must("b32")
	d, x, y, z, mask := b.dst(4), b.src(4), b.src(4), b.src(4), b.src(4)
	b.in.kind, b.in.mask = members, mask
	b.in.run = func(w *warp, m uint32) {
		var out [32]uint32
		for l := range 32 {
			if m>>l&1 == 0 {
				continue
			}
			bval, c := int(w.r32[y.slot][l]&31), w.r32[z.slot][l]
			segment := int(c >> 8 & 31)
			maxLane := l&segment | int(c&31)&^segment
			minLane := l & segment
			j, ok := 0, false
			switch mode {
			case "up":
				j = l - bval
				ok = j >= maxLane
			case "down":
				j = l + bval
				ok = j <= maxLane
			case "bfly":
				j = l ^ bval
				ok = j <= maxLane
			case "idx":
				j = minLane | bval&^segment
				ok = j <= maxLane
			}
			if !ok {
				j = l
			}
			if m>>j&1 == 0 {
				w.fail(l, "a value from lane %d, which takes no part", j)
				return
			}
			out[l] = w.r32[x.slot][j]
		}
		for l := range 32 {
			if m>>l&1 != 0 {
				w.r32[d.slot][l] = out[l]
			}
		}
	}
}

// loadMatrices is "ldmatrix" of 8x8 matrices of 16 bits: lanes 8i to 8i+7 give
// the addresses of matrix i's rows. Of a matrix, lane l gets row l/4, columns
// 2*(l%4) and the next; with .trans, of the transposed matrix.
func loadMatrices(b *builder) {
	b.must("sync", "aligned", "m8n8")
	n := map[string]int{"x1": 1, "x2": 2, "x4": 4}[b.one("x1", "x2", "x4")]
	trans := b.has("trans")
	b.must("shared", "b16")
	ds := b.registers(n, 4, b.write)
	p := b.place()
	b.in.kind = together
	b.in.run = func(w *warp, _ uint32) {
		for i, d := range ds {
			var rows [8][]byte
			for r := range rows {
				if rows[r] = w.shared(8*i+r, p.at(w, 8*i+r), 16, load); rows[r] == nil {
					return
				}
			}
			at := func(r, c int) uint32 { return uint32(binary.LittleEndian.Uint16(rows[r][2*c:])) }
			for l := range 32 {
				r, c := l/4, l%4*2
				if trans {
					w.r32[d.slot][l] = at(c, r) | at(c+1, r)<<16
				} else {
					w.r32[d.slot][l] = at(r, c) | at(r, c+1)<<16
				}
			}
		}
	}
}

// registers resolves a vector operand of exactly n registers.
func (b *builder) registers(n, size int, use func(operand, int) register) []register {
	o := b.operand()
	if b.err == nil && (o.kind != isVector || len(o.list) != n) {
		b.fail("no vector of %d registers", n)
	}
	var rs []register
	for _, e := range o.list {
		rs = append(rs, use(e, size))
	}
	return rs
}
