package advice

import (
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

// The costly ops are those of the segment judged: another segment's rows neither
// list an op twice nor thin its share.
func TestCostlyIsOfOneSegment(t *testing.T) {
	s := uniform(60, nil, knob("num_workers", "2"))
	s.Segments = append(s.Segments, trace.Segment{Index: 1, Knobs: s.Segments[0].Knobs})
	for segment := range int32(3) {
		for _, o := range []struct {
			layer string
			ns    int64
		}{{"conv1", 600}, {"conv2", 300}, {"fc", 100}} {
			s.Ops = append(s.Ops, trace.OpTime{Segment: segment, Name: "forward", Layer: o.layer, Calls: 1, Total: o.ns})
		}
	}
	v := judge(s, s.Recent)
	if want := "goes first to forward of conv1 (60.0 %), forward of conv2 (30.0 %), forward of fc (10.0 %)"; !strings.HasSuffix(v.all.Costly.Text, want) {
		t.Errorf("%q, want %q", v.all.Costly.Text, want)
	}
	// A segment whose ops were not timed has those of the last one before it.
	s.Ops = s.Ops[:3]
	if got := costly(s, 1); len(got.Ops) != 3 || got.Ops[0].Layer != "conv1" {
		t.Errorf("%+v", got)
	}
}
