package nn

import (
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
)

// Read copies a parameter or running statistic to the host, in PyTorch's layout.
// It waits for the copy; the device must not be running a plan of the state.
func (s *State) Read(name string) ([]float32, error) { return s.read(s.weights, name) }

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
	if err := s.replace(s.weights, name, v); err != nil {
		return err
	}
	return s.refreshCopy()
}

func (s *State) replace(flat device.Buffer, name string, v []float32) error {
	p, buf, err := s.find(flat, name)
	if err != nil {
		return err
	}
	if len(v) != p.Len() {
		return fmt.Errorf("nn: write %q: it has %d elements, not %d", name, p.Len(), len(v))
	}
	raw := make([]float32, buf.Size/4)
	p.scatter(raw, v, s.cpad)
	return s.in(buf, raw)
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

// Image is a state on the host, while it has no place on the device.
type Image [][]byte

// buffers are all that a state may have, in the order in which Reload allocates them.
func (s *State) buffers() []*device.Buffer {
	all := []*device.Buffer{&s.weights, &s.grads, &s.stats, &s.hyper, &s.noise}
	for i := range s.slots {
		all = append(all, &s.slots[i])
	}
	return append(all, &s.copy, &s.sum)
}

// Sizes are the bytes of each of the state's allocations, in the order of Reload.
func (s *State) Sizes() []int {
	var sizes []int
	for _, b := range s.buffers() {
		if b.Size > 0 {
			sizes = append(sizes, b.Size)
		}
	}
	return sizes
}

// Unload brings the state to the host and frees its memory. No plan of it may be
// in flight, and none may run afterwards; nothing may be asked of it before Reload.
// When it fails the state stays where it is.
func (s *State) Unload() (Image, error) {
	var img Image
	for _, b := range s.buffers() {
		if b.Size == 0 {
			img = append(img, nil)
			continue
		}
		host := make([]byte, b.Size)
		if err := s.dev.CopyOut(s.stream, host, *b); err != nil {
			return nil, errs.Wrap(err, "move to the host", s.what(), "")
		}
		if err := s.sync(); err != nil {
			return nil, err
		}
		img = append(img, host)
	}
	for _, b := range s.buffers() {
		if b.Size > 0 {
			s.dev.Free(*b)
			*b = device.Buffer{}
		}
	}
	return img, nil
}

// Reload gives the state a place on the device again, and what it held.
func (s *State) Reload(img Image) error {
	for i, b := range s.buffers() {
		if img[i] == nil {
			continue
		}
		var err error
		if *b, err = s.dev.Alloc(len(img[i])); err != nil {
			return errs.Wrap(err, "allocate again", fmt.Sprintf("%d bytes of %s", len(img[i]), s.what()), "")
		}
		if err := s.dev.CopyIn(s.stream, *b, img[i]); err != nil {
			return errs.Wrap(err, "move back to the device", s.what(), "")
		}
		if err := s.sync(); err != nil {
			return err
		}
	}
	return nil
}
