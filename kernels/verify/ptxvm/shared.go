package ptxvm

import "fmt"

// sharedMemory is the shared memory of a block. Each word of 4 bytes knows who touched it last, to check
// that a barrier lies between accesses of two threads of which one is a write.
type sharedMemory struct {
	data   []byte // from sharedBase on
	state  []byte // of each byte
	writer []touch
	reader []touch
	async  []uint16 // products under way that read a word
	proxy  []uint16 // fence.proxy.async that its writer had passed
	added  []int    // the epoch in which a word was last written by an atomic
}

const (
	written  = 1
	underWay = 2 // an asynchronous copy or product has it
)

// touch packs a thread and the block's epoch, which starts at 1.
type touch uint64

func newTouch(epoch, thread int) touch { return touch(epoch)<<(threadBits+1) | touch(thread) }
func (t touch) epoch() int             { return int(t >> (threadBits + 1)) }
func (t touch) thread() int            { return int(t & (1<<(threadBits+1) - 1)) }

const manyThreads = 1 << threadBits

func newShared(n int) *sharedMemory {
	words := (n + 3) / 4
	return &sharedMemory{make([]byte, n), make([]byte, n), make([]touch, words), make([]touch, words), make([]uint16, words), make([]uint16, words), make([]int, words)}
}

// shared returns n bytes at addr for lane l, nil when the access is an error.
func (w *warp) shared(l int, addr uint64, n int, k accessKind) []byte {
	s, at, ok := w.sharedRange(l, addr, n)
	if !ok {
		return nil
	}
	me, epoch := w.first+l, w.block.epoch
	for i := at; i < at+n; i++ {
		switch {
		case s.state[i] == underWay:
			w.fail(l, "shared memory at %#x is touched while an asynchronous copy to it is under way", addr)
			return nil
		case (k == load || k == atomic) && s.state[i] != written:
			w.fail(l, "shared memory at %#x is read, but was never written", addr)
			return nil
		}
		if k == store {
			s.state[i] = written
		}
	}
	if why := s.touch(at, n, me, epoch, k); why != "" {
		w.fail(l, "shared memory at %#x: %s", addr, why)
		return nil
	}
	if k == store {
		s.wrote(at, n, len(w.block.proxies[me]))
	}
	return s.data[at : at+n]
}

// wrote notes how many fences for the asynchronous proxy the writer had passed.
func (s *sharedMemory) wrote(at, n, fences int) {
	for i := at / 4; i <= (at+n-1)/4; i++ {
		s.proxy[i] = uint16(fences)
	}
}

func (w *warp) sharedRange(l int, addr uint64, n int) (s *sharedMemory, at int, ok bool) {
	s = w.block.memory
	at = int(int64(addr) - sharedBase)
	if at < 0 || at+n > len(s.data) {
		w.fail(l, "%d bytes at %#x are outside of the block's shared memory, %#x to %#x", n, addr, sharedBase, sharedBase+len(s.data))
		return nil, 0, false
	}
	if addr&uint64(n-1) != 0 {
		w.fail(l, "an access of %d bytes to shared memory at %#x, which is not aligned", n, addr)
		return nil, 0, false
	}
	return s, at, true
}

// touch notes an access and returns what it is in conflict with.
func (s *sharedMemory) touch(at, n, me, epoch int, k accessKind) string {
	for i := at / 4; i <= (at+n-1)/4; i++ {
		added := k == atomic && s.added[i] == epoch
		if t := s.writer[i]; t.epoch() == epoch && t.thread() != me && !added {
			return fmt.Sprintf("thread %d wrote it, with no barrier since", t.thread())
		}
		t := s.reader[i]
		switch {
		case k >= store && s.async[i] > 0:
			return "a product under way reads it"
		case k >= store:
			if t.epoch() == epoch && t.thread() != me {
				if t.thread() == manyThreads {
					return "several threads read it, with no barrier since"
				}
				return fmt.Sprintf("thread %d read it, with no barrier since", t.thread())
			}
			if s.writer[i] = newTouch(epoch, me); k == atomic {
				s.added[i] = epoch
			} else if s.added[i] == epoch {
				return "an atomic wrote it, with no barrier since"
			}
		case t.epoch() != epoch:
			s.reader[i] = newTouch(epoch, me)
		case t.thread() != me:
			s.reader[i] = newTouch(epoch, manyThreads)
		}
	}
	return ""
}
