// Package nn describes networks and turns them into static plans. A plan is for a batch size and a
// compute type. It is the full list of launches of a training step and of an evaluation, and
// decides every buffer's place before the first step. There is no autograd: the network is walked
// once forward and once backward when the plan is built, and the plan is then only data.
package nn

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/base/errs"
)

// Shape is the shape of one sample: rows, columns, channels, and for a clip its frames.
type Shape struct {
	H, W, C int
	T       int // 0 for an image
}

// frames returns the number of frames; an image has 1.
func (s Shape) frames() int { return max(s.T, 1) }

func (s Shape) elems() int { return s.frames() * s.H * s.W * s.C }

func (s Shape) String() string {
	text := fmt.Sprintf("%dx%dx%d", s.H, s.W, s.C)
	if s.T > 0 {
		text = fmt.Sprintf("%dx%s", s.T, text)
	}
	return text
}

// Model is a network's description. It is immutable and holds no weights.
type Model struct {
	Name    string
	In      Shape
	Classes int
	Form    string // which variant was chosen for In, in words; empty when there is one

	plain  bool // its batch norms are left out
	nodes  []node
	params []Param
	stats  []Param // running means and variances
}

// MaxChannels is how many channels an input may have at the most.
const MaxChannels = 4

// ErrUnknownModel is what New's error for an unknown name wraps.
var ErrUnknownModel = errors.New("unknown model")

type definition struct {
	name     string
	least    int // smallest height and width
	build    func(*builder)
	residual bool // it has a choice of stems, and batch norms that can be left out
	frames   int  // the least that a clip may have; 0: it takes images
}

// Names lists the models.
func Names() []string {
	names := make([]string, len(definitions))
	for i, d := range definitions {
		names[i] = d.name
	}
	return names
}

// clipModels lists the models that take clips.
func clipModels() (names []string) {
	for _, d := range definitions {
		if d.frames > 0 {
			names = append(names, d.name)
		}
	}
	return names
}

// Spec describes the model to build.
type Spec struct {
	Name    string
	In      Shape
	Classes int

	// Of residual networks only:
	Stem        string // one of Stems; empty: it follows the size of the samples
	NoBatchNorm bool   // convolutions with bias in its place, and an initialisation that can train them
}

// stem returns the stem, by the samples' size where none is given.
func (s Spec) stem() string {
	switch {
	case s.Stem != "":
		return s.Stem
	case max(s.In.H, s.In.W) <= cifarLimit:
		return StemCIFAR
	}
	return StemImageNet
}

// New returns the named model for samples of shape in.
func New(name string, in Shape, classes int) (*Model, error) {
	return Spec{Name: name, In: in, Classes: classes}.Model()
}

// Model builds the model.
func (s Spec) Model() (*Model, error) {
	i := slices.Index(Names(), s.Name)
	if i < 0 {
		return nil, errs.New("make model", s.Name, ErrUnknownModel.Error(), "choose one of "+strings.Join(Names(), ", ")).Because(ErrUnknownModel)
	}
	d := definitions[i]
	refuse := func(hint, reason string, args ...any) (*Model, error) {
		return nil, errs.New("make model", s.Name, fmt.Sprintf(reason, args...), hint)
	}
	const other = "choose another model, or other data"
	switch in := s.In; {
	case in.C < 1 || in.C > MaxChannels:
		return refuse(other, "it takes 1 to %d input channels, not %d", MaxChannels, in.C)
	case d.frames == 0 && in.T > 0:
		return refuse("choose a model that takes clips: "+strings.Join(clipModels(), ", "), "it takes images, and the samples are clips of %s", in)
	case in.T < d.frames:
		return refuse(other, "it needs clips of at least %d frames, and the samples have %d", d.frames, in.T)
	case in.H < d.least || in.W < d.least:
		return refuse(other, "it needs samples of at least %dx%d pixels, not %dx%d", d.least, d.least, in.H, in.W)
	case s.Classes < 2:
		return refuse(other, "it needs at least 2 classes, not %d", s.Classes)
	case s.Stem != "" && !slices.Contains(Stems(), s.Stem):
		return refuse("choose "+strings.Join(Stems(), " or "), "there is no stem %q", s.Stem)
	case s.Stem != "" && !d.residual:
		return refuse("leave the stem out", "it has no choice of stems")
	case s.NoBatchNorm && !d.residual:
		return refuse("leave it as it is", "it has no batch norm to leave out")
	}
	m := &Model{Name: s.Name, In: s.In, Classes: s.Classes, plain: s.NoBatchNorm}
	d.build(&builder{m: m, spec: s})
	return m, nil
}

// Title returns the name, and says if the batch norms are left out.
func (m *Model) Title() string {
	if m.plain {
		return m.Name + " without batch norm"
	}
	return m.Name
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

// shape returns the shape of value v: 0 is the input, v the output of node v-1.
func (m *Model) shape(v int) Shape {
	if v == 0 {
		return m.In
	}
	return m.nodes[v-1].out
}
