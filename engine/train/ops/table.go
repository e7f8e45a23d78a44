// Package ops measures where the device's own time goes: the time of every launch of a
// step, in one table for each segment of the run. Timing a step costs time, so a sampler
// chooses which steps are timed.
package ops

import (
	"slices"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

// stepsWithSpans is how many timed steps of a segment record their ops as spans. The
// others count only in the table.
const stepsWithSpans = 64

// Table has the device time of every launch of the step, by segment. It holds the rows of
// one segment. Steps are read in order, so a step of a later segment means that the rows
// are final. It belongs to the step loop's goroutine.
type Table struct {
	dev     device.Device
	rec     *trace.Recorder
	timer   device.OpTimer // nil when the device cannot time launches
	chooser device.Chooser // nil when it has one kernel for each operation
	sample  sampler
	segment int32 // of the rows
	rows    []trace.OpTime
	first   uint32        // the ID of the first row
	index   map[key]int32 // of the rows
	spans   int           // timed steps of the segment that left spans
	track   *trace.Track
	dirty   bool // rows changed since they were published

	times    []time.Duration // the latest timed step's; reused
	variants []string        // reused
}

type key struct{ name, layer, phase, variant string }

// NewTable returns an empty table of dev's ops, which records to rec.
func NewTable(dev device.Device, rec *trace.Recorder) *Table {
	t := &Table{dev: dev, rec: rec, index: map[key]int32{}}
	t.timer, _ = dev.(device.OpTimer)
	t.chooser, _ = dev.(device.Chooser)
	return t
}

// Begin starts a segment.
func (t *Table) Begin(mode Mode) {
	t.sample.begin(mode)
	t.spans = 0
}

// Launch enqueues the step's program. The Timing is 0 unless the step is timed.
func (t *Table) Launch(s device.Stream, p *Program) (device.Timing, error) {
	if t.timer == nil || !t.sample.due() {
		return 0, t.dev.Launch(s, p.ID)
	}
	return t.timer.LaunchTimed(s, p.ID)
}

// Learn takes the times of a step that ran p, to find out what timing costs. compute is
// the step's time on the device. host is what the step loop spent enqueuing and reading
// the step. Both are in ns.
func (t *Table) Learn(p *Program, timed bool, compute, host int64) {
	t.sample.learn(p, timed, compute, host)
}

// Read adds up the ops of a timed launch of p, which belongs to a segment. The spans of
// the ops begin where step begins, the span of the step's compute.
func (t *Table) Read(p *Program, timing device.Timing, segment int32, step trace.Span) (err error) {
	if t.times, err = t.timer.OpTimes(timing, t.times); err != nil {
		return err
	}
	t.locate(p, segment)
	t.dirty = true
	keep := t.spans < stepsWithSpans
	if keep {
		t.spans++
		if t.track == nil {
			t.track = t.rec.Track(trace.TrackOps)
		}
	}
	start := step.Start
	for i, d := range t.times {
		op := &p.ops[i]
		row := &t.rows[op.row]
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
				Start: start, End: start + int64(d), Step: step.Step, Batch: step.Batch,
				Kind: trace.KindOp, Flags: step.Flags, Arg: row.ID,
			})
		}
		start += int64(d)
	}
	return nil
}

// locate finds the rows of a program's launches in a segment, and adds missing ones.
func (t *Table) locate(p *Program, segment int32) {
	if segment != t.segment {
		t.Publish()
		t.first += uint32(len(t.rows))
		t.segment, t.rows = segment, t.rows[:0]
		clear(t.index)
	}
	if p.ops != nil && p.segment == segment {
		return
	}
	p.ops, p.segment = slices.Grow(p.ops[:0], len(p.launches)), segment
	t.variants = t.variants[:0]
	if t.chooser != nil {
		t.variants = t.chooser.Variants(p.ID, t.variants)
	}
	for i, l := range p.launches {
		k := key{name: l.Op.Name(), layer: l.Layer, phase: l.Phase}
		if i < len(t.variants) {
			k.variant = t.variants[i]
		}
		row, ok := t.index[k]
		if !ok {
			row = int32(len(t.rows))
			t.index[k] = row
			t.rows = append(t.rows, trace.OpTime{
				ID: t.first + uint32(row), Segment: segment, Name: k.name, Layer: k.layer, Phase: k.phase, Variant: k.variant,
			})
		}
		p.ops = append(p.ops, op{row, l.Op.FLOPs(), l.Op.Bytes()})
	}
}

// Publish hands the session the rows, if they changed.
func (t *Table) Publish() {
	if t.dirty {
		t.dirty = false
		t.rec.Ops(t.rows)
	}
}

// Program is a list of launches that the device has prepared, and what the table
// and the sampler know of them. The zero value is none.
type Program struct {
	ID       device.Program
	launches []device.Launch

	ops     []op  // one for each launch, in segment; nil before the first timed step
	segment int32 // of ops

	// The usual device and host time of a step, in ns, and whether a step was timed.
	usual, host float64
	timed       bool
}

// op is the work of one call of a launch, and the row that it counts in.
type op struct {
	row          int32
	flops, bytes float64
}

// NewProgram makes dev prepare launches.
func NewProgram(dev device.Device, launches []device.Launch) (Program, error) {
	id, err := dev.Prepare(launches)
	return Program{ID: id, launches: launches}, err
}
