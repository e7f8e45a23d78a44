package nn

// layerType is what a node computes.
type layerType uint8

const (
	convNode layerType = iota
	normNode
	maxPoolNode
	avgPoolNode
	linearNode
	sumNode
)

// window is a convolution's filter or a pool's window: how many rows and columns it has,
// the stride, and the padding. Stride and padding count for frames too, where the window
// has several.
type window struct{ size, stride, pad, frames int }

// out returns the shape of the output on in, with in's channels.
func (w window) out(in Shape) Shape {
	side := func(n, size int) int { return (n+2*w.pad-size)/w.stride + 1 }
	s := Shape{H: side(in.H, w.size), W: side(in.W, w.size), C: in.C, T: in.T}
	if w.frames > 1 {
		s.T = side(in.T, w.frames)
	}
	return s
}

// step returns the stride over frames.
func (w window) step() int {
	if w.frames > 1 {
		return w.stride
	}
	return 1
}

// node is one layer. Its inputs are values: 0 is the model's input, v the
// output of node v-1.
type node struct {
	typ  layerType
	name string // PyTorch's module name
	in   int
	res  int // value added before the ReLU of a batch norm or sum; -1 without
	out  Shape

	begin int // with res: the first node of the residual block that ends here

	window
	relu bool // applied to the output

	weight, bias   int // indices into Model.params, gamma and beta of a batch norm; -1 without
	mean, variance int // indices into Model.stats; -1 without
}

// builder adds nodes to a model. Each method returns its output's value.
type builder struct {
	m      *Model
	spec   Spec
	blocks int // residual blocks in all
}

// add adds a layer that reads x.
func (b *builder) add(typ layerType, name string, x int, out Shape) *node {
	b.m.nodes = append(b.m.nodes, node{typ: typ, name: name, in: x, res: -1, out: out, weight: -1, bias: -1, mean: -1, variance: -1})
	return &b.m.nodes[len(b.m.nodes)-1]
}

// last returns the value of the layer added last.
func (b *builder) last() int { return len(b.m.nodes) }

func (b *builder) param(p Param) int {
	b.m.params = append(b.m.params, p)
	return len(b.m.params) - 1
}

// ending is what follows a convolution and is fused with it.
type ending uint8

const (
	bare ending = iota
	bias
	biasReLU
)

// conv adds a convolution to k channels. On a clip it goes over frames too, with stride 1.
func (b *builder) conv(name string, x, k int, w window, end ending) int {
	in := b.m.shape(x)
	out := w.out(in)
	out.C = k
	n := b.add(convNode, name, x, out)
	n.window, n.relu = w, end == biasReLU
	filter := []int{k, in.C, w.size, w.size}
	if in.T > 0 {
		filter = []int{k, in.C, w.frames, w.size, w.size}
	}
	fan := in.C * w.frames * w.size * w.size
	n.weight = b.param(Param{Name: name + ".weight", Shape: filter, fanIn: fan, gain: 1, stem: x == 0})
	if end != bare {
		n.bias = b.param(Param{Name: name + ".bias", Shape: []int{k}, fanIn: fan, gain: 1})
	}
	return b.last()
}

// norm adds a batch norm, then the value res unless it is -1, then ReLU if act.
func (b *builder) norm(name string, x, res int, act bool) int {
	in := b.m.shape(x)
	n := b.add(normNode, name, x, in)
	n.res, n.relu = res, act
	n.weight = b.param(Param{Name: name + ".weight", Shape: []int{in.C}, fill: 1})
	n.bias = b.param(Param{Name: name + ".bias", Shape: []int{in.C}})
	n.mean = len(b.m.stats)
	n.variance = n.mean + 1
	b.m.stats = append(b.m.stats,
		Param{Name: name + ".running_mean", Shape: []int{in.C}},
		Param{Name: name + ".running_var", Shape: []int{in.C}, fill: 1})
	return b.last()
}

// sum adds x and res, then ReLU. No other layer of the residual block may read them: in
// the backward pass they share the gradient's memory until the block's first layer.
func (b *builder) sum(name string, x, res int) int {
	n := b.add(sumNode, name, x, b.m.shape(x))
	n.res, n.relu = res, true
	return b.last()
}

func (b *builder) maxPool(name string, x int, w window) int {
	b.add(maxPoolNode, name, x, w.out(b.m.shape(x))).window = w
	return b.last()
}

func (b *builder) avgPool(name string, x int) int {
	b.add(avgPoolNode, name, x, Shape{H: 1, W: 1, C: b.m.shape(x).C})
	return b.last()
}

func (b *builder) linear(name string, x, out int) int {
	in := b.m.shape(x).C
	n := b.add(linearNode, name, x, Shape{H: 1, W: 1, C: out})
	n.weight = b.param(Param{Name: name + ".weight", Shape: []int{out, in}, fanIn: in, gain: 1})
	n.bias = b.param(Param{Name: name + ".bias", Shape: []int{out}, fanIn: in, gain: 1})
	return b.last()
}
