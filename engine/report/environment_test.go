package report

import (
	"bytes"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestHostLoad: the environment says what the host was doing while steps ran, and
// nothing about what was not measured.
func TestHostLoad(t *testing.T) {
	all := map[string][]trace.Point{
		trace.GaugeCPUOurs:   {{T: 0, V: 99}, {T: 300e6, V: 70}, {T: 400e6, V: 80}}, // the first is of the preparations
		trace.GaugeCPUOthers: {{T: 300e6, V: 15}},
		trace.GaugeCPUIdle:   {{T: 300e6, V: 10}},
		trace.GaugeRunQueue:  {{T: 300e6, V: 11.04}},
		trace.GaugeThrottled: {{T: 300e6, V: 0}},
	}
	rows := map[string]string{
		"CPU load":           "75.0 % by this process, 15.0 % by others, 10.0 % idle (of the usable cores)",
		"waiting for a core": "11.0 % of the time in which threads of this process were ready to run",
		"throttled":          "0.0 % of the periods of the cgroup's CPU quota, which ran out in them",
	}
	for name, c := range map[string]struct {
		without []string
		missing []string
	}{
		"all":           {},
		"none":          {[]string{trace.GaugeCPUOurs, trace.GaugeRunQueue, trace.GaugeThrottled}, []string{"CPU load", "waiting for a core", "throttled"}},
		"no quota":      {[]string{trace.GaugeThrottled}, []string{"throttled"}},
		"half the load": {[]string{trace.GaugeCPUOthers}, []string{"CPU load"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := timedSession(t)
			for gauge, points := range all {
				s.Gauges[gauge] = points
			}
			for _, gauge := range c.without {
				delete(s.Gauges, gauge)
			}
			var b bytes.Buffer
			if err := Markdown(&b, s, Options{}); err != nil {
				t.Fatal(err)
			}
			for row, value := range rows {
				want := true
				for _, m := range c.missing {
					want = want && m != row
				}
				if got := strings.Contains(b.String(), "- "+row+": "); got != want || want && !strings.Contains(b.String(), value) {
					t.Errorf("row %q: there %v, want %v with %q", row, got, want, value)
				}
			}
		})
	}
}

// TestSeed: the seed of a training in PyTorch is unknown, and is left out.
func TestSeed(t *testing.T) {
	for _, host := range [][]knob.Setting{nil, {{Name: "torch", Value: "2.15.0"}}} {
		s := timedSession(t)
		s.Meta.Host = host
		var b bytes.Buffer
		if err := Markdown(&b, s, Options{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "- seed: "); got != (host == nil) {
			t.Errorf("with %v a seed is told: %v", host, got)
		}
	}
}
