package engine

import (
	"slices"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

// opSteps is how many timed steps of a segment leave their ops as spans; the
// others count in the table alone.
const opSteps = 64

// opTable is the device time of every launch of the step, by segment. Its rows
// are only ever appended and added to, so a row's index names it for good.
type opTable struct {
	timer   device.OpTimer // nil when the device cannot time launches
	chooser device.Chooser // nil when it has one kernel for each operation
	sample  sampler
	rows    []trace.OpTime
	at      map[opKey]int32
	spans   int // timed steps of the segment that left spans
	track   *trace.Track
	dirty   bool // rows changed since they were published

	times    []time.Duration
	variants []string
}

// opRow is where a launch counts, and what one call of it is.
type opRow struct {
	at           int32
	flops, bytes float64
}

type opKey struct {
	segment                     int32
	name, layer, phase, variant string
}

func (t *opTable) open(dev device.Device) {
	t.at = map[opKey]int32{}
	t.timer, _ = dev.(device.OpTimer)
	t.chooser, _ = dev.(device.Chooser)
}

// begin starts a segment.
func (t *opTable) begin(mode OpTiming) {
	t.sample.begin(mode)
	t.spans = 0
}

// launch enqueues the step's program, timed when it is its turn.
func (t *opTable) launch(e *Engine, p *program) (device.Timing, error) {
	if t.timer == nil || !t.sample.due() {
		return 0, e.dev.Launch(e.computeStream, p.id)
	}
	return t.timer.LaunchTimed(e.computeStream, p.id)
}

// read adds up the ops of a timed step, whose compute began at start.
func (t *opTable) read(e *Engine, f *flight, start int64, flags uint16) (err error) {
	if t.times, err = t.timer.OpTimes(f.timing, t.times); err != nil {
		return err
	}
	f.timing = 0
	t.locate(e, f.prog, f.segment)
	t.dirty = true
	keep := t.spans < opSteps
	if keep {
		t.spans++
		if t.track == nil {
			t.track = e.rec.Track(trace.TrackOps)
		}
	}
	for i, d := range t.times {
		op := &f.prog.rows[i]
		row := &t.rows[op.at]
		if row.Calls == 0 || int64(d) < row.Min {
			row.Min = int64(d)
		}
		row.Max = max(row.Max, int64(d))
		row.Calls++
		row.Total += int64(d)
		row.FLOPs += op.flops
		row.Bytes += op.bytes
		if keep {
			t.track.Record(trace.Span{
				Start: start, End: start + int64(d), Step: f.step, Batch: f.seq,
				Kind: trace.KindOp, Flags: flags, Arg: uint32(op.at),
			})
		}
		start += int64(d)
	}
	return nil
}

// locate finds the rows of a program's launches under a segment, and makes those
// that are missing.
func (t *opTable) locate(e *Engine, p *program, segment int32) {
	if p.rows != nil && p.segment == segment {
		return
	}
	p.rows, p.segment = slices.Grow(p.rows[:0], len(p.launches)), segment
	t.variants = t.variants[:0]
	if t.chooser != nil {
		t.variants = t.chooser.Variants(p.id, t.variants)
	}
	for i, l := range p.launches {
		key := opKey{segment: segment, name: l.Op.Name(), layer: l.Layer, phase: l.Phase}
		if i < len(t.variants) {
			key.variant = t.variants[i]
		}
		at, ok := t.at[key]
		if !ok {
			at = int32(len(t.rows))
			t.at[key] = at
			t.rows = append(t.rows, trace.OpTime{
				Segment: segment, Name: key.name, Layer: key.layer, Phase: key.phase, Variant: key.variant,
			})
		}
		p.rows = append(p.rows, opRow{at, l.Op.FLOPs(), l.Op.Bytes()})
	}
}

// Ops returns the device time of every op so far, by segment and in the order of
// the step. It belongs to the step loop's goroutine, or to anyone once Run has
// returned.
func (e *Engine) Ops() []trace.OpTime { return slices.Clone(e.ops.rows) }

// publish hands the session the table, if it changed.
func (t *opTable) publish(rec *trace.Recorder) {
	if t.dirty {
		t.dirty = false
		rec.Ops(t.rows)
	}
}
