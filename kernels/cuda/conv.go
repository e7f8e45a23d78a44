package cuda

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/kernels"
)

// variant is a tile, and the number of parts that the depth of the product is cut
// into. The depth is the dimension that the product sums over; each part is summed
// by blocks of its own.
type variant struct {
	tile
	parts int
}

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
	kernels.Conv
	dir   direction
	typ   kernels.Type // of the kernels
	tiles []tile
	t     Target

	variants    []variant // the likeliest to be the fastest first
	experiments []variant // Configs leaves these out
}

// newConvPlan lists the variants that fit g, the estimated fastest first.
func newConvPlan(g kernels.Conv, dir direction, typ kernels.Type, t Target) convPlan {
	c := convPlan{Conv: g, dir: dir, typ: typ, t: t}
	vector := 16 / typ.Size()
	tensor := t.TensorCores(typ) && g.C%vector == 0 && g.K%vector == 0
	if typ == kernels.TF32 && !tensor {
		c.typ = kernels.F32
	}
	switch {
	case tensor && typ == kernels.TF32:
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
	c.variants = c.list(c.tiles, maxVariants)
	more := c.wgmmaTiles(tensor)
	c.tiles, c.variants = append(c.tiles, more...), append(c.variants, c.list(more, maxWgmmaVariants)...)
	if len(more) > 0 && typ == kernels.BF16 {
		c.experiments = []variant{c.whole(unfenced)}
	}
	return c
}

// wgmmaTiles lists the wgmma tiles that fit c. tensor says whether c's channels
// allow tensor cores.
func (c convPlan) wgmmaTiles(tensor bool) []tile {
	if c.t.SM != 90 || !tensor || c.typ.Size() != 2 {
		return nil
	}
	tiles := slices.Clone(wgmmaTiles)
	if c.dir == convBackwardWeight {
		tiles = append(tiles, wgmmaWideTiles...)
	}
	return slices.DeleteFunc(tiles, func(l tile) bool { return c.shared(l) > c.t.sharedLimit() })
}

// list returns the variants of some tiles, the estimated fastest first. At most
// splits of them cut the depth into parts.
func (c convPlan) list(tiles []tile, splits int) []variant {
	var vs []variant
	for _, l := range tiles {
		vs = append(vs, c.whole(l))
	}
	if c.dir != convBackwardWeight {
		vs = append(vs, c.splits(tiles, splits)...)
	}
	slices.SortStableFunc(vs, func(a, b variant) int { return cmp.Compare(c.cost(a), c.cost(b)) })
	return vs
}

// whole returns the variant of a tile that leaves the depth in one part. The depth of a
// weight gradient, all pixels of the batch, is always cut.
func (c convPlan) whole(l tile) variant {
	if c.dir == convBackwardWeight {
		return variant{l, c.weightParts(l)}
	}
	return variant{l, 1}
}

// name returns the tile's name. The number of parts follows it, if there are several and they are a
// choice; in a weight gradient they follow from the tile.
func (c convPlan) name(v variant) string {
	if c.dir == convBackwardWeight || v.parts == 1 {
		return v.tile.String()
	}
	return fmt.Sprintf("%sk%d", v.tile, v.parts)
}

func (c convPlan) configs() []string { return c.names(c.variants) }

func (c convPlan) unlisted() []string { return c.names(c.experiments) }

func (c convPlan) names(vs []variant) []string {
	names := make([]string, len(vs))
	for i, v := range vs {
		names[i] = c.name(v)
	}
	return names
}

// find returns the variant called config. Tests also ask for numbers of parts that
// are not listed.
func (c convPlan) find(config string) variant {
	for _, v := range slices.Concat(c.variants, c.experiments) {
		if c.name(v) == config {
			return v
		}
	}
	for _, l := range c.tiles {
		if k, ok := strings.CutPrefix(config, l.String()+"k"); ok {
			if parts, err := strconv.Atoi(k); err == nil && parts > 0 {
				return variant{l, parts}
			}
		}
	}
	return c.variants[0]
}

// shared returns the bytes of dynamic shared memory of a block, as mma_layout in
// conv_mma.h does.
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

// resident returns the number of blocks that a multiprocessor holds at once, by their
// registers and their shared memory. A multiprocessor has as much shared memory as
// one block may opt in to, or slightly more.
func (c convPlan) resident(l tile) int {
	if s := c.shared(l); s > 0 {
		return max(1, min(l.resident, c.t.sharedLimit()/s))
	}
	return l.resident
}

// scalars returns the parameters CONV_PARAMS of conv.h.
func (c convPlan) scalars() []Arg {
	return scalars(nil, c.N, c.H, c.W, c.C, c.K, c.R, c.S, c.OutH(), c.OutW(), c.Stride, c.Pad)
}

// conv appends the launch of c's kernel with the chosen tile. Its arguments are the
// buffers, the memory for parts of the sums, the geometry, and then last. A weight
// gradient has no memory for parts: its output is that memory.
func (p *planner) conv(c convPlan, l tile, gridY, gridZ int, parts Arg, bufs []Arg, last ...Arg) {
	m, n := c.results()
	name := c.dir.String() + "_" + c.typ.String()
	module := name
	if l.wgmma {
		module += "_wgmma"
	}
	if l.unfenced {
		module += "_unfenced"
	}
	if c.dir != convBackwardWeight {
		bufs = append(bufs, parts)
	}
	args := slices.Concat(bufs, c.scalars(), last)
	launch := p.launch(module, name+"_"+l.String(), [3]int{ceil(m, l.M) * ceil(n, l.N), gridY, gridZ}, l.threads, args...)
	launch.Shared, launch.Resident = uint32(c.shared(l)), c.resident(l)
}

// convKernel is one of the three products, which share the choice of a variant.
type convKernel struct {
	convPlan
	launch func(p *planner, v variant)
}

func (k convKernel) plan(p *planner, config string) { k.launch(p, k.find(config)) }

func newConvForward(op kernels.ConvForward, t Target) convKernel {
	c := newConvPlan(op.Conv, convForward, op.Type, t)
	return convKernel{c, func(p *planner, v variant) {
		bias, parts := optional(op.Bias, 3), p.parts(v.parts, op.OutLen())
		p.conv(c, v.tile, 1, v.parts, parts, []Arg{buffer(0), buffer(1), buffer(2), bias}, boolean(op.ReLU))
		if v.parts > 1 {
			p.sumParts(partSum{parts, buffer(2), bias, op.Type, op.OutLen(), op.K, v.parts}, op.ReLU, false)
		}
	}}
}

func newConvBackwardData(op kernels.ConvBackwardData, t Target) convKernel {
	c := newConvPlan(op.Conv, convBackwardData, op.Type, t)
	return convKernel{c, func(p *planner, v variant) {
		parts := p.parts(v.parts, op.InLen())
		p.conv(c, v.tile, c.phases(), v.parts, parts, []Arg{buffer(0), buffer(1), buffer(2)}, boolean(op.Accumulate))
		if v.parts > 1 {
			p.sumParts(partSum{parts, buffer(2), Arg{Kind: Null}, op.Type, op.InLen(), op.C, v.parts}, false, op.Accumulate)
		}
	}}
}

// newConvBackwardWeight returns kernels with one buffer for results: dw, or the parts of its sums.
func newConvBackwardWeight(op kernels.ConvBackwardWeight, t Target) convKernel {
	c := newConvPlan(op.Conv, convBackwardWeight, op.Type, t)
	return convKernel{c, func(p *planner, v variant) {
		out := buffer(2)
		if v.parts > 1 {
			out = p.parts(v.parts, op.WeightLen())
		}
		per := ceil(c.steps(v.tile), v.parts) * v.K
		p.conv(c, v.tile, v.parts, 1, Arg{}, []Arg{buffer(0), buffer(1), out}, scalar(per))
		if v.parts > 1 {
			p.sumParts(partSum{out, buffer(2), Arg{Kind: Null}, kernels.F32, op.WeightLen(), op.WeightLen(), v.parts}, false, false)
		}
		if op.Bias {
			s := p.columns(op.Pixels(), op.K, op.Type)
			p.launch("reduce", "sum_rows_"+s.name, s.sums, sumThreads,
				buffer(1), buffer(3), scratchAt(p.scratch(4*s.parts*op.K)), counterAt(0), scalar(op.Pixels()), scalar(op.K))
		}
	}}
}

// parts reserves memory for parts of n sums, if there are several.
func (p *planner) parts(parts, n int) Arg {
	if parts == 1 {
		return Arg{Kind: Null}
	}
	return scratchAt(p.scratch(4 * parts * n))
}

// partSum describes a launch of sum_parts: n sums, in rows of width, each in some parts.
type partSum struct {
	from, out, bias Arg
	typ             kernels.Type // of out
	n, width, parts int
}

// sumParts appends the launch that adds the parts in their order, then adds the bias,
// applies ReLU or accumulates, as asked. Where there are many parts of few results,
// several threads share the parts of one result.
func (p *planner) sumParts(s partSum, relu, accumulate bool) {
	name, vector := vectored(s.typ, s.width)
	turns, slices := s.n/vector, 1
	for slices < 16 && s.parts/slices >= 16 && ceil(turns*slices, elementThreads) < 2*p.t.Processors {
		slices *= 2
	}
	p.launch("reduce", "sum_parts_"+name, p.stride(turns*slices), elementThreads, s.from, s.out, s.bias,
		scalar(s.n), scalar(s.width), scalar(s.parts), scalar(slices), boolean(relu), boolean(accumulate))
}
