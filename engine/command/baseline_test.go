package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// TestBaseline: a segment that is chosen as A during the run is A in the file, on replay and in
// the report. A choice on replay is in exports from that replay, but not in the file.
func TestBaseline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run"+store.Ext)
	rec := recordSegments(t, path, 20e6, 10e6, 5e6)
	check := func(s *trace.Session, a int32, words string) {
		t.Helper()
		rows := attribution.Segments(s.Snapshot(0, 0))
		for i, r := range rows {
			if r.Baseline != (int32(i) == a) {
				t.Errorf("segment #%d: baseline %v, want #%d to be it", i, r.Baseline, a)
			}
		}
		t.Chdir(t.TempDir())
		file, err := exportReport(s, "x", path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), words) {
			t.Errorf("the report does not say %q:\n%s", words, text)
		}
	}
	check(rec, 1, "+100.0 % (+100.0 to +100.0 %) throughput")
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if b := s.Snapshot(0, 0).Baseline; b.Segment != 1 || b.T <= 0 {
		t.Errorf("the file's choice is %+v", b)
	}
	check(s, 1, "Before is segment A, the baseline that was chosen, segment #1 by its number.")
	list, err := store.Digests(filepath.Dir(path))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if row := sessionRow(&list[0]); row[4] != "input-bound 60.0 %" || row[5] != "40.0 %" || row[6] != "+100.0 %" {
		t.Errorf("listed as %q", row)
	}
	if text := summary.Of(s.Snapshot(0, 0), path).Text(); !strings.Contains(text, "verdict  on segment #2, input-bound: ") {
		t.Errorf("the summary does not say whose verdict it is:\n%s", text)
	}
	s.SetBaseline(0)
	check(s, 0, "+300.0 % (+300.0 to +300.0 %) throughput")
	again, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	check(again, 1, "+100.0 % (+100.0 to +100.0 %) throughput")
	copied := filepath.Join(t.TempDir(), "copy"+store.Ext)
	if err := store.Save(copied, s); err != nil {
		t.Fatal(err)
	}
	saved, err := store.Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	check(saved, 0, "+300.0 % (+300.0 to +300.0 %) throughput")
}

// recordSegments records a run with a segment for each step time in ns, chooses the second one as
// A, and returns the session.
func recordSegments(t *testing.T, path string, times ...int64) *trace.Session {
	t.Helper()
	var of []workersTook
	for i, took := range times {
		of = append(of, workersTook{string(rune('1' + i)), took, 0})
	}
	return recordExperiments(t, path, of)
}

// workersTook is a segment: its num_workers, how long its first step takes, and by how much longer each further one does, in ns.
type workersTook struct {
	workers     string
	took, grows int64
}

// recordExperiments is recordSegments with experiments.
func recordExperiments(t *testing.T, path string, of []workersTook, xs ...trace.Experiment) *trace.Session {
	t.Helper()
	meta := trace.Meta{ID: "run", Model: "cnn", Device: "cpu", Samples: 1000}
	st, err := store.Create(path, meta)
	if err != nil {
		t.Fatal(err)
	}
	rec := trace.NewRecorder(trace.NewClock(), 0)
	s := trace.NewSession(meta)
	c := trace.NewCollector(rec, s, nil, st)
	c.Start()
	var now int64
	var step int32
	for _, x := range xs {
		rec.Experiment(x)
	}
	for i := range of {
		next := of[i].took
		reason := "start"
		if i > 0 {
			reason = "num_workers 1 -> 2"
		}
		rec.Segment(trace.Segment{Index: int32(i), Start: now, FirstStep: step, Reason: reason, Knobs: []knob.Setting{{Name: "num_workers", Value: of[i].workers}}})
		for range 800 {
			took := next
			if of[i].grows != 0 { // as a host varies
				took += int64(uint32(step)*2654435761%4_000_000) - 2e6
			}
			rec.Step(trace.Step{Index: step, Segment: int32(i), Batch: step, Samples: 10, Start: now, End: now + took, Busy: 2e6, Stall: [trace.NumCauses]int64{trace.CauseRead: took - 2e6}})
			now += took
			step++
			next += of[i].grows
		}
		if i == 1 {
			rec.Baseline(1)
		}
	}
	if err := c.Stop(trace.Outcome{Status: "finished", Ended: now}); err != nil {
		t.Fatal(err)
	}
	return s
}
