package nn_test

import (
	"errors"
	"fmt"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// refDevice runs every launch with the kernels' Go references, at once. It
// separates errors of this package from errors of a device's kernels. New memory
// is poisoned with NaN, so that a read before a write shows.
type refDevice struct {
	blocks map[uint64][]byte
	next   uint64
	progs  [][]device.Launch
	handle int32
}

func newRefDevice() *refDevice {
	return &refDevice{blocks: map[uint64][]byte{}, next: 1 << 20}
}

func (d *refDevice) Info() device.Info {
	return device.Info{Kind: "reference", Name: "Go references", Computes: true, Types: []string{"fp32", "tf32", "fp16", "bf16"}}
}

func (d *refDevice) Alloc(n int) (device.Buffer, error) {
	words := make([]float32, (n+3)/4) // for the alignment
	b := asBytes(words)[:n]
	for i := range b {
		b[i] = 0xff
	}
	a := d.next
	d.next += uint64(n+1<<20) &^ 0xffff
	d.blocks[a] = b
	return device.Buffer{Addr: a, Size: n}, nil
}

func (d *refDevice) Free(b device.Buffer) {
	if _, ok := d.blocks[b.Addr]; !ok {
		panic("refDevice: free of a buffer that is not allocated")
	}
	delete(d.blocks, b.Addr)
}

func (d *refDevice) AllocHost(n int) ([]byte, error) { return make([]byte, n), nil }
func (d *refDevice) FreeHost([]byte)                 {}

func (d *refDevice) mem(b device.Buffer) ([]byte, error) {
	for a, m := range d.blocks {
		if b.Addr >= a && b.Addr+uint64(b.Size) <= a+uint64(len(m)) {
			return m[b.Addr-a:][:b.Size], nil
		}
	}
	return nil, fmt.Errorf("refDevice: no memory at %#x+%d", b.Addr, b.Size)
}

func (d *refDevice) CopyIn(_ device.Stream, dst device.Buffer, src []byte) error {
	m, err := d.mem(dst)
	if err == nil && len(m) < len(src) {
		err = errors.New("refDevice: copy past the end")
	}
	copy(m, src)
	return err
}

func (d *refDevice) CopyOut(_ device.Stream, dst []byte, src device.Buffer) error {
	m, err := d.mem(src)
	copy(dst, m)
	return err
}

func (d *refDevice) Prepare(ls []device.Launch) (device.Program, error) {
	for _, l := range ls {
		args := l.Op.(kernels.Op).Args()
		if len(args) != len(l.Bufs) {
			return 0, fmt.Errorf("refDevice: %s of %s has %d buffers, not %d", l.Op.Name(), l.Layer, len(l.Bufs), len(args))
		}
		for i, a := range args {
			if l.Bufs[i].Size != a.Size() {
				return 0, fmt.Errorf("refDevice: %s of %s: %s has %d bytes, not %d", l.Op.Name(), l.Layer, a.Name, l.Bufs[i].Size, a.Size())
			}
		}
	}
	d.progs = append(d.progs, ls)
	return device.Program(len(d.progs)), nil
}

func (d *refDevice) Launch(_ device.Stream, p device.Program) error {
	for _, l := range d.progs[p-1] {
		bufs := make([][]byte, len(l.Bufs))
		for i, b := range l.Bufs {
			var err error
			if bufs[i], err = d.mem(b); err != nil {
				return err
			}
		}
		l.Op.(kernels.Op).Reference(bufs)
	}
	return nil
}

func (d *refDevice) Release(device.Program) {}

func (d *refDevice) NewStream(string) (device.Stream, error) {
	d.handle++
	return device.Stream(d.handle), nil
}
func (d *refDevice) NewEvent() (device.Event, error) { d.handle++; return device.Event(d.handle), nil }
func (d *refDevice) FreeEvent(device.Event)          {}

func (d *refDevice) Record(device.Stream, device.Event) error { return nil }
func (d *refDevice) Wait(device.Stream, device.Event) error   { return nil }
func (d *refDevice) Query(device.Event) (bool, error)         { return true, nil }
func (d *refDevice) Sync(device.Event) error                  { return nil }
func (d *refDevice) Elapsed(device.Event, device.Event) (time.Duration, error) {
	return 0, nil
}
func (d *refDevice) MemoryPeak() int64 { return 0 }
func (d *refDevice) Close() error      { return nil }
