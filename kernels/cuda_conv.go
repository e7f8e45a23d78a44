package kernels

import (
	"cmp"
	"fmt"
	"slices"
)

// tile is the shape of a convolution kernel's blocks: M x N results, the depth in
// steps of K.
type tile struct {
	M, N, K  int
	stages   int     // tiles under way; 0: CUDA cores
	vector   int     // elements a load brings, for CUDA cores
	threads  int     // of a block
	resident int     // blocks a multiprocessor holds, by their registers
	rate     float64 // how near a warp's tile comes to the peak; an estimate
	wgmma    bool    // by Hopper's wgmma: cuda_wgmma.go
}

func (t tile) String() string {
	switch {
	case t.wgmma:
		return fmt.Sprintf("wgmma%dx%dx%ds%d", t.M, t.N, t.K, t.stages)
	case t.stages == 0:
		return fmt.Sprintf("simt%dx%dv%d", t.M, t.N, t.vector)
	}
	return fmt.Sprintf("mma%dx%dx%ds%d", t.M, t.N, t.K, t.stages)
}

func mma(m, n, k, stages, threads, resident int, rate float64) tile {
	return tile{M: m, N: n, K: k, stages: stages, threads: threads, resident: resident, rate: rate}
}

func simt(m, n, vector, threads, resident int, rate float64) tile {
	return tile{M: m, N: n, K: 8, vector: vector, threads: threads, resident: resident, rate: rate}
}

// The tiles of conv_tiles.h and conv_tiles_simt.h.
var (
	tiles16 = []tile{
		mma(128, 128, 32, 4, 128, 2, 1),
		mma(128, 128, 64, 3, 256, 1, 0.9),
		mma(128, 256, 32, 3, 256, 1, 1),
		mma(256, 64, 32, 4, 128, 2, 1),
		mma(128, 64, 32, 4, 128, 3, 0.85),
		mma(128, 64, 64, 3, 128, 3, 0.85),
		mma(64, 64, 32, 4, 128, 5, 0.65),
	}
	tilesTuring = []tile{
		mma(128, 128, 32, 2, 256, 1, 0.9),
		mma(128, 64, 32, 2, 128, 2, 0.85),
		mma(64, 64, 32, 2, 128, 4, 0.65),
	}
	wideTile16 = mma(64, 128, 32, 4, 128, 3, 0.85) // weight gradients only
	tilesTF32  = []tile{
		mma(128, 128, 16, 4, 128, 2, 1),
		mma(128, 64, 16, 4, 128, 3, 0.85),
		mma(64, 64, 16, 4, 128, 5, 0.65),
	}
	simtTiles32 = []tile{
		simt(128, 128, 4, 256, 1, 1),
		simt(128, 64, 4, 128, 3, 0.95),
		simt(64, 64, 4, 64, 6, 0.9),
	}
	simtTile16 = simt(128, 64, 4, 128, 3, 0.95)
	simtTile1  = simt(64, 64, 1, 64, 6, 0.5) // any number of channels
)

// direction is one of the three products of a convolution.
type direction uint8

const (
	convForward direction = iota
	convBackwardData
	convBackwardWeight
)

func (d direction) String() string {
	return [...]string{"conv_forward", "conv_backward_data", "conv_backward_weight"}[d]
}

// convPlan says which kernels can compute a convolution.
type convPlan struct {
	Conv
	dir   direction
	typ   Type // of the kernels
	tiles []tile
	t     CUDATarget
}

// sharedLimit is the shared memory a block may opt in to (CUDA C++ Programming
// Guide, "Technical Specifications per Compute Capability").
func (t CUDATarget) sharedLimit() int {
	switch {
	case t.Shared > 0:
		return t.Shared
	case t.SM == 90 || t.SM == 100 || t.SM == 103:
		return 227 << 10
	case t.SM == 80 || t.SM == 87:
		return 163 << 10
	case t.SM >= 80:
		return 99 << 10
	case t.SM >= 75:
		return 64 << 10
	}
	return 96 << 10
}

