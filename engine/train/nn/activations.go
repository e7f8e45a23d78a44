package nn

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
)

// tensorAlign is the alignment of every tensor among the activations, in bytes.
const tensorAlign = 256

// Activations are the device memory for a plan's activations and their gradients.
// Plans that never run at the same time, such as those of the full and of the
// epoch's last batch, share them.
type Activations struct {
	dev device.Device
	buf device.Buffer
}

// NewActivations allocates size bytes. That is enough for plans whose Memory is not more.
func (m *Model) NewActivations(dev device.Device, size int) (*Activations, error) {
	buf, err := dev.Alloc(size)
	if err != nil {
		return nil, errs.Wrap(err, "allocate", fmt.Sprintf("the activations of model %s, %d bytes", m.Name, size), "lower batch_size")
	}
	return &Activations{dev, buf}, nil
}

// Buffer returns the memory.
func (a *Activations) Buffer() device.Buffer { return a.buf }

// Free returns the memory. No plan that uses it may be in flight.
func (a *Activations) Free() {
	if a.buf.Size > 0 {
		a.dev.Free(a.buf)
		a.buf = device.Buffer{}
	}
}

// tensor is a buffer of a plan that lives from launch first to launch last.
type tensor struct {
	size        int // bytes
	first, last int // -1 before its first use
	off         int
}

// pack gives each tensor an offset so that tensors alive at the same time do not overlap,
// and returns the total size in bytes. It places the tensors by size, the largest first,
// each at the lowest offset that fits. This is "greedy by size" of Pisarchyk and Lee,
// "Efficient memory management for deep neural net inference", 2020.
func pack(ts []tensor) int {
	turn := make([]int, 0, len(ts))
	for i := range ts {
		if ts[i].first >= 0 {
			turn = append(turn, i)
		}
	}
	slices.SortStableFunc(turn, func(a, b int) int { return ts[b].size - ts[a].size })
	var placed []int // by offset
	total := 0
	for _, i := range turn {
		t := &ts[i]
		size := roundUp(t.size)
		off := 0
		for _, j := range placed {
			o := &ts[j]
			if o.last < t.first || t.last < o.first {
				continue
			}
			if off+size <= o.off {
				break
			}
			off = max(off, o.off+roundUp(o.size))
		}
		t.off = off
		total = max(total, off+size)
		at, _ := slices.BinarySearchFunc(placed, off, func(j, off int) int { return ts[j].off - off })
		placed = slices.Insert(placed, at, i)
	}
	return total
}

func roundUp(n int) int { return (n + tensorAlign - 1) / tensorAlign * tensorAlign }
