package stall

import (
	"math/rand/v2"
	"testing"

	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/trace"
)

// An answer stays when the host turns out to remember for longer than it seemed, but not
// against what is measured then.
func TestAnswersStay(t *testing.T) {
	for _, c := range []struct {
		name   string
		later  float64 // ms that a step of B takes in the end, on average
		answer evidence.Answer
	}{
		{"as before", 50, evidence.Different},
		{"slower than it was", 90, evidence.Unknown},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		s := &trace.Snapshot{Segments: []trace.Segment{{Index: 0}, {Index: 1}}}
		var at int64
		for i := range int32(700) {
			ms := 100.0
			switch {
			case i >= 100+128:
				ms = c.later * (1 + 0.6*float64(i/40%2) - 0.3) // in waves
			case i >= 100:
				ms = 50
			}
			d := int64(1e6 * ms * (1 + 0.2*r.Float64()))
			step := trace.Step{Index: i, Samples: 32, Start: at, End: at + d, Busy: d}
			if i >= 100 {
				step.Segment = 1
			}
			at = step.End
			s.Recent = append(s.Recent, step)
		}
		s.Digest = *trace.Digested(s.Recent)
		rows := Segments(s)
		if now := evidence.Compare(rows[0].Stretch, rows[1].Stretch, history(rows), evidence.DefaultMargin).Throughput; now.Answer != evidence.Unknown || !now.Missing.OfA() {
			t.Errorf("%s: all steps tell already: %v", c.name, &now)
		}
		if got := rows[1].VsA.Throughput; got.Answer != c.answer || got.Answer == evidence.Different && (got.Lo < 1.8 || got.Hi > 2.3) {
			t.Errorf("%s: %v", c.name, &got)
		}
	}
}
