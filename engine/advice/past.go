package advice

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
)

// MaxPast is how many earlier runs a run is compared with.
const MaxPast = 3

// Past is how many earlier runs of the same setting there were, and what they reached, in
// samples a second.
type Past struct {
	Runs, Median, Low, High float64
}

// NewPast sums up the rates of runs; false for none.
func NewPast(rates []float64) (p Past, ok bool) {
	if len(rates) == 0 {
		return p, false
	}
	slices.Sort(rates)
	n := len(rates)
	return Past{float64(n), (rates[(n-1)/2] + rates[n/2]) / 2, rates[0], rates[n-1]}, true
}

// gauges are the parts of p by their names in a session.
func (p *Past) gauges() [4]pastGauge {
	return [...]pastGauge{{trace.GaugePastRuns, &p.Runs}, {trace.GaugePastMedian, &p.Median}, {trace.GaugePastLow, &p.Low}, {trace.GaugePastHigh, &p.High}}
}

type pastGauge struct {
	name  string
	value *float64
}

// Record notes it in a session, once.
func (p *Past) Record(r *trace.Recorder) {
	for _, g := range p.gauges() {
		r.Gauge(g.name, *g.value)
	}
}

// PastOf is what a session knows of earlier runs.
func PastOf(s *trace.Snapshot) (p Past, ok bool) {
	for _, g := range p.gauges() {
		if *g.value, ok = s.Gauge(g.name); !ok {
			return Past{}, false
		}
	}
	return p, p.Runs >= 1 && p.Median > 0
}

// Against says how a rate compares, "41 % slower than the median of the last 3 runs of this
// training (1,200 to 1,310 samples/s)", whatever their loader's settings were, and whether it is outside of what they reached, by a
// twentieth at least.
func (p *Past) Against(rate float64) (text string, different bool) {
	change, way := rate/p.Median-1, "faster"
	if change < 0 {
		change, way = -change, "slower"
	}
	of := fmt.Sprintf("the median of the last %.0f runs", p.Runs)
	spread := fmt.Sprintf("%s to %s samples/s", figures.Rate(p.Low), figures.Rate(p.High))
	if p.Runs == 1 {
		of, spread = "the last run", figures.Rate(p.Median)+" samples/s"
	}
	text = fmt.Sprintf("%s %s than %s of this training (%s)", figures.Prose.Percent(change), way, of, spread)
	return text, (rate < p.Low || rate > p.High) && change >= moderate
}
