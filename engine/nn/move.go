package nn

import (
	"fmt"

	"dev.gpustall/engine/device"
)

// Image is a state on the host, while it has no place on the device.
type Image [][]byte

// buffers are all that a state may have, in the order in which Reload allocates them.
func (s *State) buffers() []*device.Buffer {
	return []*device.Buffer{&s.weights, &s.grads, &s.moment, &s.stats, &s.hyper, &s.copy, &s.sum}
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
			return nil, fmt.Errorf("nn: unload the state of model %q: %w", s.m.Name, err)
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
			return fmt.Errorf("nn: reload the state of model %q, %d bytes: %w", s.m.Name, len(img[i]), err)
		}
		if err := s.dev.CopyIn(s.stream, *b, img[i]); err != nil {
			return fmt.Errorf("nn: reload the state of model %q: %w", s.m.Name, err)
		}
		if err := s.sync(); err != nil {
			return err
		}
	}
	return nil
}
