package advice

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// MaxPast is how many earlier runs a run is compared with.
const MaxPast = 3

// Past sums up earlier runs of the same training: how many there were, and what they reached in
// samples a second. Others is the mean share of the cores that other processes used meanwhile. It
// is NaN unless all runs know it.
type Past struct {
	Runs, Median, Low, High float64
	Others                  float64
}

// Reached is what one earlier run reached: samples a second, and Others as in Past.
type Reached struct{ Rate, Others float64 }

// NewPast sums up runs; false where there are none.
func NewPast(runs []Reached) (p Past, ok bool) {
	if len(runs) == 0 {
		return p, false
	}
	slices.SortFunc(runs, func(a, b Reached) int { return cmp.Compare(a.Rate, b.Rate) })
	n := len(runs)
	p = Past{Runs: float64(n), Median: (runs[(n-1)/2].Rate + runs[n/2].Rate) / 2, Low: runs[0].Rate, High: runs[n-1].Rate}
	for _, r := range runs {
		p.Others += r.Others / float64(n)
	}
	return p, true
}

// gauges returns the fields of p that every session has, with their names there.
func (p *Past) gauges() [4]pastGauge {
	return [...]pastGauge{{trace.GaugePastRuns, &p.Runs}, {trace.GaugePastMedian, &p.Median}, {trace.GaugePastLow, &p.Low}, {trace.GaugePastHigh, &p.High}}
}

type pastGauge struct {
	name  string
	value *float64
}

// Record records p in a session. It is called once.
func (p *Past) Record(r *trace.Recorder) {
	for _, g := range p.gauges() {
		r.Gauge(g.name, *g.value)
	}
	if !math.IsNaN(p.Others) {
		r.Gauge(trace.GaugePastOthers, 100*p.Others)
	}
}

// PastOf returns what a session knows of earlier runs.
func PastOf(s *trace.Snapshot) (p Past, ok bool) {
	for _, g := range p.gauges() {
		if *g.value, ok = s.Gauge(g.name); !ok {
			return Past{}, false
		}
	}
	p.Others = math.NaN()
	if percent, known := s.Gauge(trace.GaugePastOthers); known {
		p.Others = percent / 100
	}
	return p, p.Runs >= 1 && p.Median > 0
}

// Against says how a rate compares: "41 % slower than the median of the last 3 runs of this
// training (1,200 to 1,310 samples/s)". The loaders' settings may differ. different reports whether
// the rate lies at least a twentieth outside of what the runs reached. If other processes used much
// more or less of the cores then, the text says so, because that may be the reason.
func (p *Past) Against(rate, others float64) (text string, different bool) {
	change, way := rate/p.Median-1, "faster"
	if change < 0 {
		change, way = -change, "slower"
	}
	of := fmt.Sprintf("the median of the last %.0f runs", p.Runs)
	spread := fmt.Sprintf("%s to %s samples/s", units.Rate(p.Low), units.Rate(p.High))
	if p.Runs == 1 {
		of, spread = "the last run", units.Rate(p.Median)+" samples/s"
	}
	text = fmt.Sprintf("%s %s than %s of this training (%s)", units.Prose.Percent(change), way, of, spread)
	if math.Abs(p.Others-others) > SteadyOthers {
		text += fmt.Sprintf(", when other processes used %s of the cores, against %s in this one", units.Prose.Percent(p.Others), units.Prose.Percent(others))
	}
	return text, (rate < p.Low || rate > p.High) && change >= moderate
}
