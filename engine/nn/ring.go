package nn

import (
	"fmt"
	"unsafe"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// hyperRing is host memory for copies of hyper-parameters in flight.
type hyperRing struct {
	slots [8]hyperSlot
	at    int
}

type hyperSlot struct {
	mem    []byte
	values []float32 // mem
	free   device.Event
	used   bool
}

func (r *hyperRing) alloc(dev device.Device) error {
	for i := range r.slots {
		s := &r.slots[i]
		var err error
		if s.mem, err = dev.AllocHost(4 * kernels.HyperLen); err != nil {
			return fmt.Errorf("nn: host memory of hyper-parameters: %w", err)
		}
		s.values = unsafe.Slice((*float32)(unsafe.Pointer(&s.mem[0])), kernels.HyperLen)
		if s.free, err = dev.NewEvent(); err != nil {
			return fmt.Errorf("nn: event of hyper-parameters: %w", err)
		}
	}
	return nil
}

// next returns a slot whose last copy has completed.
func (r *hyperRing) next(dev device.Device) (*hyperSlot, error) {
	s := &r.slots[r.at]
	r.at = (r.at + 1) % len(r.slots)
	if s.used {
		if err := dev.Sync(s.free); err != nil {
			return nil, fmt.Errorf("nn: wait for hyper-parameters: %w", err)
		}
	}
	s.used = true
	return s, nil
}

func (r *hyperRing) free(dev device.Device) {
	for i := range r.slots {
		s := &r.slots[i]
		if s.mem != nil {
			dev.FreeHost(s.mem)
		}
		if s.free != 0 {
			dev.FreeEvent(s.free)
		}
		*s = hyperSlot{}
	}
}
