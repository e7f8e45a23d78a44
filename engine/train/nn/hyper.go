package nn

import (
	"math"
	"unsafe"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// Hyper are an optimizer's settings, in PyTorch's words. An optimizer uses some of them.
type Hyper struct {
	LR          float64
	Momentum    float64 // Adam's beta1
	WeightDecay float64
	Squares     float64 // what is kept of an average of squares: Adam's beta2, Adadelta's rho
	Eps         float64
	LRDecay     float64
}

// Recipe is what trains a model well when nobody chose: SGD with momentum, and a learning
// rate that warms up linearly to the constant Hyper.LR. Warm-up keeps the first large
// steps of a momentum run from diverging (Goyal et al., "Accurate, large minibatch SGD",
// 2017).
type Recipe struct {
	Hyper
	Warmup int // steps
}

// At returns the settings of step, counted from 0.
func (s Recipe) At(step int) Hyper {
	h := s.Hyper
	if step < s.Warmup {
		h.LR *= float64(step+1) / float64(s.Warmup)
	}
	return h
}

// Recipe returns settings that train m well at a batch size: the usual
// CIFAR recipe (momentum 0.9, weight decay 5e-4) with a learning rate for batch
// 128, scaled linearly to smaller batches. Models without batch norm take a smaller
// rate.
func (m *Model) Recipe(batch int) Recipe {
	lr, warmup := 0.1, 100
	if len(m.stats) == 0 {
		lr, warmup = 0.05, 50
	}
	lr *= math.Min(1, float64(batch)/128)
	return Recipe{Hyper: Hyper{LR: lr, Momentum: 0.9, WeightDecay: 5e-4}, Warmup: warmup}
}

// initialScale is the first loss scale of F16, PyTorch's GradScaler's. BF16 has
// float32's range and needs none.
const initialScale = 65536

func lossScale(t kernels.Type) float32 {
	if t == kernels.F16 {
		return initialScale
	}
	return 1
}

// keepScale remembers the loss scale of the type in force, and the count of updates.
func (s *State) keepScale() error {
	h := make([]float32, kernels.HyperLen)
	if err := s.out(h, s.hyper); err != nil {
		return err
	}
	if s.scales == nil {
		s.scales = make(map[kernels.Type][]float32)
	}
	s.scales[s.typ] = h
	copy(s.count[:], h[kernels.HyperStep:])
	return nil
}

// resetHyper writes the whole hyper buffer: the settings, and the type's loss scale,
// which is the last one it had or, at its first use, the initial one.
func (s *State) resetHyper() error {
	h := make([]float32, kernels.HyperLen)
	if kept, ok := s.scales[s.typ]; ok {
		copy(h, kept)
	} else {
		h[kernels.HyperLossScale] = lossScale(s.typ)
		h[kernels.HyperGradScale] = lossScale(s.typ) // stays, in plans that do not adapt the scale
	}
	copy(h[kernels.HyperStep:], s.count[:])
	s.write(h, s.setting)
	return s.in(s.hyper, h)
}

func (s *State) write(dst []float32, h Hyper) {
	dst[kernels.HyperLR] = float32(h.LR)
	dst[kernels.HyperMomentum] = float32(h.Momentum)
	dst[kernels.HyperWeightDecay] = float32(h.WeightDecay)
	dst[kernels.HyperBatches] = float32(s.accumulate)
	dst[kernels.HyperFresh] = float32(1 - h.Squares)
	dst[kernels.HyperEps] = float32(h.Eps)
	dst[kernels.HyperLRDecay] = float32(h.LRDecay)
}

// SetHyper changes the optimizer's settings for the work enqueued on stream from
// now on. It does not wait, unless it is called eight times within one step.
func (s *State) SetHyper(stream device.Stream, h Hyper) error {
	src, err := s.ring.next(s.dev)
	if err != nil {
		return err
	}
	rare := h.Squares != s.setting.Squares || h.Eps != s.setting.Eps || h.LRDecay != s.setting.LRDecay
	s.setting = h
	s.write(src.values, h)
	// Only these: what lies between them belongs to the device.
	if err := s.copyHyper(stream, src, kernels.HyperLR, kernels.HyperWeightDecay+1); err != nil {
		return err
	}
	if rare {
		if err := s.copyHyper(stream, src, kernels.HyperFresh, kernels.HyperLRDecay+1); err != nil {
			return err
		}
	}
	return s.dev.Record(stream, src.free)
}

// copyHyper enqueues the copy of the hyper-parameters [from, to).
func (s *State) copyHyper(stream device.Stream, src *hyperSlot, from, to int) error {
	err := s.dev.CopyIn(stream, s.hyper.Slice(4*from, 4*(to-from)), src.mem[4*from:4*to])
	return errs.Wrap(err, "set", "the hyper-parameters", "")
}

// Hyper returns the settings last set.
func (s *State) Hyper() Hyper { return s.setting }

// ReadScale enqueues a copy to dst, float32[2]: the loss scale of the next step, and
// whether the last update was skipped (not 0). Only F16 uses them.
func (s *State) ReadScale(stream device.Stream, dst []byte) error {
	from := s.hyper.Slice(4*kernels.HyperLossScale, ScaleSize) // HyperSkip is the next
	if err := s.dev.CopyOut(stream, dst[:ScaleSize], from); err != nil {
		return errs.Wrap(err, "read", "the loss scale", "")
	}
	return nil
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
