// Package nn describes networks and turns them into static plans: for a batch
// size and a compute type, the full list of launches of a training step and of
// an evaluation, with every buffer's place decided before the first step. There
// is no autograd; a plan is the network walked once forward and once backward
// at build time, and is then only data.
package nn

import (
	"errors"
	"fmt"
	"strings"

	"dev.gpustall/engine/fault"
)

// Shape is one sample's: rows, columns, channels.
type Shape struct{ H, W, C int }

func (s Shape) elems() int { return s.H * s.W * s.C }

func (s Shape) String() string { return fmt.Sprintf("%dx%dx%d", s.H, s.W, s.C) }

// Model is a network's description. It is immutable and holds no weights.
type Model struct {
	Name    string
	In      Shape
	Classes int
	Form    string // which variant was chosen for In, in words; empty when there is one

	nodes  []node
	params []Param
	stats  []Param // running means and variances
}

// MaxChannels is the most channels an input may have.
const MaxChannels = 4

// ErrUnknownModel is wrapped by New's error for a name it does not know.
var ErrUnknownModel = errors.New("unknown model")

type definition struct {
	name  string
	least int // smallest height and width
	build func(*builder)
}

var definitions = []definition{
	{"cnn", 4, buildCNN},
	{"resnet18", 8, buildResNet18},
}

// Names lists the models that New knows.
func Names() []string {
	names := make([]string, len(definitions))
	for i, d := range definitions {
		names[i] = d.name
	}
	return names
}

// New returns the named model for samples of shape in.
func New(name string, in Shape, classes int) (*Model, error) {
	for _, d := range definitions {
		if d.name != name {
			continue
		}
		refuse := func(reason string) (*Model, error) {
			return nil, fault.New("make model", name, reason, "choose another model, or other data")
		}
		switch {
		case in.C < 1 || in.C > MaxChannels:
			return refuse(fmt.Sprintf("it takes 1 to %d input channels, not %d", MaxChannels, in.C))
		case in.H < d.least || in.W < d.least:
			return refuse(fmt.Sprintf("it needs samples of at least %dx%d pixels, not %dx%d", d.least, d.least, in.H, in.W))
		case classes < 2:
			return refuse(fmt.Sprintf("it needs at least 2 classes, not %d", classes))
		}
		m := &Model{Name: name, In: in, Classes: classes}
		d.build(&builder{m})
		return m, nil
	}
	return nil, fault.New("make model", name, ErrUnknownModel.Error(), "choose one of "+strings.Join(Names(), ", ")).Because(ErrUnknownModel)
}

// Params lists the trainable parameters in PyTorch's state_dict order.
func (m *Model) Params() []Param { return m.params }

// Stats lists the running statistics of the batch norms.
func (m *Model) Stats() []Param { return m.stats }

// NumParams counts the trainable parameters.
func (m *Model) NumParams() int64 {
	var n int64
	for _, p := range m.params {
		n += int64(p.Len())
	}
	return n
}

// shape of value v: 0 is the input, v the output of node v-1.
func (m *Model) shape(v int) Shape {
	if v == 0 {
		return m.In
	}
	return m.nodes[v-1].out
}
