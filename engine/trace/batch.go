package trace

// batch is what one drain carries from the recorder to the session and the file.
type batch struct {
	now      int64
	segments []Segment
	steps    []Step
	spans    []Span
	notes    []Note
	gauges   []gauge
	ops      []OpTime
	drops    [NumTracks]int64
}

// reset empties b and keeps its memory.
func (b *batch) reset() {
	clear(b.segments)
	clear(b.notes)
	*b = batch{
		segments: b.segments[:0], steps: b.steps[:0], spans: b.spans[:0],
		notes: b.notes[:0], gauges: b.gauges[:0],
	}
}

// append adds a later batch.
func (b *batch) append(o *batch) {
	b.now, b.drops = o.now, o.drops
	b.segments = append(b.segments, o.segments...)
	b.steps = append(b.steps, o.steps...)
	b.spans = append(b.spans, o.spans...)
	b.notes = append(b.notes, o.notes...)
	b.gauges = append(b.gauges, o.gauges...)
	if o.ops != nil {
		b.ops = o.ops
	}
}
