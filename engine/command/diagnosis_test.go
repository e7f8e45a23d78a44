package command

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// TestDiagnosis: the diagnosis of a session has symptom, evidence, cause, remedy and gain, and
// the price of waiting if a rate is given.
func TestDiagnosis(t *testing.T) {
	dir := t.TempDir()
	starved := &trace.Snapshot{
		Meta:     trace.Meta{ID: "starved", Model: "cnn", Device: "cpu", DeviceKind: "cpu", Dataset: "d", Samples: 100, Started: time.Unix(1, 0), Host: []knob.Setting{{Name: "threads", Value: "8"}}},
		Segments: []trace.Segment{{Knobs: []knob.Setting{{Name: "batch_size", Value: "32"}, {Name: "precision", Value: "fp32"}, {Name: "num_workers", Value: "2"}}}},
		Outcome:  trace.Outcome{Status: "finished", Ended: 2e9}, // long enough to advise on
		Gauges:   map[string][]trace.Point{trace.GaugeCPUOthers: {{T: 2e8, V: 40}}},
	}
	for i := range int32(40) {
		st := trace.Step{Index: i, Batch: i, Samples: 32, Start: int64(i) * 1e7, End: int64(i+1) * 1e7, Busy: 5e6, Load: 20e6}
		st.Stall[trace.CauseRead] = 5e6
		starved.Recent = append(starved.Recent, st)
	}
	path := filepath.Join(dir, "starved"+store.Ext)
	if err := store.Save(path, trace.Restore(starved)); err != nil {
		t.Fatal(err)
	}
	a, err := diagnosis(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeDiagnosis(&b, &a); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"symptom  input-bound: ", "$1.00 of each hour is spent waiting for data", "finding  1 of 1: more workers", "evidence workers wait rather than compute",
		"cause    read, 50.0 % of the time: the batch's worker was reading", "remedy   try num_workers 2 -> 5", "gain     +9 to +36 % predicted",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if _, err := diagnosis(path+":#7", 0); err == nil || !strings.Contains(err.Error(), "it has no segment #7; name one of A") {
		t.Errorf("a segment that is not there: %v", err)
	}
}
