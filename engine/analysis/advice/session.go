package advice

import (
	"fmt"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// session is what was recorded, and the time in which the judged steps ran.
type session struct {
	*trace.Snapshot
	from, to int64 // ns
}

// fromStorage returns how many bytes were read from storage for this process between two moments,
// without what the page cache had. known is false where that was not measured.
func (s *session) fromStorage(from, to int64) (bytes float64, known bool) {
	rate, _, n := s.GaugeOver(trace.GaugeDiskOurs, from, to)
	return rate * float64(to-from) / 1e9, n > 0
}

// epochs returns the time of the first epoch and of the newest complete one; false where there are
// no two such epochs.
func (s *session) epochs() (first, last passage, ok bool) {
	e := s.Epochs
	at := s.First.Start
	whole := 0
	for i := range e {
		p := passage{at, at + e[i].Totals.Wall, e[i].Totals}
		at = p.to
		if !e[i].Complete || i > 0 && e[i].Epoch != e[i-1].Epoch+1 {
			continue
		}
		if whole++; whole == 1 && i == 0 {
			first = p
		}
		last = p
	}
	return first, last, whole > 1 && first.to > first.from
}

// passage is the time of an epoch in the run.
type passage struct {
	from, to int64 // ns
	trace.Totals
}

// perSample returns the epoch's active time for a sample, in ns.
func (p *passage) perSample() float64 {
	return float64(p.Active()) / float64(max(1, p.Samples))
}

// dataShare returns the share of the epoch's active time in which the device waited for data,
// 0 to 1.
func (p *passage) dataShare() float64 {
	b := attribution.Breakdown{Totals: p.Totals}
	return b.DataShare()
}

// gauge returns the mean of a gauge over the judged steps.
func (s *session) gauge(name string) (mean float64, known bool) {
	mean, _, n := s.GaugeOver(name, s.from, s.to)
	return mean, n > 0
}

// highest returns the largest value of a gauge over the judged steps.
func (s *session) highest(name string) (value float64, known bool) {
	_, value, n := s.GaugeOver(name, s.from, s.to)
	return value, n > 0
}

// fact returns what the session says of the host; empty when it says nothing.
func (s *session) fact(name string) string { return knob.ValueOf(s.Meta.Host, name) }

// warmth returns the GPU's temperature and clock, to stand after a sentence.
func (s *session) warmth() (text string) {
	if t, known := s.gauge("nvml_temperature"); known {
		text = fmt.Sprintf(", at %.0f degrees C", t)
	}
	if hz, known := s.gauge("nvml_sm_clock"); known {
		text += fmt.Sprintf(" and %s MHz", units.Rate(hz/1e6))
	}
	return text
}

// imported reports whether the session is of a profiler's trace.
func (s *session) imported() bool { return s.Meta.Imported != "" }

// pytorch reports whether the session is a watched training in PyTorch.
func (s *session) pytorch() bool { return s.Meta.Watched() }
