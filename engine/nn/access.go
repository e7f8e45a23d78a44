package nn

import (
	"fmt"

	"dev.gpustall/engine/device"
)

// Read copies a parameter or running statistic to the host, in PyTorch's layout.
// It waits for the copy; the device must not be running a plan of the state.
func (s *State) Read(name string) ([]float32, error) { return s.read(s.weights, name) }

// ReadGrad copies a parameter's gradient, as the last step left it.
func (s *State) ReadGrad(name string) ([]float32, error) { return s.read(s.grads, name) }

// ReadMomentum copies a parameter's momentum.
func (s *State) ReadMomentum(name string) ([]float32, error) { return s.read(s.moment, name) }

func (s *State) read(flat device.Buffer, name string) ([]float32, error) {
	p, buf, err := s.find(flat, name)
	if err != nil {
		return nil, err
	}
	raw := make([]float32, buf.Size/4)
	if err := s.out(raw, buf); err != nil {
		return nil, err
	}
	v := make([]float32, p.Len())
	p.gather(v, raw, s.cpad)
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
	p.place(raw, v, s.cpad)
	if err := s.in(buf, raw); err != nil {
		return err
	}
	return s.refreshCopy()
}

func (s *State) find(flat device.Buffer, name string) (Param, device.Buffer, error) {
	for i, p := range s.m.params {
		if p.Name == name {
			return p, s.param(flat, i), nil
		}
	}
	for i, p := range s.m.stats {
		if p.Name == name && flat == s.weights {
			return p, s.stat(i), nil
		}
	}
	return Param{}, device.Buffer{}, fmt.Errorf("nn: model %q has no %q; Params and Stats list what it has", s.m.Name, name)
}

// Stats lists the running statistics of the batch norms.
func (m *Model) Stats() []Param { return m.stats }
