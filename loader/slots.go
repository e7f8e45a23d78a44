package loader

import (
	"fmt"
	"unsafe"

	"dev.gpustall/engine/base/errs"
)

// state is where a slot is.
type state uint8

const (
	free    state = iota // on the free list
	loading              // a worker's
	ready                // on a ready list
	held                 // the caller's
	redo                 // on the redo list: its load failed
	kept                 // on the ceiling's ring
	gone                 // released after Close
)

// slot is a Batch and its memory.
type slot struct {
	Batch
	state  state
	by     *worker // while loading
	err    error   // of the load, when ready
	order  []int32 // the dataset indices to load: a part of the epoch's order
	inject Inject
	// What to do about samples that cannot be loaded, and the errors of those left out.
	onError OnError
	reads   int // in flight
	skipped []*SampleError
	begin   int  // of the samples in Host; what follows is laid out for all of them
	packed  int  // bytes of the samples so far, where they are packed
	pin     bool // wanted
	keep    bool // for the ceiling, when it is released
	size    int  // samples that the memory is to have room for: batch_size, even when the batch is short
	mem     []byte
	locked  bool // mem is page-locked
	links   [2]link
}

// Each slot can be on two lists at once.
const (
	inFlight = 0 // undelivered batches in dispatch order
	inState  = 1 // the list of its state
)

type link struct{ prev, next *slot }

// list is a doubly linked list through slot.links[which]; it never allocates.
type list struct {
	head, tail *slot
	which      int
	n          int
}

func (l *list) push(s *slot) {
	s.links[l.which] = link{prev: l.tail}
	if l.tail != nil {
		l.tail.links[l.which].next = s
	} else {
		l.head = s
	}
	l.tail = s
	l.n++
}

func (l *list) remove(s *slot) {
	k := s.links[l.which]
	if k.prev != nil {
		k.prev.links[l.which].next = k.next
	} else {
		l.head = k.next
	}
	if k.next != nil {
		k.next.links[l.which].prev = k.prev
	} else {
		l.tail = k.prev
	}
	s.links[l.which] = link{}
	l.n--
}

// pop removes and returns the head, or nil.
func (l *list) pop() *slot {
	s := l.head
	if s != nil {
		l.remove(s)
	}
	return s
}

// page is the alignment of pageable slots, so that a driver's staging copy and
// huge pages see whole pages.
const page = 4096

// fits reports whether the slot's memory can stay for its batch: it is large enough,
// page-locked or not as wanted, and hardly larger than Knobs.Memory says.
func (l *Loader) fits(s *slot) bool {
	need := NewLayout(l.info, s.size, s.Device).Size
	return s.locked == (s.pin && l.pins) && need <= len(s.mem) && len(s.mem) <= need+need/16+page
}

// fit replaces the slot's memory. The caller owns the slot.
func (l *Loader) fit(s *slot) error {
	l.drop(s)
	need := NewLayout(l.info, s.size, s.Device).Size
	if s.pin && l.pins {
		mem, err := l.alloc.AllocHost(need)
		if err != nil {
			return errs.Wrap(err, "page-lock", fmt.Sprintf("%d bytes for a batch beside %d", need, l.pinnedBytes.Load()),
				"turn pin_memory off or lower batch_size, num_workers or prefetch_factor")
		}
		s.mem, s.locked = mem, true
		l.pinnedBytes.Add(int64(len(mem)))
	} else {
		mem := make([]byte, need+page-1)
		skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) & (page - 1)
		s.mem = mem[skip : skip+need : skip+need]
	}
	l.slotBytes.Add(int64(len(s.mem)))
	return nil
}

// drop gives the slot's memory back.
func (l *Loader) drop(s *slot) {
	if s.mem == nil {
		return
	}
	l.slotBytes.Add(-int64(len(s.mem)))
	if s.locked {
		l.pinnedBytes.Add(-int64(len(s.mem)))
		l.alloc.FreeHost(s.mem)
	}
	s.mem, s.Host, s.locked = nil, nil, false
}

// floats and ints view a part of a slot as the device will: parts are
// 64-byte aligned, values in the machine's byte order.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func ints(b []byte) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// resize makes or retires slots after a knob change. Called with mu held.
func (l *Loader) resize() {
	for len(l.slots) < l.wantSlots() {
		s := &slot{}
		s.release = func(*Batch) { l.release(s) }
		l.slots = append(l.slots, s)
		l.free.push(s)
	}
	l.trim()
}

func (l *Loader) wantSlots() int { return l.k.slots(l.hold) }

// trim retires free slots while there are more than wanted. Called with mu held.
func (l *Loader) trim() {
	for len(l.slots) > l.wantSlots() && l.free.n > 0 {
		s := l.free.pop()
		for i := range l.slots {
			if l.slots[i] == s {
				last := len(l.slots) - 1
				l.slots[i], l.slots[last] = l.slots[last], nil
				l.slots = l.slots[:last]
				break
			}
		}
		l.scrap = append(l.scrap, s)
	}
}

// sweep frees the memory of retired slots, outside the lock because page-locked
// memory takes the driver long.
func (l *Loader) sweep() {
	for {
		l.mu.Lock()
		n := len(l.scrap)
		if n == 0 {
			l.mu.Unlock()
			return
		}
		s := l.scrap[n-1]
		l.scrap = l.scrap[:n-1]
		l.mu.Unlock()
		l.drop(s)
	}
}

// release is Batch.Release.
func (l *Loader) release(s *slot) {
	l.mu.Lock()
	if s.state != held { // released twice
		l.mu.Unlock()
		return
	}
	l.held--
	s.state = free
	switch {
	case l.closed:
		s.state = gone
		l.mu.Unlock()
		l.drop(s)
		return
	case s.keep:
		s.state = kept
		l.kept.push(s)
	default:
		l.free.push(s)
		l.trim()
	}
	l.wakeWorker()
	l.wakeNext()
	l.mu.Unlock()
}

// Allocator supplies the memory of batch slots.
type Allocator interface {
	AllocHost(n int) ([]byte, error) // page-locked
	FreeHost([]byte)
}
