//go:build cgo

package cpu

import "dev.gpustall/kernels"

// dotPixels is how many pixels a product over pixels takes at a time.
const dotPixels = 1024

// dotWeight computes dw as a product over pixels. The left operand is dy transposed, the right one
// is pairs of pixels of x.
func (pl bf16) dotWeight(op kernels.ConvBackwardWeight, bufs [][]byte) func() {
	run := pl.dotWeightByTap
	if op.C%dotted != 0 {
		run = pl.dotWeightByRow
	}
	weight := run(op.Conv, halves(bufs[0]), halves(bufs[1]), kernels.Floats(bufs[2]))
	if !op.Bias {
		return weight
	}
	sums := pl.columnSums(halves(bufs[1]), op.Pixels(), op.K, kernels.Floats(bufs[3]))
	return func() {
		weight()
		sums()
	}
}

// dotWeightByTap goes by rounds of pixels. Each round transposes its dy once, then shares out
// filter positions and channels. Each item writes elements of dw of its own.
func (pl bf16) dotWeightByTap(c kernels.Conv, x, dy []uint16, dw []float32) func() {
	taps, pixels := c.R*c.S, c.Pixels()
	round := min(align(max(1<<18/c.K, 2*dotPixels), dotPixels), align(pixels, dotPixels))
	group := dotted // channels of an item; the more there are, the less often dy is read
	for c.C%(2*group) == 0 && taps*c.C/(2*group) >= 8*pl.pool.threads && group < 4*dotted {
		group *= 2
	}
	l := layout{pl: pl.Plan}
	turned := l.takeHalves(c.K * round)
	panels := l.takeHalves(dotPixels * group * pl.pool.threads)
	var first, end int
	turn := func(_, i int) {
		lo := first + i*dotPixels
		turnRows(c.K, min(dotPixels, end-lo), dy[lo*c.K:], c.K, pl.halvesAt(turned)[i*dotPixels*16:], 16*round)
	}
	groups := c.C / group
	multiply := func(worker, i int) {
		t, c0 := i/groups, i%groups*group
		g := window{h: c.H, w: c.W, c: c.C, oh: c.OutH(), ow: c.OutW(), stride: c.Stride, pad: c.Pad, dr: t / c.S, ds: t % c.S}
		b := pl.halvesPart(panels, worker, dotPixels*group)
		for lo := first; lo < end; lo += dotPixels {
			n := min(dotPixels, end-lo)
			k := align(n, dotted)
			pairTap(&g, x, lo, lo+n, c0, c0+group, b, k*dotted)
			for j := 0; n < k && j < group/dotted; j++ {
				clear(b[j*k*dotted+align(n, 2)*dotted : (j+1)*k*dotted])
			}
			a := rows16{p: pl.halvesAt(turned)[(lo-first)*16:], ld: dotted, block: 16 * round, step: 16 * dotted}
			gemm(pl.pool.dots, c.K, group, k, a, b, dw[t*c.C+c0:], taps*c.C, nil, flags(lo > 0, false))
		}
	}
	return func() {
		for first = 0; first < pixels; first = end {
			end = min(first+round, pixels)
			pl.pool.each(ceil(end-first, dotPixels), turn)
			pl.pool.each(taps*groups, multiply)
		}
	}
}

// dotWeightByRow gathers whole windows, for few channels. dw is small then, so each group of
// blocks has a sum of its own.
func (pl bf16) dotWeightByRow(c kernels.Conv, x, dy []uint16, dw []float32) func() {
	l := layout{pl: pl.Plan}
	s := gatherWindows(&l, windowOf(c), x)
	s.direct = false
	if s.a.n == 0 {
		s.a = l.takeHalves(s.part() * pl.pool.threads)
	}
	threads, pixels := pl.pool.threads, c.Pixels()
	blocks := ceil(pixels, s.rows)
	groups := min(8*threads, max(sumFloats/(c.K*s.kp), threads), blocks)
	panels := l.takeHalves(s.rows * s.kp * threads)
	turned := l.takeHalves(s.rows * c.K * threads)
	sums := l.take(c.K * s.kp * groups)
	group := func(worker, i int) {
		lo, hi := split(blocks, groups, i)
		b, d := pl.halvesPart(panels, worker, s.rows*s.kp), pl.halvesPart(turned, worker, s.rows*c.K)
		sum := pl.part(sums, i, c.K*s.kp)
		for n := lo; n < hi; n++ {
			p, q := n*s.rows, min((n+1)*s.rows, pixels)
			k := align(q-p, dotted)
			pairRows(s.kp, q-p, s.block(worker, p, q).p, s.kp, 0, s.kp/dotted, b, k*dotted)
			for j := 0; q-p < k && j < s.kp/dotted; j++ {
				clear(b[j*k*dotted+align(q-p, 2)*dotted : (j+1)*k*dotted])
			}
			turnRows(c.K, q-p, dy[p*c.K:], c.K, d, 16*k)
			a := rows16{p: d, ld: dotted, block: 16 * k, step: 16 * dotted}
			gemm(pl.pool.dots, c.K, s.kp, k, a, b, sum, s.kp, nil, flags(n > lo, false))
		}
	}
	reduce := pl.parallel(ceil(c.K*s.kk, spanFloats), c.K, func(k0, k1 int) {
		for k := k0; k < k1; k++ {
			row := dw[k*s.kk : (k+1)*s.kk]
			copy(row, pl.part(sums, 0, c.K*s.kp)[k*s.kp:])
			for i := 1; i < groups; i++ {
				for j, v := range pl.part(sums, i, c.K*s.kp)[k*s.kp:][:s.kk] {
					row[j] += v
				}
			}
		}
	})
	return func() {
		pl.pool.each(groups, group)
		reduce()
	}
}

// columnSums is Plan.columnSums for bfloat16s.
func (pl bf16) columnSums(x []uint16, rows, c int, out []float32) func() {
	parts := min(ceil(rows, 1024), 4*pl.pool.threads)
	sums := newBiasSums(pl.Plan, parts, c, out)
	add := func(_, i int) {
		lo, hi := split(rows, parts, i)
		addColumns(pl.pool.variant, x[lo*c:hi*c], c, sums.slot(i))
	}
	return func() {
		sums.reset()
		pl.pool.each(parts, add)
		sums.finish()
	}
}
