package attribution

import (
	"math"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestMFU: a step has 32 samples of 1 GFLOP each, and takes 10 ms of compute and 10 ms of
// waiting. This is 1.6 TFLOP/s, or 16 % of a peak of 10.0 TFLOP/s. Operations that run again
// do not count.
func TestMFU(t *testing.T) {
	var steps []trace.Step
	for i := range int32(40) {
		s := step(i, 10*ms, map[trace.Cause]int64{trace.CauseDecode: 10 * ms})
		s.Samples, s.Start, s.End = 32, int64(i)*20*ms, int64(i+1)*20*ms
		if i%8 == 0 {
			s.Flags |= trace.FlagTimed
		}
		steps = append(steps, s)
	}
	snap := digested(steps...)
	snap.Segments = []trace.Segment{{Knobs: []knob.Setting{{Name: "precision", Value: "bf16"}}}}
	snap.Ops = []trace.OpTime{
		{Name: "conv_forward", Phase: "forward", Calls: 5, Total: 5 * ms, FLOPs: 5 * 31e9},
		{Name: "sgd", Phase: "optimizer", Calls: 5, Total: ms, FLOPs: 5 * 1e9},
		{Name: "conv_forward", Phase: "recompute", Calls: 5, Total: 5 * ms, FLOPs: 5 * 31e9},
	}
	if m, ok := MFUOf(snap, &snap.Segments[0]); ok {
		t.Errorf("of an unknown device: %v", m)
	}
	snap.Meta.Peaks, snap.Meta.PeakFrom = map[string]float64{"bf16": 10e12}, "datasheet of the X"
	m, ok := MFUOf(snap, &snap.Segments[0])
	if !ok || math.Abs(m.Share-0.16) > 1e-9 || m.Sample != 1e9 || m.String() != "16.0 % of 10.0 TFLOP/s bf16 (datasheet of the X)" {
		t.Errorf("%v %+v", ok, m)
	}
	snap.Segments[0].Knobs[0].Value = "fp16"
	if m, ok := MFUOf(snap, &snap.Segments[0]); ok {
		t.Errorf("of a type without a known peak: %v", m)
	}
}
