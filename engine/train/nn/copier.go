package nn

import (
	"fmt"
	"runtime"
	"unsafe"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
)

// copier copies between the host and a state's device memory, and waits for each copy.
// The device must not be using the buffer meanwhile.
type copier struct {
	dev    device.Device
	stream device.Stream
	done   device.Event
	what   string // is copied, for errors
}

func (c *copier) open() (err error) {
	if c.stream, err = c.dev.NewStream("state"); err != nil {
		return errs.Wrap(err, "create", "a stream for "+c.what, "")
	}
	if c.done, err = c.dev.NewEvent(); err != nil {
		return errs.Wrap(err, "create", "an event for "+c.what, "")
	}
	return nil
}

func (c *copier) close() {
	if c.done != 0 {
		c.dev.FreeEvent(c.done)
		c.done = 0
	}
}

// alloc allocates float32 elements.
func (c *copier) alloc(elems int) (device.Buffer, error) {
	b, err := c.dev.Alloc(4 * elems)
	if err != nil {
		return b, errs.Wrap(err, "allocate", fmt.Sprintf("%d bytes of %s", 4*elems, c.what), "")
	}
	return b, nil
}

// free frees a buffer if there is one.
func (c *copier) free(b *device.Buffer) {
	if b.Size > 0 {
		c.dev.Free(*b)
		*b = device.Buffer{}
	}
}

// in copies v to the start of dst.
func (c *copier) in(dst device.Buffer, v []float32) error {
	if err := c.dev.CopyIn(c.stream, dst.Slice(0, 4*len(v)), bytesOf(v)); err != nil {
		return errs.Wrap(err, "write", c.what, "")
	}
	err := c.sync()
	runtime.KeepAlive(v) // the device may read it until now
	return err
}

// out copies the start of src to v.
func (c *copier) out(v []float32, src device.Buffer) error {
	if err := c.dev.CopyOut(c.stream, bytesOf(v), src.Slice(0, 4*len(v))); err != nil {
		return errs.Wrap(err, "read", c.what, "")
	}
	return c.sync()
}

// run runs one launch and waits for it.
func (c *copier) run(l device.Launch) error {
	p, err := c.dev.Prepare([]device.Launch{l})
	if err != nil {
		return err
	}
	defer c.dev.Release(p)
	if err := c.dev.Launch(c.stream, p); err != nil {
		return err
	}
	return c.sync()
}

// sync waits for everything that was enqueued.
func (c *copier) sync() error {
	err := c.dev.Record(c.stream, c.done)
	if err == nil {
		err = c.dev.Sync(c.done)
	}
	return errs.Wrap(err, "wait for the copies of", c.what, "")
}

// bytesOf returns v's memory.
func bytesOf(v []float32) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))
}
