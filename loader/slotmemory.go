package loader

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"dev.gpustall/engine/base/errs"
)

// Allocator supplies the memory of batch slots.
type Allocator interface {
	AllocHost(n int) ([]byte, error) // page-locked
	FreeHost([]byte)
}

// slotMemory allocates and frees the bytes of slots, and counts them. It needs no lock,
// because only the owner of a slot changes the slot's memory, and the counters are atomic.
type slotMemory struct {
	alloc  Allocator
	pins   bool // pin_memory has an effect
	bytes  atomic.Int64
	pinned atomic.Int64 // the page-locked part of bytes
}

// page is the alignment of pageable slots, so that a driver's staging copy and
// huge pages see whole pages.
const page = 4096

// locks reports whether the memory of s is to be page-locked.
func (m *slotMemory) locks(s *slot) bool { return s.pin && m.pins }

// fits reports whether the slot's memory can stay for a batch of need bytes. It must be
// large enough, page-locked as wanted, and hardly larger than Knobs.Memory says.
func (m *slotMemory) fits(s *slot, need int) bool {
	return s.locked == m.locks(s) && need <= len(s.mem) && len(s.mem) <= need+need/16+page
}

// fit replaces the slot's memory by need bytes. The caller owns the slot.
func (m *slotMemory) fit(s *slot, need int) error {
	m.drop(s)
	if m.locks(s) {
		mem, err := m.alloc.AllocHost(need)
		if err != nil {
			return errs.Wrap(err, "page-lock", fmt.Sprintf("%d bytes for a batch beside %d", need, m.pinned.Load()),
				"turn pin_memory off or lower batch_size, num_workers or prefetch_factor")
		}
		s.mem, s.locked = mem, true
		m.pinned.Add(int64(len(mem)))
	} else {
		mem := make([]byte, need+page-1)
		skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) & (page - 1)
		s.mem = mem[skip : skip+need : skip+need]
	}
	m.bytes.Add(int64(len(s.mem)))
	return nil
}

// drop frees the slot's memory. The caller owns the slot.
func (m *slotMemory) drop(s *slot) {
	if s.mem == nil {
		return
	}
	m.bytes.Add(-int64(len(s.mem)))
	if s.locked {
		m.pinned.Add(-int64(len(s.mem)))
		m.alloc.FreeHost(s.mem)
	}
	s.mem, s.Host, s.locked = nil, nil, false
}

// floats and ints view a part of a slot as the device does: parts are 64-byte aligned, and
// values are in the machine's byte order.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func ints(b []byte) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
