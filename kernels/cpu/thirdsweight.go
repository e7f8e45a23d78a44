//go:build cgo

package cpu

import "dev.gpustall/kernels"

// thirdsWeight computes dw tap by tap. For each tap it multiplies dy, transposed, by the pixels of x
// that the tap reads, and sums over pixels. Both operands are split in thirds, a block of pixels at
// a time.
//
// The work is cut twice. The pixels, in chunks of 32, fall into groups, each with a sum of its own.
// The result falls into ranges of K and of C. A work item is one group's sum for one range, so the
// order of additions is the same whichever thread takes the item.
type thirdsWeight struct {
	pl            *Plan
	c             kernels.Conv
	g             window
	kk            int // elements of a row of dw: R*S*C
	chunks        int // of pixels
	share         sharing
	k, channels   int // the size of a range
	fl            int // extra flags of the product where the result is written once
	left, right   region
	sums          region
	x, dy, dw     []float32
	bias          *biasSums
	lefts, rights int // bfloat16s of a worker's operands
}

// sharing is how the product is cut: into how many groups, ranges of K and ranges of C, and how many
// chunks a block has.
type sharing struct{ groups, rangesK, rangesC, block int }

// What each step costs a thread, in ns, measured on the processor of docs/results/performance.md.
// Speed depends little on these values.
const (
	splitCost   = 0.4      // to read a float32 and split it: 0.25 in cache, 0.6 from memory
	productCost = 2. / 340 // a multiplication and an addition
	nearCost    = 0.1      // to add to a float32 of a sum in the second-level cache
	farCost     = 0.35     // to add to one outside of it
)

const (
	operandBytes = 1000 << 10 // the most that a thread's operands take; 0.7 to 1.2 MB were equally fast
	nearBytes    = 1200 << 10 // the most of operands and sum together that stay in the second-level cache
)

func (pl convolutions) thirdsWeight(c kernels.Conv, x, dy, dw, dbias []float32) func() {
	w := &thirdsWeight{pl: pl.Plan, c: c, g: windowOf(c), kk: c.R * c.S * c.C, chunks: ceil(c.Pixels(), thirdsK), x: x, dy: dy, dw: dw}
	w.choose()
	s := &w.share
	w.k, w.channels = rangeOf(c.K, s.rangesK), rangeOf(c.C, s.rangesC)
	w.lefts, w.rights = leftThirds(w.k, s.block*thirdsK), rightThirds(w.channels, s.block*thirdsK)
	l, items := layout{pl: pl.Plan}, s.groups*s.rangesK*s.rangesC
	workers := min(pl.pool.threads, items)
	w.left, w.right = l.takeHalves(w.lefts*workers), l.takeHalves(w.rights*workers)
	if s.groups > 1 {
		w.sums = l.take(c.K * w.kk * s.groups)
	} else if s.block >= w.chunks {
		w.fl = streams(c.K * w.kk)
	}
	w.bias = newBiasSums(pl.Plan, s.groups, c.K, dbias)
	item, reduce := w.item, pl.spans(c.K*w.kk, w.reduce)
	return func() {
		w.bias.reset()
		pl.pool.each(items, item)
		if s.groups > 1 {
			reduce()
		}
		w.bias.finish()
	}
}

// rangeOf returns the size of a range where n is cut into that many, in whole panels.
func rangeOf(n, ranges int) int { return align(ceil(n, ranges), thirdsN) }

// choose finds the sharing that costs least.
func (w *thirdsWeight) choose() {
	c, threads := &w.c, w.pl.pool.threads
	size := c.K * w.kk
	best := 0.
	for groups := 1; groups <= min(8*threads, w.chunks) && (groups == 1 || groups*size <= sumFloats); groups *= 2 {
		chunks := ceil(w.chunks, groups)
		for rangesK := 1; rangesK <= ceil(c.K, thirdsN); rangesK *= 2 {
			for rangesC := 1; rangesC <= ceil(c.C, thirdsN); rangesC *= 2 {
				k, channels := rangeOf(c.K, rangesK), rangeOf(c.C, rangesC)
				for blocks := 1; blocks <= chunks; blocks++ {
					block := ceil(chunks, blocks)
					operands := 2 * (leftThirds(k, block*thirdsK) + rightThirds(channels, block*thirdsK))
					if operands > operandBytes {
						continue
					}
					result := nearCost
					if operands+4*k*channels*c.R*c.S > nearBytes {
						result = farCost
					}
					pixel := splitCost*float64(rangesC*c.K+rangesK*w.kk) + productCost*float64(rangesK*k*rangesC*channels*c.R*c.S)
					cost := pixel*float64(w.chunks*thirdsK) + result*float64(size*groups*ceil(chunks, block)) + farCost*float64(size*groups)
					items := groups * rangesK * rangesC
					cost *= float64(align(items, threads)) / float64(items) * (1 + 0.25*float64(threads)/float64(items))
					if best == 0 || cost < best {
						best, w.share = cost, sharing{groups, rangesK, rangesC, block}
					}
					break // shorter blocks cost more, as long as the sum stays in cache
				}
			}
		}
	}
}

// item computes a group's sum for one range of the result.
func (w *thirdsWeight) item(worker, i int) {
	s, c := &w.share, &w.c
	group, part := i/(s.rangesK*s.rangesC), i%(s.rangesK*s.rangesC)
	first, end := split(w.chunks, s.groups, group)
	k0, c0 := part/s.rangesC*w.k, part%s.rangesC*w.channels
	k1, c1 := min(k0+w.k, c.K), min(c0+w.channels, c.C)
	if k0 >= k1 || c0 >= c1 {
		return
	}
	sum := w.dw
	if s.groups > 1 {
		sum = w.pl.part(w.sums, group, c.K*w.kk)
	}
	left, right := w.pl.halvesPart(w.left, worker, w.lefts), w.pl.halvesPart(w.right, worker, w.rights)
	for n := first; n < end; n += s.block {
		lo, hi := n*thirdsK, min(min(n+s.block, end)*thirdsK, c.Pixels())
		if part == 0 {
			w.bias.add(group, w.dy[lo*c.K:hi*c.K])
		}
		packLeftThirds(k1-k0, hi-lo, w.dy[lo*c.K+k0:], c.K, left)
		block, panel := leftThirds(16, hi-lo), rightThirds(thirdsN, hi-lo)
		for t := range c.R * c.S {
			g := w.g
			g.dr, g.ds = t/c.S, t%c.S
			packTapPairs(&g, w.x, lo, hi, c0, c1, right, panel)
			gemmThirds(k1-k0, c1-c0, hi-lo, left, block, right, panel, sum[k0*w.kk+t*c.C+c0:], w.kk, nil, flags(n > first, false)|w.fl)
		}
	}
}

// reduce adds up elements lo..hi of the groups' sums.
func (w *thirdsWeight) reduce(lo, hi int) {
	const near = 4096 // elements that stay in the first-level cache while all groups are added
	size := w.c.K * w.kk
	for ; lo < hi; lo += near {
		to := w.dw[lo:min(lo+near, hi)]
		from := to
		copy(to, w.pl.part(w.sums, 0, size)[lo:])
		for i := 1; i < w.share.groups; i++ {
			add(w.pl.pool.variant, from, w.pl.part(w.sums, i, size)[lo:lo+len(to)], to, 0)
		}
	}
}
