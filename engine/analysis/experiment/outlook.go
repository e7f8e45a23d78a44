package experiment

import (
	"math"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// outlook is what is expected of a setting, in samples a second.
type outlook struct {
	knobs        []knob.Setting
	rate, lo, hi float64
	others       float64 // as in trace.Prediction
	advised      string  // why the advisor would try it, where no model would
	light        bool    // it should be as fast as the best one, with fewer workers
}

// known reports whether anything is expected.
func (o *outlook) known() bool { return o.rate > 0 }

// against returns the outlook as a prediction relative to a rate.
func (o *outlook) against(base float64) trace.Prediction {
	if !o.known() {
		return trace.Prediction{}
	}
	return trace.Prediction{Base: base, Rate: o.rate, Lo: o.lo, Hi: o.hi, Others: o.others}
}

// outlooks predicts settings from the measured ones, and learns from each trial.
type outlooks struct {
	space      *space
	points     *points
	hostDevice bool // the device computes on the host's cores

	known map[seen]outlook   // predicted before
	trust map[string]float64 // by knob: which share of its predicted gain it had; a knob that was not tried counts as 1
}

// seen is a setting as predicted from the point of a segment.
type seen struct {
	from int32
	key  string
}

// of predicts a setting from the most similar measured one.
func (t *outlooks) of(knobs []knob.Setting) outlook {
	var p *point
	least := math.Inf(1)
	for i := range t.points.all {
		m := &t.points.all[i]
		if d := t.space.distance(m.knobs, knobs); d < least && m.model != nil {
			p, least = m, d
		}
	}
	if p == nil {
		return outlook{knobs: knobs}
	}
	changes := advice.Changed(p.knobs, knobs)
	of := seen{p.segment, t.space.key(knobs)}
	o, ok := t.known[of]
	if !ok {
		if pr, known := p.model.Predict(changes...); known {
			scale := p.rate() / pr.Base
			o = outlook{rate: pr.Rate * scale, lo: pr.Lo * scale, hi: pr.Hi * scale, others: pr.Others}
		}
		t.known[of] = o
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

// trusted lowers a predicted rate if the same knobs earlier gained less than predicted.
func (t *outlooks) trusted(rate float64, p *point, changes []knob.Setting) float64 {
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

// learn notes which share of its predicted gain a trial had. A trial that is kept has moved
// the bottleneck, so learn then forgets what was known of other knobs.
func (t *outlooks) learn(trial *outlook, best, m *point, kept bool) {
	predicted, measured := math.Log(trial.rate/best.rate()), math.Log(m.rate()/best.rate())
	if kept {
		clear(t.trust)
	}
	if !trial.known() || predicted < math.Log1p(worth) {
		return
	}
	for _, k := range advice.Chosen(best.knobs, m.knobs) {
		t.trust[k.Name] = max(0, min(1, measured/predicted))
	}
}

// most returns the highest rate that a setting can reach, which is the rate of a device that
// computes all the time. It is known if the device does the same work as at p, on cores of its
// own.
func (t *outlooks) most(p *point, knobs []knob.Setting) float64 {
	if t.hostDevice || p.util() <= 0 || !advice.SameWork(t.space.specs, p.knobs, knobs) {
		return math.Inf(1)
	}
	return p.rate() / min(1, p.util())
}
