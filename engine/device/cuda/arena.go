package cuda

import (
	"slices"

	"dev.gpustall/engine/device"
)

// Addresses of allocations are multiples of 256 bytes, as the driver's are;
// kernels need 16.
const alignment = 256

// arena hands out parts of large pieces of device memory. A run that has reserved what it needs
// has one piece. Without a reservation the arena takes pieces of at least minPiece bytes, because
// the driver's allocations are slow and synchronise. It returns pieces that become empty.
type arena struct {
	grow   func(n int64) (uint64, error) // takes memory from the driver
	shrink func(addr uint64) error       // gives a piece back

	pieces     []*piece
	held, peak int64 // bytes handed out, now and at the most
	reserved   bool  // pieces stay until trim
}

const minPiece = 64 << 20

// piece is one allocation of the driver's.
type piece struct {
	addr   uint64
	size   int64
	blocks []*block // sorted by address: what is handed out
}

// block is one allocation of the arena's. Programs that use it hold references,
// so that memory freed under a prepared program is not handed out again before
// the program is released.
type block struct {
	addr  uint64
	size  int64 // a multiple of alignment
	asked int64
	refs  int
	freed bool
}

func (b *block) end() uint64 { return b.addr + uint64(b.size) }

func round(n, to int64) int64 { return (n + to - 1) / to * to }

// alloc returns n bytes, from the first gap that holds them.
func (a *arena) alloc(n int64) (*block, error) {
	if n <= 0 {
		return nil, device.NotPositive("device", n)
	}
	if b := a.inside(n); b != nil {
		return b, nil
	}
	size := round(n, alignment)
	want := round(max(size, minPiece), 2<<20)
	addr, err := a.grow(want)
	if err != nil && want > size {
		want = size // too little is left for a whole piece
		addr, err = a.grow(want)
	}
	if err != nil {
		return nil, err
	}
	p := &piece{addr: addr, size: want}
	a.pieces = append(a.pieces, p)
	return a.hand(p.take(size), n), nil
}

// inside is alloc that takes nothing from the driver. It returns nil where no gap is large enough.
func (a *arena) inside(n int64) *block {
	for _, p := range a.pieces {
		if b := p.take(round(n, alignment)); b != nil {
			return a.hand(b, n)
		}
	}
	return nil
}

// lacks returns the size of the piece that allocating sizes, in this order, would take from the
// driver after the blocks in instead were freed. With trimmed, idle pieces are given back first.
func (a *arena) lacks(sizes []int64, instead map[*block]bool, trimmed bool) int64 {
	var gaps []int64
	for _, p := range a.pieces {
		if trimmed && len(p.blocks) == 0 {
			continue
		}
		at := p.addr
		for _, b := range p.blocks {
			if !instead[b] {
				gaps = append(gaps, int64(b.addr-at))
				at = b.end()
			}
		}
		gaps = append(gaps, int64(p.addr+uint64(p.size)-at))
	}
	var lacking int64
	for _, n := range sizes {
		size := round(n, alignment)
		if i := slices.IndexFunc(gaps, func(g int64) bool { return g >= size }); i >= 0 {
			gaps[i] -= size
		} else {
			lacking += size
		}
	}
	return round(lacking, 2<<20)
}

// reserve takes a piece of n bytes, which stays until trim.
func (a *arena) reserve(n int64) error {
	addr, err := a.grow(n)
	if err != nil {
		return err
	}
	a.pieces = append(a.pieces, &piece{addr: addr, size: n})
	a.reserved = true
	return nil
}

// idle returns the bytes of the pieces that are wholly free.
func (a *arena) idle() (n int64) {
	for _, p := range a.pieces {
		if len(p.blocks) == 0 {
			n += p.size
		}
	}
	return n
}

// size returns the bytes of all pieces.
func (a *arena) size() (n int64) {
	for _, p := range a.pieces {
		n += p.size
	}
	return n
}

// trim gives back the pieces that are wholly free.
func (a *arena) trim() {
	a.pieces = slices.DeleteFunc(a.pieces, func(p *piece) bool {
		return len(p.blocks) == 0 && a.shrink(p.addr) == nil
	})
}

func (a *arena) hand(b *block, asked int64) *block {
	b.asked = asked
	a.held += b.size
	a.peak = max(a.peak, a.held)
	return b
}

// take hands out the first gap of size bytes, or nil.
func (p *piece) take(size int64) *block {
	at := p.addr
	for i, b := range p.blocks {
		if b.addr-at >= uint64(size) {
			k := &block{addr: at, size: size}
			p.blocks = slices.Insert(p.blocks, i, k)
			return k
		}
		at = b.end()
	}
	if p.addr+uint64(p.size)-at >= uint64(size) {
		k := &block{addr: at, size: size}
		p.blocks = append(p.blocks, k)
		return k
	}
	return nil
}

// find returns the live block that holds all of b, or nil.
func (a *arena) find(b device.Buffer) *block {
	if b.Size < 0 {
		return nil
	}
	for _, p := range a.pieces {
		if b.Addr < p.addr || b.Addr >= p.addr+uint64(p.size) {
			continue
		}
		i, found := slices.BinarySearchFunc(p.blocks, b.Addr, func(k *block, addr uint64) int {
			switch {
			case k.addr < addr:
				return -1
			case k.addr > addr:
				return 1
			}
			return 0
		})
		if !found {
			i--
		}
		if i < 0 {
			return nil
		}
		k := p.blocks[i]
		if k.freed || b.Addr-k.addr+uint64(b.Size) > uint64(k.asked) {
			return nil
		}
		return k
	}
	return nil
}

// free gives b back as soon as no program refers to it.
func (a *arena) free(b *block) {
	b.freed = true
	a.collect(b)
}

// release drops a program's reference.
func (a *arena) release(b *block) {
	b.refs--
	a.collect(b)
}

func (a *arena) collect(b *block) {
	if !b.freed || b.refs > 0 {
		return
	}
	for i, p := range a.pieces {
		j := slices.Index(p.blocks, b)
		if j < 0 {
			continue
		}
		p.blocks = slices.Delete(p.blocks, j, j+1)
		a.held -= b.size
		// One empty piece is kept: a plan that is rebuilt needs it again at once.
		if len(p.blocks) == 0 && len(a.pieces) > 1 && !a.reserved {
			_ = a.shrink(p.addr) // where it fails, the piece is not used again
			a.pieces = slices.Delete(a.pieces, i, i+1)
		}
		return
	}
}

// close gives everything back.
func (a *arena) close() {
	for _, p := range a.pieces {
		_ = a.shrink(p.addr) // the context goes next and takes the rest with it
	}
	a.pieces, a.held = nil, 0
}
