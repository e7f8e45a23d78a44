package train_test

import (
	"context"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/ops"
)

// TestOpsBySegment: each setting of the knobs has ops of its own, whose spans lie
// in the timed steps.
func TestOpsBySegment(t *testing.T) {
	k := train.DefaultKnobs()
	k.Loader.BatchSize, k.TimeOps = 32, ops.Every
	r := onCPU(t, stripes{n: 32 * 40}, k, 1)
	go func() {
		r.until(func(s *trace.Snapshot) bool { return len(s.Recent) >= 4 })
		if err := r.engine.Set([]knob.Setting{{Name: "batch_size", Value: "16"}, {Name: "time_ops", Value: "sampled"}}); err != nil {
			t.Error(err)
		}
		r.until(func(s *trace.Snapshot) bool {
			return len(s.Segments) > 1 && len(s.Recent) >= int(s.Segments[1].FirstStep)+20
		})
		if err := r.engine.Set([]knob.Setting{{Name: "time_ops", Value: "off"}}); err != nil {
			t.Error(err)
		}
	}()
	s := r.run(t, context.Background())
	checkSteps(t, s)
	if len(s.Segments) != 3 {
		t.Fatalf("%d segments", len(s.Segments))
	}
	timed, spans := make([]int64, 3), map[int32]int64{}
	for _, st := range s.Recent {
		if st.Flags&trace.FlagTimed != 0 {
			timed[st.Segment]++
		}
	}
	calls, flops := make([]int64, 3), make([]float64, 3)
	for _, o := range s.Ops {
		if o.Calls <= 0 || o.Total <= 0 || o.Min > o.Max || o.Total < o.Calls*o.Min || o.Total > o.Calls*o.Max || o.Phase == "" {
			t.Errorf("%+v", o)
		}
		if o.Name == "conv_forward" && o.Layer == "conv1" {
			calls[o.Segment], flops[o.Segment] = calls[o.Segment]+o.Calls, o.FLOPs/float64(o.Calls)
		}
	}
	first := s.Segments[1].FirstStep
	if timed[0] != int64(first) || timed[1] < 2 || timed[1] > 8 || timed[2] != 0 {
		t.Errorf("timed steps by segment %v; the first has %d steps", timed, first)
	}
	for i := range timed {
		if calls[i] != timed[i] {
			t.Errorf("segment %d: %d calls of a convolution in %d timed steps", i, calls[i], timed[i])
		}
	}
	if flops[0] != 2*flops[1] {
		t.Errorf("%g operations at batch size 32, %g at 16", flops[0], flops[1])
	}
	for _, sp := range s.Spans {
		if sp.Kind != trace.KindOp {
			continue
		}
		st, o := &s.Recent[sp.Step], s.Op(sp.Arg)
		if o == nil || sp.Track != trace.TrackOps || st.Flags&trace.FlagTimed == 0 || o.Segment != st.Segment || sp.End > st.End {
			t.Errorf("%+v of %+v", sp, o)
		}
		spans[sp.Step]++
	}
	if len(spans) != int(timed[0]+timed[1]) {
		t.Errorf("%d steps left spans of their ops, %v were timed", len(spans), timed)
	}
	if s.PeakBytes() <= 0 || s.HeldBytes(&s.Segments[0]) <= 0 {
		t.Errorf("peak %d bytes, held %d in the first segment", s.PeakBytes(), s.HeldBytes(&s.Segments[0]))
	}
}

// TestHeldBySegment: memory that a change takes is the new segment's.
func TestHeldBySegment(t *testing.T) {
	k := train.DefaultKnobs()
	k.Loader.BatchSize = 8
	r := onCPU(t, stripes{n: 64 * 8}, k, 1)
	go func() {
		r.until(func(s *trace.Snapshot) bool { return len(s.Recent) >= 4 })
		if err := r.engine.Set([]knob.Setting{{Name: "batch_size", Value: "64"}}); err != nil {
			t.Error(err)
		}
	}()
	s := r.run(t, context.Background())
	if len(s.Segments) != 2 {
		t.Fatalf("%d segments", len(s.Segments))
	}
	small, large := s.HeldBytes(&s.Segments[0]), s.HeldBytes(&s.Segments[1])
	if small <= 0 || large < small+small/2 {
		t.Errorf("batches of 8 held %d bytes, of 64 %d", small, large)
	}
}
