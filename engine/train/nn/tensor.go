package nn

import (
	"fmt"

	"dev.gpustall/engine/device"
)

// Tensor is a named vector on the host, in PyTorch's layout.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// Read copies a parameter or running statistic to the host, in PyTorch's layout.
// It waits for the copy; the device must not be running a plan of the state.
func (s *State) Read(name string) ([]float32, error) { return s.read(s.weights, name) }

func (s *State) read(flat device.Buffer, name string) ([]float32, error) {
	p, buf, err := s.find(flat, name)
	if err != nil {
		return nil, err
	}
	raw := make([]float32, buf.Size/4)
	if err := s.copier.out(raw, buf); err != nil {
		return nil, err
	}
	v := make([]float32, p.Len())
	p.gather(v, raw, s.places.cpad)
	return v, nil
}

// Write replaces a parameter or running statistic by v, in PyTorch's layout. The
// device must not be running a plan of the state.
func (s *State) Write(name string, v []float32) error {
	p, buf, err := s.find(s.weights, name)
	if err != nil {
		return err
	}
	if len(v) != p.Len() {
		return fmt.Errorf("nn: write %q: it has %d elements, not %d", name, p.Len(), len(v))
	}
	raw := make([]float32, buf.Size/4)
	p.scatter(raw, v, s.places.cpad)
	if err := s.copier.in(buf, raw); err != nil {
		return err
	}
	return s.refreshCopy()
}

// find returns a parameter and its place in a flat buffer, or a running statistic.
func (s *State) find(flat device.Buffer, name string) (Param, device.Buffer, error) {
	for i, p := range s.m.params {
		if p.Name == name {
			return p, s.places.of(flat, i), nil
		}
	}
	for i, p := range s.m.stats {
		if p.Name == name && flat == s.weights {
			return p, s.places.ofStat(s.stats, i), nil
		}
	}
	return Param{}, device.Buffer{}, fmt.Errorf("nn: model %q has no %q; Params and Stats list what it has", s.m.Name, name)
}
