package ptxvm

import "fmt"

// Memory is a device's global memory: buffers far from each other, with what is
// known about each of their bytes. It serves one launch at a time.
type Memory struct {
	regions []*region
	blocks  uint64 // launched so far, and those before any launch: one
}

// region is one buffer.
type region struct {
	name    string
	base    uint64
	data    []byte
	state   []byte   // flags of each byte
	writers []writer // the last one of each byte
}

const (
	known  = 1 << iota // written, by the host or a kernel
	stored             // written in this launch
	frozen             // read in this launch as what nobody writes (ld.global.nc)
)

// writer packs who wrote a byte and when: the block, counted over all launches,
// the barriers it had passed, the thread, and the fences the thread had passed.
type writer uint64

const (
	fenceBits   = 10
	threadBits  = 10
	epochBits   = 20
	threadShift = fenceBits
	epochShift  = threadShift + threadBits
	blockShift  = epochShift + epochBits
)

func newWriter(block uint64, epoch, thread, fences int) writer {
	return writer(block<<blockShift | uint64(epoch)<<epochShift | uint64(thread)<<threadShift | uint64(fences))
}
func (w writer) block() uint64 { return uint64(w >> blockShift) }
func (w writer) epoch() int    { return int(w >> epochShift & (1<<epochBits - 1)) }
func (w writer) thread() int   { return int(w >> threadShift & (1<<threadBits - 1)) }
func (w writer) fences() int   { return int(w & (1<<fenceBits - 1)) }

// regionBits is the distance between buffers: each begins 2^regionBits bytes after the one before.
const regionBits = 36

// Alloc makes a buffer of n bytes, which are unknown. Its address is a multiple
// of align, a power of two, and of no higher one.
func (m *Memory) Alloc(name string, n, align int) uint64 {
	r := &region{name: name, data: make([]byte, n), state: make([]byte, n), writers: make([]writer, n)}
	for i := range r.data {
		r.data[i] = 0xff // a NaN, should it get out
	}
	r.base = uint64(len(m.regions)+1)<<regionBits + 1<<20 + uint64(align)
	m.regions = append(m.regions, r)
	return r.base
}

// Write sets bytes of a buffer from the host.
func (m *Memory) Write(addr uint64, b []byte) error {
	r, at, err := m.find(addr, len(b))
	if err != nil {
		return err
	}
	copy(r.data[at:], b)
	for i := range b {
		r.state[at+i] |= known
	}
	return nil
}

// Read copies bytes of a buffer to the host. It fails where one is unknown.
func (m *Memory) Read(addr uint64, b []byte) error {
	r, at, err := m.find(addr, len(b))
	if err != nil {
		return err
	}
	for i := range b {
		if r.state[at+i]&known == 0 {
			return fmt.Errorf("ptxvm: byte %d of buffer %s was never written", at+i, r.name)
		}
	}
	copy(b, r.data[at:])
	return nil
}

func (m *Memory) find(addr uint64, n int) (*region, int, error) {
	i := int(addr>>regionBits) - 1
	if i < 0 || i >= len(m.regions) {
		return nil, 0, fmt.Errorf("address %#x is in no buffer", addr)
	}
	r := m.regions[i]
	at := int64(addr - r.base)
	if at < 0 || at+int64(n) > int64(len(r.data)) {
		return nil, 0, fmt.Errorf("%d bytes at offset %d of buffer %s, which has %d", n, at, r.name, len(r.data))
	}
	return r, int(at), nil
}

// forget drops the marks of a launch.
func (m *Memory) forget() {
	for _, r := range m.regions {
		for i := range r.state {
			r.state[i] &= known
		}
	}
}

type accessKind uint8

const (
	load         accessKind = iota
	constantLoad            // ld.global.nc
	store
	atomic
)

// global returns n bytes at addr for lane l, nil when the access is an error.
func (w *warp) global(l int, addr uint64, n int, k accessKind) []byte {
	r, at, err := w.block.grid.memory.find(addr, n)
	if err != nil {
		w.fail(l, "%v", err)
		return nil
	}
	if addr&uint64(n-1) != 0 {
		w.fail(l, "an access of %d bytes at offset %d of buffer %s, which is not aligned", n, at, r.name)
		return nil
	}
	me := newWriter(w.block.number, w.block.epoch, w.first+l, len(w.block.fences[w.first+l]))
	first := w.block.grid.first
	for i := at; i < at+n; i++ {
		s := r.state[i]
		switch {
		case k != store && s&known == 0:
			w.fail(l, "byte %d of buffer %s is read, but was never written", i, r.name)
			return nil
		case k == constantLoad && s&stored != 0 || k >= store && s&frozen != 0:
			w.fail(l, "byte %d of buffer %s is written and read with ld.global.nc in one launch", i, r.name)
			return nil
		}
		if was := r.writers[i]; was.block() >= first && k != atomic && was != me {
			if why := w.block.unordered(was, me); why != "" {
				w.fail(l, "byte %d of buffer %s: %s", i, r.name, why)
				return nil
			}
		}
		switch k {
		case constantLoad:
			r.state[i] |= frozen
		case store:
			r.state[i] |= known | stored
			r.writers[i] = me
		case atomic: // ordered with other atomics
			r.state[i] |= stored
		}
	}
	return r.data[at : at+n]
}

// unordered returns why me may not yet see what was has written, or may overwrite it. It returns ""
// where the two are ordered ("Memory Consistency Model", as far as the kernels use it). Within a block a
// barrier must lie between the two. Between blocks, the writer must have passed a fence, then its block
// a barrier and an atomic. The reader's block needs the same in reverse: an atomic, a barrier, a fence.
func (b *block) unordered(was, me writer) string {
	if was.thread() == me.thread() && was.block() == me.block() {
		return ""
	}
	if was.block() == me.block() {
		if was.epoch() < me.epoch() {
			return ""
		}
		return fmt.Sprintf("thread %d touches what thread %d wrote, with no barrier between", me.thread(), was.thread())
	}
	other := b.grid.done[was.block()-b.grid.first]
	theirs, mine := other.fences[was.thread()], b.fences[me.thread()]
	switch {
	case len(theirs) <= was.fences():
		return fmt.Sprintf("another block wrote it, whose thread %d passed no fence since", was.thread())
	case other.atomic <= theirs[was.fences()]:
		return "another block wrote it, which did no atomic behind its fence and a barrier"
	case b.atomic < 0 || b.epoch <= b.atomic:
		return "another block wrote it, and there was no atomic and barrier since in this one"
	case len(mine) == 0 || mine[len(mine)-1] <= b.atomic:
		return "another block wrote it, and this thread passed no fence behind its block's atomic"
	}
	return ""
}
