package report

import (
	"bytes"
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

// TestRanks: the report of several ranks has a table of them. The report of a single
// process has none.
func TestRanks(t *testing.T) {
	write := func(ranks int) string {
		s := scripts()["injected"].run(t)
		s.Gauges = map[string][]trace.Point{}
		for i, wait := range []float64{5, 50}[:ranks] {
			name := "rank_" + itoa(int64(i))
			s.Gauges[name+"_body_ns"], s.Gauges[name+"_backward_ns"] = []trace.Point{{V: 5e8}}, []trace.Point{{V: 3e8}}
			s.Gauges[name+"_steps"], s.Gauges[name+"_wait_ns"] = []trace.Point{{V: 60}}, []trace.Point{{V: wait * 1e8}}
			s.Gauges[name+"_time_ns"] = []trace.Point{{V: 1e10}}
		}
		var b bytes.Buffer
		if err := Markdown(&b, s, Options{}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	text := write(2)
	for _, want := range []string{
		"## Ranks", "| 0 | 5.0 % | 167 ms | 60 | |", "| 1 | 50.0 % | 167 ms | 60 | slowest |",
		"Rank 1 is the slowest: it waits for data 50.0 % of the time",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the report", want)
		}
	}
	text = write(1)
	if strings.Contains(text, "## Ranks") {
		t.Error("one process has a table of ranks")
	}
	for _, want := range []string{
		"## The script's step", "| getting a batch | 8.33 ms | 5.0 % |", "| backward | 5.00 ms | 3.0 % |",
		"| forward + script code | 3.33 ms | 2.0 % |", "| between epochs, and in loops that do not train | 150 ms | 90.0 % |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the report", want)
		}
	}
}
