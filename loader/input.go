package loader

import (
	"strings"

	"dev.gpustall/engine/base/errs"
)

// input is what the loader reads and how it transforms it. It does not change after New, so
// the workers share it without a lock.
type input struct {
	dataset   Dataset
	transform Transform
	info      Info
	seed      int64

	// The optional interfaces of the data set and the transform; nil if they lack them.
	cropper   Cropper
	planar    Planar // only if the transform takes the data set's images as planes
	resident  Resident
	announced Announced
}

func newInput(d Dataset, t Transform, seed int64) input {
	in := input{dataset: d, transform: t, info: InfoOf(d, t), seed: seed}
	in.cropper, _ = t.(Cropper)
	in.resident, _ = d.(Resident)
	in.announced, _ = d.(Announced)
	stored := d.Info()
	if p, ok := t.(Planar); ok && p.TakesPlanes(stored.W, stored.H) {
		in.planar = p
	}
	return in
}

// layout returns the layout of a batch of n samples.
func (in *input) layout(n int, device bool) Layout { return NewLayout(in.info, n, device) }

// rng returns the generator of a sample in an epoch.
func (in *input) rng(epoch int32, index int) RNG { return NewRNG(in.seed, int(epoch), index) }

// locate returns the place of an error's sample in parentheses. It is empty if the data set
// does not know the place or the error already names it.
func (in *input) locate(err *SampleError) string {
	set, ok := in.dataset.(Locator)
	if !ok {
		return ""
	}
	at := errs.Path(set.Locate(err.Index))
	if strings.Contains(err.Error(), at) {
		return ""
	}
	return " (" + at + ")"
}
