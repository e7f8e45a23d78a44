package tui

import (
	"fmt"
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

// TestOps: the ops of the configuration shown, longest first, at every width; the
// rest is summed up.
func TestOps(t *testing.T) {
	const ms = int64(1e6)
	run := session()
	ops := []trace.OpTime{
		{Segment: 0, Name: "of_another_segment", Layer: "x", Calls: 10, Total: 900 * ms},
		{Segment: 2, Name: "relu", Layer: "layer1.0", Calls: 10, Total: 10 * ms},
		{Segment: 2, Name: "conv_forward", Layer: "layer4.0.downsample.conv", Calls: 10, Total: 60 * ms, Max: 9 * ms, FLOPs: 6e9, Bytes: 3e9},
	}
	for i := range 40 {
		ops = append(ops, trace.OpTime{Segment: 2, Name: fmt.Sprintf("small_%d", i), Calls: 10, Total: ms * 3 / 4})
	}
	run.Ops(ops)
	for _, size := range [][2]int{{80, 24}, {120, 36}, {200, 50}} {
		s := newScreen(t, run, Options{Control: run}, size[0], size[1])
		s.press("4", "f")
		s.mustShow("Device ops of #2", "conv_forward", "layer4.0.downsample.conv", "60.0%", "6.00 ms", "relu", "more, ")
		s.mustHide("of_another_segment")
		frame := s.plain()
		if strings.Index(frame, "conv_forward") > strings.Index(frame, "relu") {
			t.Errorf("the longest op is not the first:\n%s", frame)
		}
		if size[0] >= 120 {
			s.mustShow("of step", "longest", "9.00 ms", "GFLOP/s", "100", "GB/s", "50.0")
		}
	}
	for _, tt := range []struct{ value, says string }{{"off", "not timed; set time_ops"}, {"sampled", "no step of this configuration was timed yet"}} {
		run := session()
		run.Knob("time_ops", tt.value)
		s := newScreen(t, run, Options{Control: run}, 120, 36)
		s.press("4", "f")
		s.mustShow(tt.says)
	}
	for w := range 200 {
		drop, sum := opsDrop(w), 0
		for _, c := range opColumns {
			if c.drop < drop {
				sum += c.w + 1
			}
		}
		if drop > 1 && sum > w+1 {
			t.Errorf("columns of %d in %d", sum, w)
		}
	}
}
