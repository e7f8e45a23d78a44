package summary

import (
	"fmt"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
)

// TunedKernel is the variant of a kernel that the run chose. gain compares one launch of it with
// one of the planner's first guess.
type TunedKernel struct {
	Op      string `json:"op"`
	Layer   string `json:"layer"` // the first layer with this shape
	Variant string `json:"variant"`
	First   string `json:"first_guess"`
	Time    number `json:"launch_s"`
	Was     number `json:"first_guess_launch_s"`
	Gain    number `json:"gain"` // the part of the first guess's time that is saved
	Cached  bool   `json:"cached"`
}

// TunedKernels returns the variants that a device chose, as JSON.
func TunedKernels(ts []device.Tuned) (out []TunedKernel) {
	for _, t := range ts {
		k := TunedKernel{
			Op: t.Op, Layer: t.Layer, Variant: t.Variant, First: t.First, Cached: t.Cached,
			Time: seconds(int64(t.Time)), Was: seconds(int64(t.FirstTime)),
		}
		k.Gain = number(float64(t.FirstTime-t.Time) / float64(t.FirstTime)) // NaN if the first guess was not timed
		out = append(out, k)
	}
	return out
}

// tunedText says how much kernel time tuning saved.
func tunedText(ks []TunedKernel) string {
	var now, was float64
	changed := 0
	for _, k := range ks {
		now, was = now+float64(k.Time), was+float64(k.Was)
		if k.Variant != k.First {
			changed++
		}
	}
	if was == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d kernels take another variant than the planner's guess, which saves %s of their time",
		changed, len(ks), units.Prose.Percent((was-now)/was))
}
