package nn

// ReadGrad copies a parameter's gradient, as the last step left it.
func (s *State) ReadGrad(name string) ([]float32, error) { return s.read(s.grads, name) }
