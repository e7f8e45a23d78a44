package nn

// ReadGrad copies a parameter's gradient, as the last step left it.
func (s *State) ReadGrad(name string) ([]float32, error) { return s.read(s.grads, name) }

// Layer is one row of a model's table.
type Layer struct {
	Name   string
	Kind   string // "conv", "bn", "maxpool", "avgpool", "linear", "sum"
	Out    Shape  // of one sample's output
	Params int
	FLOPs  float64 // of one sample's forward pass; convolutions and linear layers only
}

// Layers lists the model's layers in forward order.
func (m *Model) Layers() []Layer {
	ls := make([]Layer, len(m.nodes))
	for i, n := range m.nodes {
		l := Layer{Name: n.name, Kind: n.typ.String(), Out: n.out, FLOPs: 2 * float64(m.macs(n))}
		if n.weight >= 0 {
			l.Params += m.params[n.weight].Len()
		}
		if n.bias >= 0 {
			l.Params += m.params[n.bias].Len()
		}
		ls[i] = l
	}
	return ls
}

// FLOPs is one sample's forward pass, convolutions and linear layers only, a
// multiply-add counted as two. A training step costs about three times as much.
func (m *Model) FLOPs() float64 {
	var f float64
	for _, n := range m.nodes {
		f += 2 * float64(m.macs(n))
	}
	return f
}

func (m *Model) macs(n node) int {
	in := m.shape(n.in)
	switch n.typ {
	case convNode:
		return n.out.elems() * n.frames * n.size * n.size * in.C
	case linearNode:
		return n.out.C * in.C
	}
	return 0
}

func (t layerType) String() string {
	return [...]string{"conv", "bn", "maxpool", "avgpool", "linear", "sum"}[t]
}
