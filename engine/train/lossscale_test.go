package train

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/trace"
)

// TestLossScale: what the device writes after each update becomes gauges and notes.
func TestLossScale(t *testing.T) {
	rec := trace.NewRecorder(trace.NewClock(), 0)
	session := trace.NewSession(trace.Meta{})
	c := trace.NewCollector(rec, session, attribution.NewAnalyzer(0), nil)
	c.Start()
	var l lossScale
	tell := func(step int32, scale, skip float32) {
		b := binary.LittleEndian.AppendUint32(nil, math.Float32bits(scale))
		l.record(rec, step, binary.LittleEndian.AppendUint32(b, math.Float32bits(skip)))
	}
	tell(0, 65536, 0)
	tell(1, 32768, 1)
	tell(2, 32768, 0)
	tell(7, 16384, 1)
	for i := range int32(3 * overflowNotes) {
		tell(8+i, 16384, 1)
	}
	if err := c.Stop(trace.Outcome{Status: "finished"}); err != nil {
		t.Fatal(err)
	}
	s := session.Snapshot(0, 0)
	got, ok := s.LossScale()
	if want := (trace.LossScale{Scale: 16384, Skipped: 2 + 3*overflowNotes, LastOverflow: 7 + 3*overflowNotes}); !ok || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := len(s.Gauges[trace.GaugeLossScale]); n != 3 {
		t.Errorf("%d points of a scale that had three values", n)
	}
	if len(s.Notes) != overflowNotes || !strings.Contains(s.Notes[0].Text, "step 1: a gradient overflowed") || !strings.Contains(s.Notes[0].Text, "32768") {
		t.Errorf("%d notes, the first %+v", len(s.Notes), s.Notes[0])
	}
	if _, ok := (&trace.Snapshot{}).LossScale(); ok {
		t.Error("a session without fp16 has a loss scale")
	}
}
