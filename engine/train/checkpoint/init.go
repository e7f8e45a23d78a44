package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/safetensors"
)

// Init reads the weights of a model from a file with PyTorch's names, such as torchvision's
// state_dict. A head for another number of classes is left out, and the model's head stays
// as it is. said is a sentence about what was read.
func Init(path string, m *nn.Model) (ts []nn.Tensor, said string, err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	head := m.Head()
	var fresh, known []string
	var classes int64
	for _, p := range slices.Concat(m.Params(), m.Stats()) {
		known = append(known, p.Name)
		shape, ok := f.Shape(p.Name)
		switch {
		case !ok:
			return nil, "", errs.New("read weights", path, fmt.Sprintf("it has no tensor %s, which %s needs; it has %s", p.Name, m.Name, some(f.Names())),
				"name a file of "+m.Name+" with torchvision's names, or another --model")
		case slices.Equal(ints(shape), p.Shape):
		case slices.Contains(head, p.Name) && len(shape) == len(p.Shape) && slices.Equal(ints(shape[1:]), p.Shape[1:]):
			fresh, classes = append(fresh, p.Name), shape[0]
			continue
		default:
			return nil, "", wrongShape(path, p.Name, ints(shape), p.Shape, m)
		}
		v, err := f.Floats(p.Name)
		if err != nil {
			return nil, "", err
		}
		ts = append(ts, nn.Tensor{Name: p.Name, Shape: p.Shape, Data: v})
	}
	said = fmt.Sprintf("weights from %s", errs.Path(path))
	if len(fresh) > 0 {
		said += fmt.Sprintf("; the head (%s) is new: the file has %d classes, the data %d", strings.Join(fresh, ", "), classes, m.Classes)
	}
	if rest := unused(f.Names(), known); len(rest) > 0 {
		said += fmt.Sprintf("; %s of it %s not used: %s", units.Counted(len(rest), "tensor", "tensors"), map[bool]string{true: "is", false: "are"}[len(rest) == 1], some(rest))
	}
	return ts, said, nil
}

// wrongShape returns the error of a tensor whose shape is not the model's.
func wrongShape(path, name string, has, wants []int, m *nn.Model) error {
	form := ""
	if m.Form != "" {
		form = " (" + m.Form + ")"
	}
	return errs.New("read weights", path, fmt.Sprintf("tensor %s is %s, and that of %s for samples of %s%s is %s", name, safetensors.Shape(has), m.Name, m.In, form, safetensors.Shape(wants)),
		"name the weights of the same model in the same form")
}

// unused returns the tensors that are neither known nor needed for training alone.
func unused(names, known []string) (out []string) {
	for _, n := range names {
		if !slices.Contains(known, n) && !strings.HasSuffix(n, counted) && !strings.HasPrefix(n, optimizer) {
			out = append(out, n)
		}
	}
	return out
}

// some lists the first few names.
func some(names []string) string {
	const few = 3
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > few:
		return strings.Join(names[:few], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// Fits refuses a checkpoint of a model with other shapes.
func Fits(path string, s *nn.Saved, m *nn.Model) error {
	has := map[string][]int{}
	if s != nil {
		for _, t := range s.Weights {
			has[t.Name] = t.Shape
		}
	}
	for _, p := range slices.Concat(m.Params(), m.Stats()) {
		shape, ok := has[p.Name]
		if !ok {
			return errs.New("resume", path, fmt.Sprintf("it has no tensor %s, which %s needs", p.Name, m.Name), "resume with the model that it is of")
		}
		if !slices.Equal(shape, p.Shape) {
			return wrongShape(path, p.Name, shape, p.Shape, m)
		}
	}
	return nil
}
