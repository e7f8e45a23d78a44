package experiment

import (
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// point is a setting that was measured.
type point struct {
	knobs   []knob.Setting // all
	segment int32
	stretch stats.Stretch
	block   trace.Block
	from    int64          // ns, of the first steady step
	to      int64          // ns, of the last
	cores   float64        // cores that this process may use; 0 where not known
	others  float64        // cores that other processes used
	model   *predict.Model // predicts other settings; nil where too little was measured
}

// rate returns samples a second.
func (p *point) rate() float64 {
	return 1e9 * float64(p.block.Samples) / float64(max(1, p.block.Active))
}

// step returns how long a step takes, in ns.
func (p *point) step() int64 { return p.block.Active / max(1, p.block.Steps) }

// util returns the share of the time in which the device computed.
func (p *point) util() float64 { return float64(p.block.Busy) / float64(max(1, p.block.Active)) }

// measure returns the point that a segment has measured so far.
func measure(s *trace.Snapshot, segment int32) point {
	tally := s.Tally(segment)
	t := &tally.Steady
	p := point{
		segment: segment, stretch: attribution.StretchOf(tally), from: tally.From, to: tally.To,
		block: trace.Block{Steps: t.Steps, Samples: t.Samples, Active: t.Active(), Busy: t.Busy},
	}
	if g := s.Segment(segment); g != nil {
		p.knobs = g.Knobs
	}
	cores := predict.CoresOf(s, p.from, p.to)
	if cores.Known {
		p.cores, p.others = cores.All, cores.Others
	}
	return p
}

// fit makes the model that predicts other settings from the newest steps, which must be the
// point's. window returns the session with the spans of a time.
func (p *point) fit(s *trace.Snapshot, window func(from, to int64) *trace.Snapshot) {
	t := trace.Count(attribution.Window(s))
	if t.Segment != p.segment || t.Steady.Steps == 0 {
		return
	}
	if window != nil {
		s = window(t.From, t.To)
	}
	rows := attribution.Segments(s)
	if !slices.ContainsFunc(rows, func(r attribution.SegmentStats) bool { return r.Segment.Index == p.segment }) {
		rows = append(rows, attribution.SegmentStats{Segment: trace.Segment{Index: p.segment, Knobs: p.knobs}, Stretch: p.stretch})
	}
	p.model, _ = predict.Fit(s, t, rows)
}

// points are the settings that a tune has measured.
type points struct {
	all  []point
	lead int // the best so far, as an index into all
}

func (p *points) best() *point { return &p.all[p.lead] }

// history returns how the times of steps varied in all measurements.
func (p *points) history() (h stats.History) {
	for i := range p.all {
		h.Learn(p.all[i].stretch)
	}
	return h
}

// compare relates the measured rate of b to that of a.
func (p *points) compare(a, b *point) stats.Change {
	h := p.history()
	h.Learn(a.stretch)
	h.Learn(b.stretch)
	return stats.Compare(a.stretch, b.stretch, h, stats.DefaultMargin).Throughput
}