// newConvPlan lists the tiles that fit g, the estimated fastest first.
func newConvPlan(g Conv, dir direction, typ Type, t CUDATarget) convPlan {
	c := convPlan{Conv: g, dir: dir, typ: typ, t: t}
	vector := 16 / typ.Size()
	cores := t.SM >= 80 && typ != F32 || t.SM >= 75 && typ == F16
	tensor := cores && g.C%vector == 0 && g.K%vector == 0
	if typ == TF32 && !tensor {
		c.typ = F32
	}
	switch {
	case tensor && typ == TF32:
		c.tiles = tilesTF32
	case tensor && t.SM < 80:
		c.tiles = tilesTuring
	case tensor:
		c.tiles = tiles16
		if dir == convBackwardWeight {
			c.tiles = append(slices.Clone(tiles16), wideTile16)
		}
	case g.C%4 != 0 || g.K%4 != 0:
		c.tiles = []tile{simtTile1}
	case typ.Size() == 2:
		c.tiles = []tile{simtTile16, simtTile1}
	default:
		c.tiles = append(slices.Clone(simtTiles32), simtTile1)
	}
	c.tiles = slices.DeleteFunc(slices.Clone(c.tiles), func(l tile) bool { return c.shared(l) > t.sharedLimit() })
	c.sort(c.tiles)
	c.tiles = append(c.tiles, c.wgmmaTiles(tensor)...)
	return c
}

// sort puts the tile that is estimated to be the fastest first.
func (c convPlan) sort(tiles []tile) {
	slices.SortStableFunc(tiles, func(a, b tile) int { return cmp.Compare(c.cost(a), c.cost(b)) })
}

func (c convPlan) configs() []string {
	names := make([]string, len(c.tiles))
	for i, l := range c.tiles {
		names[i] = l.String()
	}
	return names
}

// shared is the dynamic shared memory of a block: mma_layout in conv_mma.h.
func (c convPlan) shared(l tile) int {
	if l.stages == 0 {
		return 0
	}
	size := c.typ.Size()
	operand := func(width int, deep bool) int {
		if !deep && size == 4 { // padded rows
			return l.K * (width + 8) * size
		}
		return l.K * width * size
	}
	pipeline := l.stages * (operand(l.M, c.dir != convBackwardWeight) + operand(l.N, c.dir == convForward))
	if size == 2 {
		pipeline = max(pipeline, l.M*(l.N+8)*size) // the results, gathered
	}
	if l.wgmma {
		pipeline += wgmmaAlign
	}
	return pipeline
}

// resident is the number of blocks that a multiprocessor holds at once: its shared
// memory is what one block may have, or slightly more.
func (c convPlan) resident(l tile) int {
	if s := c.shared(l); s > 0 {
		return max(1, min(l.resident, c.t.sharedLimit()/s))
	}
	return l.resident
}

// matrix is the product's shape: the results' rows and columns, and the depth.
func (c convPlan) matrix() (m, n, k int) {
	switch c.dir {
	case convForward:
		return c.pixels(), c.K, c.R * c.S * c.C
	case convBackwardData:
		// Of the largest phase; the depth of the average one.
		rows, cols := ceil(c.H, c.Stride), ceil(c.W, c.Stride)
		return c.N * rows * cols, c.C, ceil(c.R*c.S*c.K, c.phases())
	}
	return c.K, c.R * c.S * c.C, c.pixels()
}

// phases is the number of classes of input pixels that see different taps.
func (c convPlan) phases() int { return c.Stride * c.Stride }

func (c convPlan) tileCount(l tile) int {
	m, n, _ := c.matrix()
	count := ceil(m, l.M) * ceil(n, l.N)
	if c.dir == convBackwardData {
		count *= c.phases()
	}
	return count
}

// split is the number of output pixels that one block of a weight gradient sums,
// and the number of blocks that share a tile. Enough to fill the GPU, but no less
// than 8 steps a block.
func (c convPlan) split(l tile) (per, parts int) {
	_, _, depth := c.matrix()
	steps := ceil(depth, l.K)
	room := max(c.t.Processors, 1) * c.resident(l)
	parts = max(1, min(room/c.tileCount(l), steps/8))
	per = ceil(steps, parts) * l.K
	return per, ceil(depth, per)
}

