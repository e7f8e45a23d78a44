package cpu

import (
	"fmt"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// kernel binds op to its buffers, after checking their number and sizes. The
// result runs it once.
func (d *Device) kernel(p *program, op device.Operation, bufs [][]byte) (func(), error) {
	k, ok := op.(kernels.Op)
	if !ok {
		return nil, fmt.Errorf("%w: there is no kernel for %s", device.ErrUnsupported, op.Name())
	}
	args := k.Args()
	if len(bufs) != len(args) {
		return nil, fmt.Errorf("it takes %d buffers, not %d", len(args), len(bufs))
	}
	for i, a := range args {
		if len(bufs[i]) < a.Size() {
			return nil, fmt.Errorf("buffer %d (%s) has %d bytes and needs %d", i, a.Name, len(bufs[i]), a.Size())
		}
		bufs[i] = bufs[i][:a.Size():a.Size()]
	}
	return func() { k.Reference(bufs) }, nil
}

// close gives back what binding the kernels took.
func (p *program) close() {}
