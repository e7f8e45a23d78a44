//go:build cgo

package cpu

// Where the sums of the filters' gradient leave room in a core's second-level cache, a thread takes
// its tiles through all stages with sums of its own. So transformed tiles do not pass through memory
// from one thread to another. Larger sums are made in two halves of three rows of positions each; a
// half transforms its own positions only.
const (
	groupSums   = 64 * 64   // channels times channels, 576 KiB of sums
	halfSums    = 128 * 128 // 1.1 MiB of each half
	groupFloats = 224 << 10 // of transformed tiles, 896 KiB
)

// winoGroups is winoWeight with stride 1, by groups of tiles that each have their own sums.
type winoGroups struct {
	*winoWeight
	groups, halves, block int
}

// grouped returns ww by groups, or nil where the sums are too large.
func (ww *winoWeight) grouped() *winoGroups {
	g := &winoGroups{winoWeight: ww, halves: 1}
	switch sums := ww.k * ww.c; {
	case ww.stride != 1 || sums > halfSums:
		return nil
	case sums > groupSums:
		g.halves = 2
	}
	g.groups = 2 * ww.pl.pool.threads / g.halves
	g.block = max(groupFloats/(g.positions()*(ww.c+ww.k)), 1)
	return g
}

// positions returns how many positions an item has.
func (g *winoGroups) positions() int { return filters / g.halves }

func (g *winoGroups) bind(dbias []float32) func() {
	pool, l := g.pl.pool, layout{pl: g.pl}
	g.vstep, g.step = skew(g.block*g.c), skew(g.block*g.k)
	g.u = l.take(g.groups * filters * g.ustep)
	g.v, g.s = l.take(pool.threads*g.positions()*g.vstep), l.take(pool.threads*g.positions()*g.step)
	g.bias = newBiasSums(g.pl, g.groups, g.k, dbias)
	item, gather, rows := g.item, g.gather, ceil(g.k, 16)
	return func() {
		g.bias.reset()
		pool.each(g.groups*g.halves, item)
		pool.each(rows, gather)
		g.bias.finish()
	}
}

func (g *winoGroups) sums(group int) []float32 { return g.pl.part(g.u, group, filters*g.ustep) }

// item makes the sums of a group, or of half of its positions.
func (g *winoGroups) item(worker, i int) {
	isa, positions, group, half := g.pl.pool.variant, g.positions(), i/g.halves, i%g.halves
	u := g.sums(group)[half*positions*g.ustep:][:positions*g.ustep]
	v, s := g.pl.part(g.v, worker, positions*g.vstep), g.pl.part(g.s, worker, positions*g.step)
	in, out := g.in, g.out
	if g.halves > 1 {
		in.half, out.half = half+1, half+1
	}
	lo, end := split(g.tiles, g.groups, group)
	if lo == end {
		clear(u)
	}
	for begun := false; lo < end; begun = true {
		hi := min(lo+g.block, end)
		isa.transformInput(false, &in, lo, hi, g.vstep, g.x, v)
		isa.spread(&out, lo, hi, g.step, g.dy, s)
		if half == 0 {
			g.bias.add(group, s[(g.side+1)*g.step:][:(hi-lo)*g.k]) // see winoWeight.transform
		}
		for p := range positions {
			isa.gemmTN(g.k, g.c, hi-lo, s[p*g.step:], g.k, v[p*g.vstep:], g.c, u[p*g.ustep:], g.c, flags(begun, false))
		}
		lo = hi
	}
}

// gather adds up 16 rows of the groups' sums and transforms them into rows of dw.
func (g *winoGroups) gather(worker, i int) {
	lo, hi := i*16*g.c, min((i+1)*16, g.k)*g.c
	for f := 0; f < filters*g.ustep; f += g.ustep {
		all := g.sums(0)[f+lo : f+hi]
		for group := 1; group < g.groups; group++ {
			add(g.pl.pool.variant, all, g.sums(group)[f+lo:f+hi], all, 0)
		}
	}
	g.winoWeight.gather(worker, i)
}