// cost estimates the time of a tile, in multiply-adds of one multiprocessor: how
// often the GPU must be filled, by what a filling takes. For ordering only.
func (c convPlan) cost(l tile) float64 {
	m, n, depth := c.matrix()
	blocks, sum := c.tileCount(l), 0.0
	if c.dir == convBackwardWeight {
		per, parts := c.split(l)
		depth = per
		blocks *= parts
		if parts > 1 { // the parts are written and read: about 100 multiply-adds in 4 bytes' time
			sum = 200 * float64(parts) * float64(m*n) / float64(max(c.t.Processors, 1))
		}
	}
	processors := max(c.t.Processors, 1)
	resident := min(c.resident(l), ceil(blocks, processors))
	waves := ceil(blocks, processors*resident)
	return float64(waves*resident)*float64(l.M*l.N)*float64(ceil(depth, l.K)*l.K)/l.rate + sum
}

func (c convPlan) find(config string) tile {
	for _, l := range c.tiles {
		if l.String() == config {
			return l
		}
	}
	return c.tiles[0]
}

// scalars are the parameters CONV_PARAMS of conv.h.
func (c convPlan) scalars() []CUDAArg {
	return scalars(nil, c.N, c.H, c.W, c.C, c.K, c.R, c.S, c.OutH(), c.OutW(), c.Stride, c.Pad)
}

// conv appends the launch of c's kernel with the chosen tile. The buffers come
// before the geometry, the last arguments after it.
func (p *cudaPlanner) conv(c convPlan, l tile, gridY int, bufs []CUDAArg, last ...CUDAArg) {
	m, n, _ := c.matrix()
	name := c.dir.String() + "_" + c.typ.String()
	module := name
	if l.wgmma {
		module += "_wgmma"
	}
	args := slices.Concat(bufs, c.scalars(), last)
	launch := p.launch(module, name+"_"+l.String(), [3]int{ceil(m, l.M) * ceil(n, l.N), gridY, 1}, l.threads, args...)
	launch.Shared = uint32(c.shared(l))
}

func (p *cudaPlanner) convForward(op ConvForward) {
	c := newConvPlan(op.Conv, convForward, op.Type, p.t)
	p.conv(c, c.find(p.plan.Config), 1,
		[]CUDAArg{buffer(0), buffer(1), buffer(2), optional(op.Bias, 3)}, boolean(op.ReLU))
}

func (p *cudaPlanner) convBackwardData(op ConvBackwardData) {
	c := newConvPlan(op.Conv, convBackwardData, op.Type, p.t)
	p.conv(c, c.find(p.plan.Config), c.phases(),
		[]CUDAArg{buffer(0), buffer(1), buffer(2)}, boolean(op.Accumulate))
}

// convBackwardWeight sums each tile's depth in parts, and these in their order.
func (p *cudaPlanner) convBackwardWeight(op ConvBackwardWeight) {
	c := newConvPlan(op.Conv, convBackwardWeight, op.Type, p.t)
	l := c.find(p.plan.Config)
	per, parts := c.split(l)
	out := buffer(2)
	if parts > 1 {
		out = scratchAt(p.scratch(4 * parts * op.weights()))
	}
	p.conv(c, l, parts, []CUDAArg{buffer(0), buffer(1), out}, scalar(per))
	if parts > 1 {
		p.launch("reduce", "sum_parts", p.stride(ceil(op.weights(), 4)), elementThreads,
			out, buffer(2), scalar(op.weights()), scalar(parts))
	}
	if op.Bias {
		s := p.columns(op.pixels(), op.K, op.Type)
		p.launch("reduce", "sum_rows_"+s.name, s.sums, sumThreads,
			buffer(1), buffer(3), scratchAt(p.scratch(4*s.parts*op.K)), counterAt(0), scalar(op.pixels()), scalar(op.K))
	}
}
