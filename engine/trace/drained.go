package trace

import "dev.gpustall/engine/base/knob"

// Drained is what one drain carries from the recorder to the session and its store.
type Drained struct {
	Now      int64 // ns; how far the session is known
	Segments []Segment
	Steps    []Step
	Spans    []Span
	Notes    []Note
	Gauges   []GaugePoint
	Ops      []OpTime // the rows that are new or have changed, in the order of ID
	Drops    [NumTracks]int64
	Baseline *Baseline        // nil when none was chosen since
	Files    map[int32]string // where the worst samples lie; nil where that has not changed

	Experiments []Experiment // those that are new or have changed
	Specs       []knob.Spec  // all; nil where none has changed
	Device      *Device      // nil where it has not changed
	Taken       *Taken       // nil where it has not changed
	Lines       []Line       // all; nil where none has changed
	Peers       []Peer       // all; nil where none has changed
}

// GaugePoint is a sample of a gauge and the gauge's name.
type GaugePoint struct {
	Name string
	Point
}

// reset empties b. It keeps b's memory, unless b held unusually many spans.
func (b *Drained) reset() {
	if cap(b.Spans) > maxPendingSpans/8 {
		b.Spans = nil
	}
	clear(b.Segments)
	clear(b.Notes)
	clear(b.Ops)
	clear(b.Experiments)
	*b = Drained{
		Segments: b.Segments[:0], Steps: b.Steps[:0], Spans: b.Spans[:0],
		Notes: b.Notes[:0], Gauges: b.Gauges[:0], Ops: b.Ops[:0], Experiments: b.Experiments[:0],
	}
}

// empty reports whether b has no row for the file.
func (b *Drained) empty() bool {
	return len(b.Segments)+len(b.Steps)+len(b.Spans)+len(b.Notes)+len(b.Gauges)+len(b.Ops)+len(b.Experiments) == 0 && b.Baseline == nil && b.Files == nil && b.Specs == nil && b.Device == nil && b.Taken == nil && b.Lines == nil && b.Peers == nil
}

// Redescribe applies what b says of knobs, device and batches to the session's description, and reports
// whether that changed anything.
func (b *Drained) Redescribe(m *Meta) (changed bool) {
	if b.Specs != nil {
		m.Specs = b.Specs
	}
	if b.Device != nil {
		m.Device, m.DeviceKind = b.Device.Name, b.Device.Kind
	}
	if t := b.Taken; t != nil {
		m.Dataset, m.Format, m.Samples, m.Host = t.Dataset, t.Format, t.Samples, t.Host
	}
	return b.Specs != nil || b.Device != nil || b.Taken != nil
}

// append adds the rows of a later drain.
func (b *Drained) append(o *Drained) {
	b.Now, b.Drops = o.Now, o.Drops
	b.Segments = append(b.Segments, o.Segments...)
	b.Steps = append(b.Steps, o.Steps...)
	b.Spans = append(b.Spans, o.Spans...)
	b.Notes = append(b.Notes, o.Notes...)
	b.Gauges = append(b.Gauges, o.Gauges...)
	b.Ops = mergeOps(b.Ops, o.Ops)
	b.Experiments = mergeExperiments(b.Experiments, o.Experiments)
	if o.Baseline != nil {
		b.Baseline = o.Baseline
	}
	if o.Specs != nil {
		b.Specs = o.Specs
	}
	if o.Device != nil {
		b.Device = o.Device
	}
	if o.Taken != nil {
		b.Taken = o.Taken
	}
	if o.Files != nil {
		b.Files = o.Files
	}
	if o.Lines != nil {
		b.Lines = o.Lines
	}
	if o.Peers != nil {
		b.Peers = o.Peers
	}
}
