package experiment

import (
	"math/rand/v2"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/trace"
)

// pairing is the pair under way. A pair has four quarters: X, Y, Y, X. One of the two settings is
// X, the outer side, and the other is Y, the inner side. Which setting is X is drawn for each pair.
type pairing struct {
	random  *rand.Rand
	quarter int64 // ns of active time

	pair   trace.Pair
	outer  int
	part   int   // 0: the first X; 1: both Y; 2: the last X
	active int64 // ns, of the part
	spoilt bool  // by a pause within an epoch
	recurs bool  // the pair before had one too: it is an evaluation every so many steps, which both sides have

	// Where the starts of epochs matter, a side's parts are whole epochs, and the start that the change itself
	// causes is left out.
	whole bool
	epoch int32
	open  bool // steps count: an epoch began since the side came into force
}

// begin begins another pair.
func (p *pairing) begin() {
	p.pair, p.outer = trace.Pair{}, p.random.IntN(2)
	p.part, p.active, p.spoilt = 0, 0, false
}

// side returns the setting that the current quarter measures: 0 for A, 1 for B.
func (p *pairing) side() int {
	if p.part == 1 {
		return 1 - p.outer
	}
	return p.outer
}

// add counts a step, and reports whether it ends the part.
func (p *pairing) add(s *trace.Step) bool {
	first := s.Epoch != p.epoch
	p.epoch = s.Epoch
	counts := p.open || !p.whole
	p.open = p.open || first && s.Flags&trace.FlagTransition == 0
	if s.Flags&trace.FlagTransition != 0 || !counts {
		p.pair.LeftOut++
		return false
	}
	if p.pair.Start == 0 {
		p.pair.Start = s.Start
	}
	p.pair.End = s.End
	// An evaluation between epochs is the training's own, and both sides have it.
	p.spoilt = p.spoilt || s.Stall[trace.CausePaused] > 0 && s.Flags&trace.FlagFirstOfEpoch == 0
	b, active := &p.pair.A, s.Active()
	if p.side() == sideB {
		b = &p.pair.B
	}
	b.Steps++
	b.Samples += int64(s.Samples)
	b.Active += active
	b.Busy += s.Busy
	b.Squares += float64(active) * float64(active)
	p.active += active
	least := p.quarter
	if p.part == 1 {
		least *= 2
	}
	return p.active >= least && (first || !p.whole)
}

// alternate continues the pairs.
func (e *Experiment) alternate(s *trace.Snapshot, steps []trace.Step) {
	p := &e.pairs
	if e.want(s, p.side()); e.segment < 0 {
		return
	}
	for i := range steps {
		if steps[i].Segment != e.segment || !p.add(&steps[i]) {
			continue
		}
		if p.part, p.active = p.part+1, 0; p.part == 3 {
			if e.complete(s); e.ending {
				return
			}
		}
		if p.side() != e.side { // the steps that follow belong to neither part
			p.open = false
			e.want(s, p.side())
			return
		}
	}
}

// complete adds a measured pair, and ends the experiment if that answers its question.
func (e *Experiment) complete(s *trace.Snapshot) {
	p := &e.pairs
	if !p.spoilt || p.recurs {
		e.x.Pairs = append(e.x.Pairs, p.pair)
		e.log.Experiment(e.x)
	}
	p.recurs = p.spoilt
	p.begin()
	so := e.so(s)
	switch c := &so.Change.Throughput; {
	case c.Answer == stats.Unknown:
	case e.tune != nil:
		e.tune.proof.concludeTurns(s, c)
	case c.Answer == stats.Different && c.Ratio > 1:
		e.finish(s, sideB, "")
	default:
		e.finish(s, sideA, "")
	}
}
