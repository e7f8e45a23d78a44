package attribution

import (
	"fmt"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// MFU is model FLOPs utilisation: the model's own floating-point operations a second over the
// device's peak for the type in use (Chowdhery et al. 2022, PaLM, appendix B). Waiting counts as
// time. Operations that run again for activation checkpointing do not count.
type MFU struct {
	Share  float64 // 0 to 1
	Type   string  // "bf16"
	Sample float64 // FLOPs of a sample, forward, backward and update
	Peak   float64 // FLOP/s
	From   string  // where the peak is from
}

// MFUOf returns the MFU of a segment's steady steps. It is false where the device's peak is not
// known, or no operation was timed.
func MFUOf(s *trace.Snapshot, g *trace.Segment) (m MFU, ok bool) {
	m.Type = knob.ValueOf(g.Knobs, "precision")
	m.Peak, m.From = s.Meta.Peaks[m.Type], s.Meta.PeakFrom
	b := Breakdown{s.Tally(g.Index).Steady}
	if m.Peak <= 0 || b.Active() <= 0 {
		return m, false
	}
	t := Ops(s, *g)
	var flops float64
	var calls int64 // the most calls of one launch, which is the number of timed steps
	for i := range t.Rows {
		r := &t.Rows[i]
		calls = max(calls, r.Calls)
		if r.Phase != recomputed {
			flops += r.FLOPs
		}
	}
	if flops <= 0 || calls == 0 || !(t.Samples > 0) {
		return m, false
	}
	m.Sample = flops / float64(calls) / t.Samples
	m.Share = m.Sample * b.SamplesPerSecond() / m.Peak
	return m, true
}

// recomputed is the phase of operations that run again for activation checkpointing
// (device.PhaseRecompute).
const recomputed = "recompute"

// String returns, for example, "34.1 % of 989 TFLOP/s bf16 (datasheet of the H100
// SXM)".
func (m MFU) String() string {
	return fmt.Sprintf("%s of %s TFLOP/s %s (%s)", units.Prose.Percent(m.Share), units.Rate(m.Peak/1e12), m.Type, m.From)
}
