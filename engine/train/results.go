package train

import (
	"encoding/binary"
	"fmt"
	"math"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/ops"
)

// results turns finished steps into spans and step records. It belongs to the step loop.
type results struct {
	timeline   *timeline
	ops        *ops.Table
	transition *transition
	suspension *suspension
	streams    device.HostStreams // nil where streams are not threads of the host
	computes   bool               // the device does arithmetic
	modelled   bool               // its times are modelled

	scale    lossScale
	diverged bool // a loss was not finite, and a note said so
}

// record records a finished step. at has the times of its copy's and its compute's start
// and end, in ns.
func (r *results) record(f *flight, at [4]int64, now int64) error {
	copyStart, copyEnd, start, end := at[0], at[1], at[2], at[3]
	flags := f.flags
	if r.modelled {
		flags |= trace.FlagModelled
	}
	timed := f.timing != 0
	if timed {
		flags |= trace.FlagTimed
	}
	compute := trace.Span{
		Start: start, End: end, Step: f.step, Batch: f.seq, Kind: trace.KindCompute, Flags: flags,
	}
	if timed {
		if err := r.ops.Read(f.prog, f.timing, f.segment, compute); err != nil {
			return errs.Wrap(err, "read", fmt.Sprintf("the op times of step %d", f.step), hintDevice)
		}
		f.timing = 0
		f.host += r.timeline.rec.Now() - now
	}
	r.ops.Learn(f.prog, timed, end-start, f.host)
	r.transition.record(r.timeline.step, now)
	r.suspension.record(r.timeline.step, now)
	r.timeline.copy.Record(trace.Span{
		Start: copyStart, End: copyEnd, Step: f.step, Batch: f.seq,
		Kind: trace.KindCopy, Flags: flags, Arg: uint32(f.bytes >> 10),
	})
	r.timeline.compute.Record(compute)
	r.recordLate(f, copyStart, copyEnd, start)
	loss, correct := r.metrics(f)
	r.timeline.rec.Step(trace.Step{
		Index: f.step, Epoch: f.epoch, Segment: f.segment, Batch: f.seq,
		Samples: f.samples, Correct: correct, Loss: loss, Flags: flags,
		Load: f.load, Bytes: f.bytes, Work: f.work, Built: f.built,
	})
	return nil
}

// recordLate records, where streams are threads of the host, how late these threads
// began their work for a step. It also records how long the step's copy waited for a
// core. Each wait ends where the copy begins, where the copy ends, or where the compute
// begins.
func (r *results) recordLate(f *flight, copyStart, copyEnd, start int64) {
	if r.streams == nil {
		return
	}
	for _, at := range [...]struct {
		track *trace.Track
		event device.Event
		t     int64
	}{{r.timeline.copy, f.copyStart, copyStart}, {r.timeline.copy, f.copyEnd, copyEnd}, {r.timeline.compute, f.start, start}} {
		if late := int64(r.streams.Late(at.event)); late > int64(host.WakeLatency) {
			at.track.Record(trace.Span{Start: max(at.t-late, f.enqueued), End: at.t, Step: f.step, Batch: f.seq, Kind: trace.KindStarved})
		}
	}
}

// metrics returns the loss and the number of hits that the device wrote, and follows the
// loss scale. Without arithmetic there are none.
func (r *results) metrics(f *flight) (loss float32, correct int32) {
	loss, correct = float32(math.NaN()), -1
	if r.computes {
		loss = float(f.metrics)
		correct = int32(float(f.metrics[4:]))
		r.checkLoss(f.step, loss)
	}
	if f.scaled {
		r.scale.record(r.timeline.rec, f.step, f.metrics[nn.MetricsSize:])
	}
	return loss, correct
}

// checkLoss notes, once a run, that the training diverged.
func (r *results) checkLoss(step int32, loss float32) {
	if r.diverged || !math.IsNaN(float64(loss)) && !math.IsInf(float64(loss), 0) {
		return
	}
	r.diverged = true
	r.timeline.rec.Note("warn", fmt.Sprintf("step %d: the loss is %v: the training diverged; lower the learning rate", step, loss))
}

// float reads a number that the device wrote.
func float(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
