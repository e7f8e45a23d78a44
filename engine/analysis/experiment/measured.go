package experiment

import (
	"math"
	"slices"

	"dev.gpustall/engine/analysis/advice"
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
	to      int64          // and the last
	cores   float64        // that this process may use; 0 where that is not known
	others  float64        // and those that other processes used
	model   *predict.Model // of what it would do with other settings; nil where too little is known
}

// rate is samples a second.
func (p *point) rate() float64 {
	return 1e9 * float64(p.block.Samples) / float64(max(1, p.block.Active))
}

// util is the share of the time in which the device computed.
func (p *point) util() float64 { return float64(p.block.Busy) / float64(max(1, p.block.Active)) }

// measure is what a segment has shown so far.
func measure(s *trace.Snapshot, segment int32) point {
	tally := s.Tally(segment)
	t := &tally.Steady
	p := point{
		segment: segment, stretch: attribution.StretchOf(tally), from: tally.From, to: tally.To,
		block: trace.Block{Steps: t.Steps, Samples: t.Samples, Active: t.Active(), Busy: t.Busy},
	}
	for i := range s.Segments {
		if s.Segments[i].Index == segment {
			p.knobs = s.Segments[i].Knobs
		}
	}
	cores := predict.CoresOf(s, p.from, p.to)
	if cores.Known {
		p.cores, p.others = cores.All, cores.Others
	}
	return p
}

// fit makes the model of what other settings would do, from the newest steps, which must be
// the point's. window gives the spans of a time.
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

// outlook is what is expected of a setting, in samples a second.
type outlook struct {
	knobs        []knob.Setting
	rate, lo, hi float64
	advised      string // why the advisor would try it, where no model would
}

// known reports whether anything is expected.
func (o *outlook) known() bool { return o.rate > 0 }

// against is the outlook as a prediction from a rate.
func (o *outlook) against(base float64) trace.Prediction {
	if !o.known() {
		return trace.Prediction{}
	}
	return trace.Prediction{Base: base, Rate: o.rate, Lo: o.lo, Hi: o.hi}
}

// foresee predicts a setting from the measured one that is most like it.
func (t *tuner) foresee(knobs []knob.Setting) outlook {
	var p *point
	least := math.Inf(1)
	for i := range t.points {
		if d := t.space.distance(t.points[i].knobs, knobs); d < least && t.points[i].model != nil {
			p, least = &t.points[i], d
		}
	}
	if p == nil {
		return outlook{knobs: knobs}
	}
	changes := advice.Changed(p.knobs, knobs)
	of := seen{p.segment, t.space.key(knobs)}
	o, ok := t.outlooks[of]
	if !ok {
		if pr, known := p.model.Predict(changes...); known {
			scale := p.rate() / pr.Base
			o = outlook{rate: pr.Rate * scale, lo: pr.Lo * scale, hi: pr.Hi * scale}
		}
		t.outlooks[of] = o
	}
	o.knobs = knobs
	if !o.known() {
		return o
	}
	most := t.most(p, knobs)
	o.rate, o.lo, o.hi = min(most, t.trusted(o.rate, p, changes)), min(most, o.lo), min(most, o.hi)
	o.lo = min(o.lo, o.rate)
	return o
}

// trusted is a predicted rate less what the same knobs failed to gain before, of what was
// predicted of them.
func (t *tuner) trusted(rate float64, p *point, changes []knob.Setting) float64 {
	share := 1.0
	for _, k := range changes {
		if v, ok := t.trust[k.Name]; ok {
			share = min(share, v)
		}
	}
	if gain := rate / p.rate(); gain > 1 {
		return p.rate() * math.Pow(gain, share)
	}
	return rate
}

// learn takes down how much of the gain that was predicted of a trial there was. What was
// known of other knobs is forgotten when these moved the bottleneck.
func (t *tuner) learn(best, m *point, kept bool) {
	predicted, measured := math.Log(t.trial.rate/best.rate()), math.Log(m.rate()/best.rate())
	if kept {
		clear(t.trust)
	}
	if !t.trial.known() || predicted < math.Log1p(worth) {
		return
	}
	for _, k := range advice.Chosen(best.knobs, m.knobs) {
		t.trust[k.Name] = max(0, min(1, measured/predicted))
	}
}

// seen is a setting as seen from the point of a segment.
type seen struct {
	from int32
	key  string
}

// most is the rate above which no setting can be where the device has the same work as at
// a point, and cores of its own: that of its computing all the time.
func (t *tuner) most(p *point, knobs []knob.Setting) float64 {
	if t.hostDevice || p.util() <= 0 || !advice.SameWork(t.space.specs, p.knobs, knobs) {
		return math.Inf(1)
	}
	return p.rate() / min(1, p.util())
}

// compare relates what was measured of b to a.
func (t *tuner) compare(a, b *point) stats.Change {
	var h stats.History
	for i := range t.points {
		h.Learn(t.points[i].stretch)
	}
	h.Learn(a.stretch)
	h.Learn(b.stretch)
	return stats.Compare(a.stretch, b.stretch, h, stats.DefaultMargin).Throughput
}
