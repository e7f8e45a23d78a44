package lines

import (
	"math"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestOf: lines that load share what the device lost, the others have what the loop spent; too few looks
// name no line.
func TestOf(t *testing.T) {
	blur := trace.Line{At: trace.Loading, File: "/u/aug.py", Number: 42, Func: "blur", Text: "return img.filter(GaussianBlur(9))  # slow", Looks: 80, Time: 80}
	item := trace.Line{At: trace.InStep, File: "/u/train.py", Number: 88, Func: "main", Text: "loss.item()", Looks: 30, Time: 30}
	for _, c := range []struct {
		name    string
		workers string
		lines   []trace.Line
		lost    map[string]float64
	}{
		{"workers", "4", []trace.Line{blur, item, {At: trace.Loading, File: "/u/io.py", Number: 1, Looks: 20, Time: 20}, {At: trace.Waiting, Looks: 70, Time: 70}, {At: trace.Idling, Looks: 9, Time: 900}},
			map[string]float64{"aug.py:42": 0.4, "io.py:1": 0.1, "train.py:88": 0.3}},
		{"inline", "0", []trace.Line{blur, item}, map[string]float64{"aug.py:42": 0.5, "train.py:88": 30. / 110}},
		{"inline, beside a sampler", "0", []trace.Line{blur, {At: trace.Sampling, File: "/u/draw.py", Number: 7, Looks: 320, Time: 320}}, map[string]float64{"aug.py:42": 0.2, "draw.py:7": 0.8}},
		{"inline, few of either", "0", []trace.Line{{At: trace.Loading, File: "/u/aug.py", Number: 42, Looks: 30, Time: 30}, item}, map[string]float64{"aug.py:42": 0.5, "train.py:88": 0.5}},
		{"what the loop waited for", "4", []trace.Line{{At: trace.Loading, File: "/u/aug.py", Number: 42, Looks: 80, Time: 80, Awaited: 40, Lost: 10}, {At: trace.Loading, File: "/u/io.py", Number: 1, Looks: 20, Time: 20, Awaited: 5, Lost: 15}},
			map[string]float64{"aug.py:42": 0.2, "io.py:1": 0.3}},
		{"too few of it", "4", []trace.Line{{At: trace.Loading, File: "/u/aug.py", Number: 42, Looks: 80, Time: 80, Awaited: 8, Lost: 10}, {At: trace.Loading, File: "/u/io.py", Number: 1, Looks: 20, Time: 20, Awaited: 5, Lost: 15}},
			map[string]float64{"aug.py:42": 0.4, "io.py:1": 0.1}},
		{"too few looks", "4", []trace.Line{{At: trace.Loading, File: "/u/aug.py", Number: 42, Looks: MinLooks - 1, Time: 80}}, nil},
		{"another segment", "4", []trace.Line{{Segment: 1, At: trace.Loading, File: "/u/aug.py", Looks: 90, Time: 80}}, nil},
	} {
		s := &trace.Snapshot{Lines: c.lines, Segments: []trace.Segment{{Knobs: []knob.Setting{{Name: "num_workers", Value: c.workers}}}}}
		costs := Of(s, 0, 0.5)
		if len(costs) != len(c.lost) {
			t.Errorf("%s: %d lines, want %d", c.name, len(costs), len(c.lost))
		}
		for i := range costs {
			if want, known := c.lost[costs[i].Where()]; !known || math.Abs(costs[i].Lost-want) > 1e-9 {
				t.Errorf("%s: %s lost %.3f, want %.3f", c.name, costs[i].Where(), costs[i].Lost, want)
			}
			if i > 0 && costs[i].Lost > costs[i-1].Lost {
				t.Errorf("%s: not in order", c.name)
			}
		}
	}
	for stacks, want := range map[string]string{
		"Thread._bootstrap (threading.py:1);Thread.run (threading.py:2);poll (u.py:3);parse (u.py:9) 70\n": "poll",
		"main (train.py:3);f (u.py:9) 70\n": "", "": "",
	} {
		if got := (&Cost{Line: trace.Line{Stacks: stacks}}).Thread(); got != want {
			t.Errorf("the thread of %q is %q, want %q", stacks, got, want)
		}
	}
	c := Cost{Line: blur}
	if got, want := c.String(), "aug.py:42 return img.filter(GaussianBlur(9))"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.Library, c.Func = true, "GaussianBlur.forward (torchvision)"
	if got := c.String(); got != c.Func {
		t.Errorf("%q, want %q", got, c.Func)
	}
}
