package cpu

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
)

// memory keeps the device's and the pinned host allocations. Both lie outside
// the Go heap where the system allows it, so that the garbage collector neither
// scans nor counts them.
type memory struct {
	total int64 // of the host; 0 when unknown
	peak  atomic.Int64

	mu   sync.Mutex
	held int64
	dev  []*block // sorted by address
	host map[*byte]*mapping
}

// block is one device allocation. Programs that use it hold references, so
// that memory freed under a prepared program stays mapped until Release.
type block struct {
	addr  uint64
	size  int
	m     *mapping
	refs  int
	freed bool
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func oom(n int, held, total int64) error {
	return errs.New("allocate", fmt.Sprintf("%d MiB on the cpu device", n>>20),
		fmt.Sprintf("%v: it holds %d MiB already, and the host has %d MiB", device.ErrOutOfMemory, held>>20, total>>20), "lower batch_size").Because(device.ErrOutOfMemory)
}

// newBlock maps n zeroed bytes, and gives back the block that they take the place of, unless
// it is nil. Nothing may use that any more.
func (m *memory) newBlock(n int, instead *block) (*block, error) {
	if n <= 0 {
		return nil, device.NotPositive("device", int64(n))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	more := n
	if instead != nil {
		more -= instead.size
	}
	if m.total > 0 && int64(more) > m.total-m.held || int64(more) > availableMemory(more) {
		return nil, oom(n, m.held, m.total)
	}
	mp, err := mapMemory(n)
	if err != nil {
		return nil, oom(n, m.held, m.total)
	}
	if instead != nil {
		instead.freed = true
		m.collect(instead)
	}
	b := &block{addr: addressOf(mp.mem), size: n, m: mp}
	i, _ := slices.BinarySearchFunc(m.dev, b.addr, func(x *block, a uint64) int { return compare(x.addr, a) })
	m.dev = slices.Insert(m.dev, i, b)
	m.held += int64(n)
	if m.held > m.peak.Load() {
		m.peak.Store(m.held)
	}
	return b, nil
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// find returns the block that holds b, or nil.
func (m *memory) find(b device.Buffer) *block {
	lo, hi := 0, len(m.dev)
	for lo < hi {
		mid := (lo + hi) / 2
		if m.dev[mid].addr <= b.Addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return nil
	}
	k := m.dev[lo-1]
	if b.Size < 0 || b.Addr-k.addr > uint64(k.size) || uint64(b.Size) > uint64(k.size)-(b.Addr-k.addr) {
		return nil
	}
	return k
}

// bytes returns the memory of b, checked against the live allocations.
func (m *memory) bytes(op string, b device.Buffer) ([]byte, error) {
	m.mu.Lock()
	k := m.find(b)
	ok := k != nil && !k.freed
	m.mu.Unlock()
	if !ok {
		return nil, device.Foreign(op, b)
	}
	off := int(b.Addr - k.addr)
	return k.m.mem[off : off+b.Size : off+b.Size], nil
}

// retain is bytes plus a reference to the block, for a program.
func (m *memory) retain(b device.Buffer) ([]byte, *block, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.find(b)
	if k == nil || k.freed {
		return nil, nil, device.Foreign("", b)
	}
	k.refs++
	off := int(b.Addr - k.addr)
	return k.m.mem[off : off+b.Size : off+b.Size], k, nil
}

// release drops a program's reference.
func (m *memory) release(k *block) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k.refs--
	m.collect(k)
}

// free marks the block that starts at b.Addr as given back.
func (m *memory) free(b device.Buffer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.find(device.Buffer{Addr: b.Addr}); k != nil && k.addr == b.Addr && !k.freed {
		k.freed = true
		m.collect(k)
	}
}

func (m *memory) collect(k *block) {
	if !k.freed || k.refs > 0 {
		return
	}
	if i := slices.Index(m.dev, k); i >= 0 {
		m.dev = slices.Delete(m.dev, i, i+1)
		m.held -= int64(k.size)
		k.m.unmap()
	}
}

func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.dev {
		k.m.unmap()
	}
	for _, h := range m.host {
		h.unmap()
	}
	m.dev, m.host, m.held = nil, nil, 0
}

// MemoryHeld returns the bytes of device memory allocated now.
func (d *Device) MemoryHeld() int64 {
	d.mem.mu.Lock()
	defer d.mem.mu.Unlock()
	return d.mem.held
}

// Alloc returns n zeroed bytes, aligned to a cache line.
func (d *Device) Alloc(n int) (device.Buffer, error) {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return device.Buffer{}, device.ErrClosed
	}
	k, err := d.mem.newBlock(n, nil)
	if err != nil {
		return device.Buffer{}, err
	}
	return device.Buffer{Addr: k.addr, Size: n}, nil
}

// Free waits for the work enqueued so far and gives b back. A buffer that Alloc
// did not return is ignored.
func (d *Device) Free(b device.Buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.drain()
	d.mem.free(b)
}

// AllocHost returns n bytes that start on a page. They are ordinary memory.
func (d *Device) AllocHost(n int) ([]byte, error) {
	if n <= 0 {
		return nil, device.NotPositive("host", int64(n))
	}
	d.mem.mu.Lock()
	defer d.mem.mu.Unlock()
	mp, err := mapMemory(n)
	if err != nil {
		return nil, errs.Wrap(err, "allocate", fmt.Sprintf("%d MiB of host memory", n>>20), "lower prefetch_factor or batch_size")
	}
	if d.mem.host == nil {
		d.mem.host = make(map[*byte]*mapping)
	}
	d.mem.host[unsafe.SliceData(mp.mem)] = mp
	return mp.mem[:n:n], nil
}

// FreeHost gives back what AllocHost returned. Anything else is ignored.
func (d *Device) FreeHost(b []byte) {
	d.mem.mu.Lock()
	defer d.mem.mu.Unlock()
	p := unsafe.SliceData(b)
	if mp, ok := d.mem.host[p]; ok {
		delete(d.mem.host, p)
		mp.unmap()
	}
}

// CopyIn enqueues a copy of src to the start of dst.
func (d *Device) CopyIn(s device.Stream, dst device.Buffer, src []byte) error {
	if len(src) > dst.Size {
		return device.TooSmall("copy in", len(src), dst)
	}
	return d.copy("copy in", s, dst, src, true)
}

// CopyOut enqueues a copy of the start of src to dst.
func (d *Device) CopyOut(s device.Stream, dst []byte, src device.Buffer) error {
	if len(dst) > src.Size {
		return device.TooSmall("copy out", len(dst), src)
	}
	return d.copy("copy out", s, src, dst, false)
}

func (d *Device) copy(op string, s device.Stream, b device.Buffer, host []byte, in bool) error {
	st, err := d.stream(op, s)
	if err != nil {
		return err
	}
	mem, err := d.mem.bytes(op, b)
	if err != nil {
		return err
	}
	if in {
		st.send(command{op: opCopy, dst: mem, src: host})
	} else {
		st.send(command{op: opCopy, dst: host, src: mem})
	}
	return nil
}
