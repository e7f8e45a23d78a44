package prepared

import (
	"errors"
	"fmt"
	"sort"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

// budget compares needs with the device's memory, and takes what is missing from the
// driver before any of it is used. It belongs to Steps.
type budget struct {
	est      *estimator
	buffers  *buffers
	rec      *trace.Recorder
	quiesce  func() error
	reserver device.Reserver // nil when the device reserves nothing

	largest  trace.Memory    // the most that was planned for
	launches []device.Launch // of the need that memory was reserved for last
	reserved int64           // bytes taken from the driver at once
	broken   bool            // the device failed for good
}

// take takes what n lacks from the driver, or refuses and says what to lower. Needs that
// do not fit beside the memory in use may fit in its place. Then everything moves. The
// steps in force stay usable in both cases.
func (b *budget) take(k Knobs, n *need, from basis) error {
	err := b.reserve(k, n, from)
	if errors.Is(err, device.ErrOutOfMemory) && b.fitsAfresh(n) {
		err = b.move(n)
	}
	return err
}

// reserve takes what n lacks beside what there is.
func (b *budget) reserve(k Knobs, n *need, from basis) error {
	if !b.fits(n, from) {
		return b.refusal(k, n, from, nil)
	}
	if b.reserver != nil {
		took, err := b.reserver.Reserve(b.buffers.additions(n, from))
		if errors.Is(err, device.ErrOutOfMemory) {
			return b.refusal(k, n, from, err)
		}
		if err != nil {
			return err
		}
		if took > 0 && b.reserved > 0 {
			b.rec.Note("info", fmt.Sprintf("device memory: took %s more beside %s", units.Prose.Bytes(took), units.Prose.Bytes(b.reserved)))
		}
		b.reserved += took
	}
	b.settle(n)
	return nil
}

// move takes the memory for n in place of all memory in use. The parameters go to the
// host and back, and the rest is allocated and built again. If the driver refuses, the
// old memory is taken again, and the old knobs stay good.
func (b *budget) move(n *need) error {
	if err := b.quiesce(); err != nil {
		return err
	}
	back, want := b.buffers.same(b.launches), b.buffers.replacement(n)
	image, err := b.buffers.state.Unload()
	if err != nil {
		return err
	}
	b.buffers.free()
	took, err := b.reserver.Reserve(want)
	if err != nil {
		if _, again := b.reserver.Reserve(back); again != nil {
			b.broken = true
			return errors.Join(err, again)
		}
	}
	if lost := b.buffers.state.Reload(image); lost != nil {
		b.broken = true
		return errors.Join(err, lost)
	}
	if err != nil {
		return err
	}
	b.rec.Note("info", fmt.Sprintf("device memory: moved from %s to a piece of %s", units.Prose.Bytes(b.reserved), units.Prose.Bytes(took)))
	b.reserved = took
	b.settle(n)
	return nil
}

// settle notes what memory is now planned for.
func (b *budget) settle(n *need) {
	b.launches = n.launches
	if n.Total() > b.largest.Total() {
		b.largest = n.Memory
	}
}

// fits reports whether n can be had beside the memory in use. A device that reserves
// nothing says how much memory it has in all, or nothing.
func (b *budget) fits(n *need, from basis) bool {
	if b.reserver != nil {
		return b.reserver.Fits(b.buffers.additions(n, from))
	}
	return b.est.info.Memory == 0 || n.Total() <= b.est.info.Memory
}

// fitsAfresh reports whether n would fit if everything else were given back.
func (b *budget) fitsAfresh(n *need) bool {
	return b.reserver != nil && b.buffers.state != nil && b.reserver.Fits(b.buffers.replacement(n))
}

// refusal says by part what was planned, and the knob to lower.
func (b *budget) refusal(k Knobs, n *need, from basis, cause error) error {
	if b.reserver != nil && cause == nil {
		_, cause = b.reserver.Reserve(b.buffers.additions(n, from)) // its error says how much is free
	}
	if cause == nil {
		cause = errs.Reason(fmt.Sprintf("%s has %s", b.est.info.Name, units.Prose.Bytes(b.est.info.Memory)), "").Because(device.ErrOutOfMemory)
	}
	reason := fmt.Sprintf("it needs %s of device memory (%s), but %s",
		units.Prose.Bytes(n.Total()), n.List(units.Prose.Bytes), errs.Explain(cause).Reason)
	object := fmt.Sprintf("batch_size=%d in %s", k.Loader.BatchSize, k.Precision)
	return errs.New("plan", object, reason, b.hint(k, n, from)).Because(cause)
}

// hint says which knobs to change, and how far, so that they fit where n does not.
func (b *budget) hint(k Knobs, n *need, from basis) string {
	full := k.Loader.BatchSize
	// The scratch memory is that of the refused need, because it hardly shrinks with the
	// batch.
	wouldFit := func(batch int, checkpoint bool) bool {
		k := k
		k.Loader.BatchSize, k.Checkpoint = batch, checkpoint
		less, err := b.est.buffers(k)
		less.Kernels, less.launches = n.Kernels, n.launches
		return err == nil && (b.fits(&less, from) || b.fitsAfresh(&less))
	}
	hint := "take a smaller model, or free memory of the device: not even batch_size=1 fits"
	if most := sort.Search(full-1, func(i int) bool { return !wouldFit(i+1, k.Checkpoint) }); most > 0 {
		hint = fmt.Sprintf("%s to %d", hintMemory, most)
	}
	if !k.Checkpoint && wouldFit(full, true) {
		hint += ", or turn checkpointing on"
	}
	return hint
}
