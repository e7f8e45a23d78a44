//go:build cgo

package cpu

// Where the sums of the filters' gradient leave room in a core's second-level cache, a thread
// takes its tiles through all stages with sums of its own: between two, what is transformed
// would pass through memory that both reach.
const (
	groupSums   = 64 * 64   // channels times channels, 576 KiB of sums with stride 1
	groupFloats = 224 << 10 // of transformed tiles, 896 KiB
)

// winoGroups is winoWeight by groups of tiles, each with its sums.
type winoGroups struct {
	*winoWeight
	groups, block int
}

func (ww *winoWeight) bindGroups(dbias []float32) func() {
	pool, l := ww.pl.pool, layout{pl: ww.pl}
	g := &winoGroups{winoWeight: ww, groups: 2 * pool.threads}
	positions := ww.side * ww.side
	g.block = max(groupFloats/(positions*(ww.c+ww.k)), 1)
	ww.vstep, ww.step = skew(g.block*ww.c), skew(g.block*ww.k)
	ww.u = l.take(g.groups * filters * ww.ustep)
	ww.v, ww.s = l.take(pool.threads*positions*ww.vstep), l.take(pool.threads*positions*ww.step)
	ww.bias = newBiasSums(ww.pl, g.groups, ww.k, dbias)
	group, gather, rows := g.group, ww.gather, ceil(ww.k, 16)
	reduce := ww.pl.spans(filters*ww.ustep, g.reduce)
	return func() {
		ww.bias.reset()
		pool.each(g.groups, group)
		reduce()
		pool.each(rows, gather)
		ww.bias.finish()
	}
}

func (g *winoGroups) sums(i int) []float32 { return g.pl.part(g.u, i, filters*g.ustep) }

func (g *winoGroups) group(worker, i int) {
	isa, positions := g.pl.pool.variant, g.side*g.side
	u, v, s := g.sums(i), g.pl.part(g.v, worker, positions*g.vstep), g.pl.part(g.s, worker, positions*g.step)
	lo, end := split(g.tiles, g.groups, i)
	if lo == end {
		clear(u)
	}
	for begun := false; lo < end; begun = true {
		hi := min(lo+g.block, end)
		isa.transformInput(false, &g.in, lo, hi, g.vstep, g.x, v)
		isa.spread(&g.out, lo, hi, g.step, g.dy, s)
		g.bias.add(i, s[(g.side+1)*g.step:][:(hi-lo)*g.k])
		for f := range filters {
			more := begun
			for r := f / 6; r < g.last(f/6); r++ {
				for q := f % 6; q < g.last(f%6); q++ {
					p := r*g.side + q
					isa.gemmTN(g.k, g.c, hi-lo, s[p*g.step:], g.k, v[p*g.vstep:], g.c, u[f*g.ustep:], g.c, flags(more, false))
					more = true
				}
			}
		}
		lo = hi
	}
}

// reduce adds the groups' sums to the first's.
func (g *winoGroups) reduce(lo, hi int) {
	all := g.sums(0)[lo:hi]
	for i := 1; i < g.groups; i++ {
		add(g.pl.pool.variant, all, g.sums(i)[lo:hi], all, 0)
	}
}
