package summary

import (
	"encoding/json"
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

// TestRankTable: JSON has the ranks of a distributed training and names the slowest. A single
// process has only the parts of its step.
func TestRankTable(t *testing.T) {
	of := func(ranks int) string {
		s := &trace.Snapshot{Now: 100, Gauges: map[string][]trace.Point{}}
		for _, g := range []struct {
			name string
			v    float64
		}{
			{"rank_0_steps", 50}, {"rank_0_wait_ns", 1e9}, {"rank_0_time_ns", 1e10}, {"rank_0_body_ns", 4e9}, {"rank_0_backward_ns", 2.5e9},
			{"rank_3_steps", 50}, {"rank_3_wait_ns", 8e9}, {"rank_3_time_ns", 1e10},
		} {
			if ranks > 1 || strings.HasPrefix(g.name, "rank_0") {
				s.Gauges[g.name] = []trace.Point{{V: g.v}}
			}
		}
		b, err := json.Marshal(map[string]any{"ranks": ranksOf(s).Ranks, "step_parts": ranksOf(s).Script, "gauges": gaugeTable(s)})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const parts = `[{"part":"getting a batch","time_s":0.02,"share":0.1},{"part":"backward","time_s":0.05,"share":0.25},{"part":"forward + script code","time_s":0.03,"share":0.15},{"part":"between epochs, and in loops that do not train","time_s":0.1,"share":0.5}]`
	if got, want := of(1), `{"gauges":{},"ranks":null,"step_parts":`+parts+`}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	want := `{"gauges":{},"ranks":[{"rank":0,"steps":50,"data_share":0.1,"step_s":0.2,"slowest":false,"step_parts":` + parts + `},` +
		`{"rank":3,"steps":50,"data_share":0.8,"step_s":0.2,"slowest":true,"why":"it waits for data 80.0 % of the time, and the others 10.0 %; they wait for it where they exchange gradients"}],"step_parts":` + parts + `}`
	if got := of(2); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
