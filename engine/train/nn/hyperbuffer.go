package nn

import (
	"unsafe"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// initialScale is the first loss scale of F16, PyTorch's GradScaler's. BF16 has
// float32's range and needs none.
const initialScale = 65536

func lossScale(t kernels.Type) float32 {
	if t == kernels.F16 {
		return initialScale
	}
	return 1
}

// ScaleSize is the bytes that State.ReadScale writes.
const ScaleSize = 8

// hyperBuffer is what the optimizer's kernels read besides the parameters: its
// settings, the loss scale of the compute type, and the count of updates. The device
// changes the loss scale and the count, and the host changes the rest. It belongs to a
// State.
type hyperBuffer struct {
	copier  *copier
	buf     device.Buffer
	ring    hyperRing
	setting Hyper
	count   [3]float32                 // HyperStep and what follows from it, while buf is rewritten
	scales  map[kernels.Type][]float32 // buf as a type left it, with its loss scale
}

// keep remembers the loss scale of the type in force, and the count of updates.
func (b *hyperBuffer) keep(t kernels.Type) error {
	h := make([]float32, kernels.HyperLen)
	if err := b.copier.out(h, b.buf); err != nil {
		return err
	}
	b.setScale(t, h)
	copy(b.count[:], h[kernels.HyperStep:])
	return nil
}

func (b *hyperBuffer) setScale(t kernels.Type, h []float32) {
	if b.scales == nil {
		b.scales = make(map[kernels.Type][]float32)
	}
	b.scales[t] = h
}

// reset writes the whole buffer: the settings, and the type's loss scale. That is the
// last one the type had or, at its first use, the initial one.
func (b *hyperBuffer) reset(l Layout) error {
	h := make([]float32, kernels.HyperLen)
	if kept, ok := b.scales[l.Type]; ok {
		copy(h, kept)
	} else {
		h[kernels.HyperLossScale] = lossScale(l.Type)
		h[kernels.HyperGradScale] = lossScale(l.Type) // stays, in plans that do not adapt the scale
	}
	copy(h[kernels.HyperStep:], b.count[:])
	b.setting.write(h, l)
	return b.copier.in(b.buf, h)
}

// write writes the settings to their places in the buffer's copy.
func (h *Hyper) write(dst []float32, l Layout) {
	dst[kernels.HyperLR] = float32(h.LR)
	dst[kernels.HyperMomentum] = float32(h.Momentum)
	dst[kernels.HyperWeightDecay] = float32(h.WeightDecay)
	dst[kernels.HyperBatches] = float32(l.Accumulate)
	dst[kernels.HyperFresh] = float32(1 - h.Squares)
	dst[kernels.HyperEps] = float32(h.Eps)
	dst[kernels.HyperLRDecay] = float32(h.LRDecay)
}

// set enqueues a change of the settings.
func (b *hyperBuffer) set(stream device.Stream, h Hyper, l Layout) error {
	dev := b.copier.dev
	src, err := b.ring.next(dev)
	if err != nil {
		return err
	}
	rare := h.Squares != b.setting.Squares || h.Eps != b.setting.Eps || h.LRDecay != b.setting.LRDecay
	b.setting = h
	h.write(src.values, l)
	// The device changes what lies between the two parts.
	if err := b.copyIn(stream, src, kernels.HyperLR, kernels.HyperWeightDecay+1); err != nil {
		return err
	}
	if rare {
		if err := b.copyIn(stream, src, kernels.HyperFresh, kernels.HyperLRDecay+1); err != nil {
			return err
		}
	}
	return dev.Record(stream, src.free)
}

// copyIn enqueues the copy of the hyper-parameters [from, to).
func (b *hyperBuffer) copyIn(stream device.Stream, src *hyperSlot, from, to int) error {
	err := b.copier.dev.CopyIn(stream, b.buf.Slice(4*from, 4*(to-from)), src.mem[4*from:4*to])
	return errs.Wrap(err, "set", "the hyper-parameters", "")
}

// readScale enqueues a copy of the loss scale, and of whether the last update was skipped.
func (b *hyperBuffer) readScale(stream device.Stream, dst []byte) error {
	from := b.buf.Slice(4*kernels.HyperLossScale, ScaleSize) // HyperSkip is the next
	err := b.copier.dev.CopyOut(stream, dst[:ScaleSize], from)
	return errs.Wrap(err, "read", "the loss scale", "")
}

// hyperRing is host memory for copies of hyper-parameters in flight.
type hyperRing struct {
	slots [8]hyperSlot
	at    int
}

type hyperSlot struct {
	mem    []byte
	values []float32 // mem
	free   device.Event
	used   bool
}

func (r *hyperRing) alloc(dev device.Device) error {
	for i := range r.slots {
		s := &r.slots[i]
		var err error
		if s.mem, err = dev.AllocHost(4 * kernels.HyperLen); err != nil {
			return errs.Wrap(err, "allocate", "host memory for hyper-parameters", "")
		}
		s.values = unsafe.Slice((*float32)(unsafe.Pointer(&s.mem[0])), kernels.HyperLen)
		if s.free, err = dev.NewEvent(); err != nil {
			return errs.Wrap(err, "create", "an event for hyper-parameters", "")
		}
	}
	return nil
}

// next returns a slot whose last copy has completed.
func (r *hyperRing) next(dev device.Device) (*hyperSlot, error) {
	s := &r.slots[r.at]
	r.at = (r.at + 1) % len(r.slots)
	if s.used {
		if err := dev.Sync(s.free); err != nil {
			return nil, errs.Wrap(err, "wait for", "the copy of hyper-parameters", "")
		}
	}
	s.used = true
	return s, nil
}

func (r *hyperRing) free(dev device.Device) {
	for i := range r.slots {
		s := &r.slots[i]
		if s.mem != nil {
			dev.FreeHost(s.mem)
		}
		if s.free != 0 {
			dev.FreeEvent(s.free)
		}
		*s = hyperSlot{}
	}
}
