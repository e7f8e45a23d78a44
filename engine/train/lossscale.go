package train

import (
	"fmt"

	"dev.gpustall/engine/trace"
)

// overflowNotes is how many overflows are noted one by one.
const overflowNotes = 20

// lossScale follows the dynamic loss scale of fp16, which lives on the device.
type lossScale struct {
	scale   float32 // 0 before the first
	skipped int64   // updates
}

// record takes what the device wrote after a step's update: the loss scale of the next
// step, and whether this one's update was skipped because a gradient was not finite.
func (l *lossScale) record(r *trace.Recorder, step int32, b []byte) {
	scale, skip := float(b), float(b[4:]) != 0
	if scale != l.scale {
		r.Gauge(trace.GaugeLossScale, float64(scale))
	}
	if skip {
		l.skipped++
		r.Gauge(trace.GaugeSkippedSteps, float64(l.skipped))
		r.Gauge(trace.GaugeLastOverflow, float64(step))
		if l.skipped <= overflowNotes {
			more := ""
			if l.skipped == overflowNotes {
				more = "; later ones are counted only"
			}
			r.Note("info", fmt.Sprintf("step %d: a gradient overflowed in fp16: the update was skipped and the loss scale is now %g%s", step, scale, more))
		}
	}
	l.scale = scale
}
