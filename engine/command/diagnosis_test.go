package command

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// TestDiagnosis: symptom, evidence, cause, remedy and gain of a session, as its summary
// has them, with the price of waiting where a rate is given.
func TestDiagnosis(t *testing.T) {
	dir := t.TempDir()
	pastRun(t, dir, "starved", 10, func(s *trace.Snapshot) {
		for i := range s.Recent {
			st := &s.Recent[i]
			st.Busy, st.Stall[trace.CauseRead], st.Load = 5e6, 5e6, 20e6
		}
		s.Meta.Host = []knob.Setting{{Name: "threads", Value: "8"}}
		s.Outcome.Ended = 2e9 // long enough to advise on
	})
	path := filepath.Join(dir, "starved"+store.Ext)
	a, err := diagnosis(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeDiagnosis(&b, &a); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"symptom  input-bound: ", "$1.00 of each hour is spent waiting for data", "finding  1 of 1: more workers", "evidence reads wait rather than compute",
		"cause    read, 50.0 % of the time: the batch's worker was reading", "remedy   try num_workers 2 -> 5", "gain     -2 to +46 % predicted",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if _, err := diagnosis(path+":#7", 0); err == nil || !strings.Contains(err.Error(), "it has no segment #7; name one of A") {
		t.Errorf("a segment that is not there: %v", err)
	}
}
