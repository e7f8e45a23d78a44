package loader

// state is where a slot is.
type state uint8

const (
	free    state = iota // on the free list
	loading              // a worker builds its batch
	ready                // on a ready list
	held                 // the caller has it
	redo                 // on the redo list: its load failed
	kept                 // on the ceiling's list
	gone                 // released after Close
)

// slot is a Batch and its memory.
type slot struct {
	Batch
	state state
	links [2]link
	by    *worker // while loading
	err   error   // of the load, when ready
	order []int32 // the dataset indices to load: a part of the epoch's order
	keep  bool    // the ceiling keeps it when it is released

	// The knobs that its batch is built with.
	inject  Inject
	onError OnError
	reads   int  // in flight
	pin     bool // page-locked memory is wanted
	size    int  // samples that the memory must have room for: batch_size, even when the batch is short

	// What a worker has built so far.
	skipped []*SampleError // of the samples that were left out
	begin   int            // where the samples begin in Host
	packed  int            // bytes of the samples so far, if they are packed

	mem    []byte
	locked bool // mem is page-locked
}

// apply sets the knobs that may change when a batch is loaded again.
func (s *slot) apply(k *Knobs) {
	s.pin, s.inject, s.onError, s.reads = k.PinMemory, k.Inject, k.OnError, k.ReadsInFlight
}

// Each slot can be on two lists at once.
const (
	inFlight = 0 // the flight list
	inState  = 1 // the list of its state
)

type link struct{ prev, next *slot }

// list is a doubly linked list through slot.links[which]. It never allocates.
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

// slots holds all slots of a loader, and the list of the free ones. Loader.mu guards it.
type slots struct {
	all   []*slot
	free  list
	held  int     // by the caller
	scrap []*slot // no longer in all; their memory is to be freed
}

func newSlots() slots { return slots{free: list{which: inState}} }

// resize makes slots, or retires free ones, until there are want of them. release is the
// Batch.Release of a new slot.
func (t *slots) resize(want int, release func(*slot)) {
	for len(t.all) < want {
		s := &slot{}
		s.release = func(*Batch) { release(s) }
		t.all = append(t.all, s)
		t.free.push(s)
	}
	t.trim(want)
}

// trim retires free slots until there are no more than want.
func (t *slots) trim(want int) {
	for len(t.all) > want && t.free.n > 0 {
		s := t.free.pop()
		for i := range t.all {
			if t.all[i] == s {
				last := len(t.all) - 1
				t.all[i], t.all[last] = t.all[last], nil
				t.all = t.all[:last]
				break
			}
		}
		t.scrap = append(t.scrap, s)
	}
}

// put makes s free.
func (t *slots) put(s *slot) {
	s.state = free
	t.free.push(s)
}

// hand makes s the caller's.
func (t *slots) hand(s *slot) {
	s.state = held
	t.held++
}

// exhausted reports whether the caller holds every slot.
func (t *slots) exhausted() bool { return t.held >= len(t.all) }

// close retires every unused slot: all but the caller's and, if a worker hangs, those that are
// loading.
func (t *slots) close(hung bool) {
	rest := t.all[:0]
	for _, s := range t.all {
		switch {
		case s.state == held, s.state == loading && hung:
			rest = append(rest, s)
		case s.state == gone: // Release frees it
		default:
			t.scrap = append(t.scrap, s)
		}
	}
	t.all = rest
}

// retired removes and returns a slot whose memory is to be freed, or nil.
func (t *slots) retired() *slot {
	n := len(t.scrap)
	if n == 0 {
		return nil
	}
	s := t.scrap[n-1]
	t.scrap = t.scrap[:n-1]
	return s
}
