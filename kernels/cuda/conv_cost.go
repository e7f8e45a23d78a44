package cuda

import (
	"cmp"
	"math"
	"slices"

	"dev.gpustall/kernels"
)

// Estimates of what a variant of a convolution costs. They give the order in which
// an autotuner tries the variants, and the variant that runs when nothing was timed.
// The figures are an H100's; on other GPUs the proportions are about the same.
const (
	wgmmaRate    = 2.4e6 // multiply-adds a microsecond of one multiprocessor
	tensorRate16 = 1.8e6 // by mma.sync
	tensorRate32 = 0.9e6 // tf32
	coreRate     = 0.2e6 // CUDA cores, float32
	memoryRate   = 23e3  // bytes a microsecond: a multiprocessor's share of 3.0 TB/s
	waveStart    = 1.5   // microseconds until a block's first loads are there and its last results gone
	secondLaunch = 3.0   // microseconds of one more kernel, which must wait for the first

	maxSplit      = 16       // parts of the depth, weight gradients aside
	maxSplitBytes = 64 << 20 // of device memory for them
	minSplitSteps = 8        // tiles of depth in a part
	maxWaves      = 4        // of the blocks of a weight gradient
	maxVariants   = 4        // with a split depth, of one operation, wgmma's aside
	promising     = 1.15     // times the best's cost: the estimate is rough
)

// results returns the rows and columns of the product, in a data gradient those of
// its largest phase.
func (c convPlan) results() (m, n int) {
	switch c.dir {
	case convForward:
		return c.Pixels(), c.K
	case convBackwardData:
		return c.N * ceil(c.H, c.Stride) * ceil(c.W, c.Stride), c.C
	}
	return c.K, c.R * c.S * c.C
}

// phases returns the number of products that a data gradient is made of: one for each
// class of input pixels that the same filter taps reach.
func (c convPlan) phases() int { return c.Stride * c.Stride }

// sums returns the number of results, of all phases together.
func (c convPlan) sums() int {
	switch c.dir {
	case convForward:
		return c.OutLen()
	case convBackwardData:
		return c.InLen()
	}
	return c.WeightLen()
}

// steps returns the number of depth tiles that a result is summed from, in a data gradient
// on the average of its phases. There, no depth tile spans two filter taps.
func (c convPlan) steps(l tile) int {
	switch c.dir {
	case convForward:
		return ceil(c.R*c.S*c.C, l.K)
	case convBackwardData:
		return ceil(c.R*c.S*ceil(c.K, l.K), c.phases())
	}
	return ceil(c.Pixels(), l.K)
}

// longest is steps in the phase with the most taps.
func (c convPlan) longest(l tile) int {
	if c.dir != convBackwardData {
		return c.steps(l)
	}
	return ceil(c.R, c.Stride) * ceil(c.S, c.Stride) * ceil(c.Conv.K, l.K)
}

// blocks returns the number of blocks of a launch that leaves the depth in one part.
func (c convPlan) blocks(l tile) int {
	m, n := c.results()
	count := ceil(m, l.M) * ceil(n, l.N)
	if c.dir == convBackwardData {
		count *= c.phases()
	}
	return count
}

// weightParts returns the number of blocks that share a tile of a weight gradient, whose
// depth is all pixels. It is the cheapest of the numbers that fill the GPU with
// blocks a whole number of times; cost includes adding up the parts.
func (c convPlan) weightParts(l tile) int {
	steps, best := c.steps(l), variant{l, 1}
	for each := 1; each <= maxWaves*c.resident(l); each++ { // blocks of a multiprocessor
		parts := max(1, min(each*c.processors()/c.blocks(l), steps/minSplitSteps))
		parts = ceil(steps, ceil(steps, parts)) // none empty
		if v := (variant{l, parts}); c.cost(v) < c.cost(best) {
			best = v
		}
	}
	return best.parts
}

// splits lists at most count variants that cut the depth into parts and may be worth
// trying. For each tile it takes the cheapest number of parts, if that costs little
// more than the best variant with one part.
func (c convPlan) splits(tiles []tile, count int) []variant {
	whole := math.Inf(1)
	for _, l := range tiles {
		whole = min(whole, c.cost(variant{l, 1}))
	}
	var vs []variant
	for _, l := range tiles {
		best := variant{l, 1}
		most := min(maxSplit, c.steps(l)/minSplitSteps, maxSplitBytes/(4*c.sums()))
		for parts := 2; parts <= most; parts++ {
			if v := (variant{l, parts}); c.cost(v) < c.cost(best) {
				best = v
			}
		}
		if best.parts > 1 && c.cost(best) < promising*whole {
			vs = append(vs, best)
		}
	}
	slices.SortStableFunc(vs, func(a, b variant) int { return cmp.Compare(c.cost(a), c.cost(b)) })
	vs = slices.DeleteFunc(vs, func(v variant) bool { return c.cost(v) > promising*c.cost(vs[0]) })
	return vs[:min(len(vs), count)]
}

func (c convPlan) processors() int { return max(c.t.Processors, 1) }

// cost estimates the microseconds of a variant: the number of times that its blocks
// fill the GPU, times what one filling takes. If there are several parts, the launch
// that adds them up and the traffic of writing and reading them come on top.
func (c convPlan) cost(v variant) float64 {
	l, p := v.tile, c.processors()
	steps, longest := ceil(c.steps(l), v.parts), ceil(c.longest(l), v.parts)
	resident := c.resident(l)
	// time is how long r blocks take that share a multiprocessor.
	time := func(r, steps int) float64 {
		work := float64(r*steps) * float64(l.M*l.N*l.K)
		return waveStart + work/(c.rate(l)*busy(r*l.threads)/busy(resident*l.threads))
	}
	blocks := c.blocks(l) * v.parts
	t := float64(blocks/(p*resident)) * time(resident, steps)
	if rest := blocks % (p * resident); rest > 0 {
		t += time(ceil(rest, p), steps)
	}
	t = max(t, time(1, longest))
	if v.parts > 1 {
		t += secondLaunch + float64(2*4*v.parts*c.sums())/(float64(p)*c.partRate(v))
	}
	return t
}

// busy returns the share of its peak rate that a multiprocessor reaches with that many
// threads to hide latencies with. A guess: half with two warps, four fifths with
// eight.
func busy(threads int) float64 {
	warps := float64(threads) / 32
	return warps / (warps + 2)
}

// rate returns what a full multiprocessor computes with tile l, in multiply-adds a
// microsecond.
func (c convPlan) rate(l tile) float64 {
	switch {
	case l.wgmma:
		return wgmmaRate * l.rate
	case l.stages == 0:
		return coreRate * l.rate
	case c.typ == kernels.TF32:
		return tensorRate32 * l.rate
	}
	return tensorRate16 * l.rate
}

// partRate returns how fast parts are written and read, in bytes a microsecond for each
// multiprocessor. That is the memory's rate, or twice the rate if the parts fit in half
// of the L2 cache.
func (c convPlan) partRate(v variant) float64 {
	cache := 6 << 20 // V100 and the smaller GPUs of later generations
	switch c.t.SM {
	case 80:
		cache = 40 << 20
	case 90, 100, 103:
		cache = 50 << 20
	}
	if 4*v.parts*c.sums() <= cache/2 {
		return 2 * memoryRate
	}
	return memoryRate
}
