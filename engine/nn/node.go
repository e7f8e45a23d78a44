package nn

type kind uint8

const (
	convNode kind = iota
	normNode
	maxPoolNode
	avgPoolNode
	linearNode
)

// node is one layer. Its inputs are values: 0 is the model's input, v the
// output of node v-1.
type node struct {
	kind kind
	name string // PyTorch's module name
	in   int
	res  int // value added before the ReLU of a batch norm; -1 without
	out  Shape

	begin int // with res: the first node of the residual block that this one ends

	size, stride, pad int  // of a convolution's filter or a pool's window
	relu              bool // applied to the output

	weight, bias   int // indices into Model.params, gamma and beta of a batch norm; -1 without
	mean, variance int // indices into Model.stats; -1 without
}

// builder adds nodes to a model. Each method returns its output's value.
type builder struct{ m *Model }

func (b *builder) add(n node) int {
	b.m.nodes = append(b.m.nodes, n)
	return len(b.m.nodes)
}

func (b *builder) param(p Param) int {
	b.m.params = append(b.m.params, p)
	return len(b.m.params) - 1
}

// conv adds a convolution, with bias and ReLU fused when act is set.
func (b *builder) conv(name string, x, k, size, stride, pad int, act bool) int {
	in := b.m.shape(x)
	n := node{kind: convNode, name: name, in: x, res: -1, size: size, stride: stride, pad: pad, relu: act, bias: -1, mean: -1, variance: -1}
	n.out = Shape{(in.H+2*pad-size)/stride + 1, (in.W+2*pad-size)/stride + 1, k}
	fan := in.C * size * size
	n.weight = b.param(Param{Name: name + ".weight", Shape: []int{k, in.C, size, size}, fanIn: fan, stem: x == 0})
	if act {
		n.bias = b.param(Param{Name: name + ".bias", Shape: []int{k}, fanIn: fan})
	}
	return b.add(n)
}

// norm adds a batch norm, then the value res unless it is -1, then ReLU if act.
func (b *builder) norm(name string, x, res int, act bool) int {
	in := b.m.shape(x)
	n := node{kind: normNode, name: name, in: x, res: res, out: in, relu: act}
	n.weight = b.param(Param{Name: name + ".weight", Shape: []int{in.C}, fill: 1})
	n.bias = b.param(Param{Name: name + ".bias", Shape: []int{in.C}})
	n.mean = len(b.m.stats)
	n.variance = n.mean + 1
	b.m.stats = append(b.m.stats,
		Param{Name: name + ".running_mean", Shape: []int{in.C}},
		Param{Name: name + ".running_var", Shape: []int{in.C}, fill: 1})
	return b.add(n)
}

func (b *builder) maxPool(name string, x, size, stride, pad int) int {
	in := b.m.shape(x)
	return b.add(node{kind: maxPoolNode, name: name, in: x, res: -1, size: size, stride: stride, pad: pad,
		out: Shape{(in.H+2*pad-size)/stride + 1, (in.W+2*pad-size)/stride + 1, in.C}, weight: -1, bias: -1, mean: -1, variance: -1})
}

func (b *builder) avgPool(name string, x int) int {
	return b.add(node{kind: avgPoolNode, name: name, in: x, res: -1, out: Shape{1, 1, b.m.shape(x).C}, weight: -1, bias: -1, mean: -1, variance: -1})
}

func (b *builder) linear(name string, x, out int) int {
	in := b.m.shape(x).C
	n := node{kind: linearNode, name: name, in: x, res: -1, out: Shape{1, 1, out}, mean: -1, variance: -1}
	n.weight = b.param(Param{Name: name + ".weight", Shape: []int{out, in}, fanIn: in})
	n.bias = b.param(Param{Name: name + ".bias", Shape: []int{out}, fanIn: in})
	return b.add(n)
}
