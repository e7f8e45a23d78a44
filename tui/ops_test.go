package tui

import (
	"fmt"
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
)

// timedSession is demo.Session with device ops in its first and its newest configuration.
func timedSession() *demo.Run {
	const ms = int64(1e6)
	run := demo.Session()
	var ops []trace.OpTime
	op := func(segment int32, name, layer, phase, variant string, ns int64, flops, bytes float64) {
		ops = append(ops, trace.OpTime{Segment: segment, Name: name, Layer: layer, Phase: phase, Variant: variant,
			Calls: 12, Total: 12 * ns, Min: ns * 9 / 10, Max: ns * 3 / 2, FLOPs: 12 * flops, Bytes: 12 * bytes})
	}
	for _, segment := range []int32{0, 2} {
		f, variant := int64(2), "simt_64x64"
		if segment == 2 {
			f, variant = 1, "mma_128x128x32s4"
		}
		for i := range 8 {
			layer := fmt.Sprintf("layer%d.%d.conv1", i/2+1, i%2)
			op(segment, "conv_forward", layer, "forward", variant, f*ms, 3e10, 2e8)
			op(segment, "conv_backward_data", layer, "backward", variant, f*ms*3/2, 3e10, 2e8)
			op(segment, "conv_backward_weight", layer, "backward", variant, f*ms*2, 3e10, 2e8)
			op(segment, "batchnorm_forward", layer, "forward", "", ms/4, 1e7, 5e8)
		}
		op(segment, "softmax_xent", "loss", "loss", "", 9000, 1e5, 1e5)
		op(segment, "sgd", "optimizer", "optimizer", "", ms/2, 5e7, 3e8)
	}
	run.Ops(ops)
	run.Timed(8)
	run.Gauge(trace.GaugePeakBytes, 0, 1.9e9)
	run.Gauge(trace.GaugeHeldBytes, 0, 1.4e9)
	run.Gauge(trace.GaugeLossScale, 0, 32768)
	run.Gauge(trace.GaugeSkippedSteps, 0, 2)
	run.Gauge(trace.GaugeLastOverflow, 0, 17)
	return run
}

// TestOpsFrames: frames with the panel, at each size and in each look.
func TestOpsFrames(t *testing.T) {
	for _, size := range [][2]int{{200, 50}, {120, 36}, {80, 24}, {60, 16}} {
		run := timedSession()
		s := newScreen(t, run, Options{Control: run}, size[0], size[1])
		s.press("6")
		golden(t, fmt.Sprintf("ops-%dx%d", size[0], size[1]), s)
		if size[0] == 80 {
			s.press("f")
			golden(t, "ops-80x24-expanded", s)
		}
	}
	for look, o := range map[string]Options{"mono": {NoColor: true}, "ascii": {ASCII: true}} {
		run := timedSession()
		o.Control = run
		s := newScreen(t, run, o, 120, 36)
		s.press("6", "f", "b")
		golden(t, "ops-expanded-"+look, s)
	}
}

// TestOps: the table has only ops of the configuration shown. It can be grouped, sorted and scrolled.
func TestOps(t *testing.T) {
	run := timedSession()
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("6")
	s.mustShow("6 Device ops", "conv_backward_weight", "layer1.0.conv1", "~x0.97", "TFLOP/s", "memory peak 1.77GiB", "loss scale 32768", "2 skipped")
	s.mustHide("simt_64x64", "softmax_xent")
	for range 40 {
		s.press("down")
	}
	s.mustShow("softmax_xent", "loss")
	s.press("s", "s") // by name
	s.mustShow("~x1.9")
	if f := s.plain(); !strings.Contains(f, "batchnorm_forward") || strings.Contains(f, "softmax_xent") {
		t.Errorf("sorted by name, from the top:\n%s", f)
	}
	s.press("b")
	s.mustShow("batchnorm_forward", "8 launches", "sorted by name", "by op")
	s.press("b", "b")
	s.mustShow("backward", "16 launches", "optimizer")
	s.press("b", "s", "k")
	s.mustShow("by launch", "sorted by total")
	s.mustShow("6 Device ops #2, ")
	if rows := strings.Split(s.box("device ops"), "\n"); !strings.HasPrefix(rows[1], " conv_backward_weight ") {
		t.Errorf("first is %q", rows[1])
	}
	s.press("esc")
	s.mustShow("3 Verdict", "5 Experiments")
	s.mustHide("6 Device ops")
}

// TestTimedSteps: the time axis marks where timed steps begin, unless all steps are timed.
func TestTimedSteps(t *testing.T) {
	axis := func(knob string) (marks int) {
		run := demo.Session()
		run.Knob("time_ops", knob)
		s := newScreen(t, run, Options{Control: run}, 120, 36)
		spans := append([]trace.Span(nil), s.session.live.Spans...)
		for i := range spans {
			if spans[i].Kind == trace.KindCompute && spans[i].Step%4 == 0 {
				spans[i].Flags |= trace.FlagTimed
			}
		}
		s.panels.timeline.Update(&s.session.pic, spans)
		for _, line := range strings.Split(s.plain(), "\n") {
			if strings.Contains(line, " now ") {
				line, _, _ = strings.Cut(line, " now ")
				marks = strings.Count(line, "t")
			}
		}
		return marks
	}
	if n := axis("sampled"); n < 1 || n > 4 {
		t.Errorf("%d marks", n)
	}
	if n := axis("every"); n != 0 {
		t.Errorf("%d marks where every step is timed", n)
	}
}

// TestNoOps: an empty table says why, and what to press.
func TestNoOps(t *testing.T) {
	for _, tt := range []struct{ value, says string }{
		{"off", "press 2, select time_ops"}, {"sampled", "was timed yet"}, {"", "no timed ops"},
	} {
		run := demo.Session()
		if tt.value != "" {
			run.Knob("time_ops", tt.value)
		}
		s := newScreen(t, run, Options{Control: run}, 60, 16)
		s.press("6")
		if f := strings.Join(strings.Fields(strings.NewReplacer("│", "").Replace(s.plain())), " "); !strings.Contains(f, tt.says) {
			t.Errorf("time_ops=%q: no %q in\n%s", tt.value, tt.says, s.plain())
		}
	}
	run := demo.New(nil)
	s := newScreen(t, run, Options{Control: run}, 120, 36)
	s.press("6")
	s.mustShow("before the first step")
}

// TestOpColumns: a configuration is not compared with itself.
func TestOpColumns(t *testing.T) {
	run := timedSession()
	s := newScreen(t, run, Options{Control: run}, 200, 50)
	s.press("6")
	s.mustShow("vs A", "kernel")
	s.press("a")
	s.tick()
	s.mustHide("vs A")
	s.press("b")
	s.mustHide("kernel")
}

func TestOpsAllocations(t *testing.T) {
	for _, size := range [][2]int{{200, 50}, {80, 24}} {
		run := timedSession()
		s := newScreen(t, run, Options{Control: run}, size[0], size[1])
		s.press("6", "f")
		n := testing.AllocsPerRun(20, func() {
			s.frame.dirty = true
			s.View()
		})
		if n > 64 {
			t.Errorf("%dx%d: %.0f allocations a frame", size[0], size[1], n)
		}
	}
}
