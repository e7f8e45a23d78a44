package watch

import (
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// pastRun saves a run of 40 steps of 32 samples, which last ms milliseconds each. mod
// may change it.
func pastRun(t *testing.T, dir, name string, ms int64, mod func(*trace.Snapshot)) {
	t.Helper()
	s := &trace.Snapshot{
		Meta:     trace.Meta{ID: name, Model: "cnn", Device: "cpu", DeviceKind: "cpu", Dataset: "d", Samples: 100, Started: time.Unix(1, 0)},
		Segments: []trace.Segment{{Knobs: []knob.Setting{{Name: "batch_size", Value: "32"}, {Name: "precision", Value: "fp32"}, {Name: "num_workers", Value: "2"}}}},
		Outcome:  trace.Outcome{Status: "finished", Ended: 41 * ms * 1e6},
	}
	s.Gauges = map[string][]trace.Point{trace.GaugeCPUOthers: {{T: 20 * ms * 1e6, V: 40}}}
	for i := range int32(40) {
		s.Recent = append(s.Recent, trace.Step{Index: i, Batch: i, Samples: 32, Start: int64(i) * ms * 1e6, End: int64(i+1) * ms * 1e6, Busy: ms * 1e6})
	}
	if mod != nil {
		mod(s)
	}
	if err := store.Save(filepath.Join(dir, name+store.Ext), trace.Restore(s)); err != nil {
		t.Fatal(err)
	}
}

// TestEarlier: only finished runs of the same training count. Another number of workers is the
// same training; the run itself does not count.
func TestEarlier(t *testing.T) {
	dir := t.TempDir()
	named := func(name, value string) func(*trace.Snapshot) {
		return func(s *trace.Snapshot) {
			i := slices.IndexFunc(s.Segments[0].Knobs, func(k knob.Setting) bool { return k.Name == name })
			s.Segments[0].Knobs[i].Value = value
		}
	}
	pastRun(t, dir, "same", 10, nil)
	pastRun(t, dir, "workers", 20, named("num_workers", "4"))
	pastRun(t, dir, "self", 1, nil)
	for name, mod := range map[string]func(*trace.Snapshot){
		"batch":     named("batch_size", "64"),
		"precision": named("precision", "bf16"),
		"model":     func(s *trace.Snapshot) { s.Meta.Model = "resnet18" },
		"device":    func(s *trace.Snapshot) { s.Meta.Device = "another" },
		"data":      func(s *trace.Snapshot) { s.Meta.Samples = 200 },
		"host":      func(s *trace.Snapshot) { s.Meta.Host = []knob.Setting{{Name: "threads", Value: "64"}} },
		"failed":    func(s *trace.Snapshot) { s.Outcome.Status = "failed" },
		"short":     func(s *trace.Snapshot) { s.Recent = s.Recent[:5] },
		"injected":  func(s *trace.Snapshot) { s.Recent[20].Flags |= trace.FlagInjected },
	} {
		pastRun(t, dir, name, 1, mod)
	}
	m := trace.Meta{Model: "cnn", Device: "cpu", DeviceKind: "cpu", Dataset: "d", Samples: 100}
	runs := earlier(t.Context(), dir, &m, "self"+store.Ext, []knob.Setting{{Name: "batch_size", Value: "32"}, {Name: "precision", Value: "fp32"}})
	p, ok := advice.NewPast(runs)
	if !ok || p.Runs != 2 || p.Low != 1600 || p.High != 3200 || math.Abs(p.Others-0.4) > 1e-9 {
		t.Errorf("%+v, want 1600 and 3200 samples/s, and 40 %% of the cores used by others", p)
	}
	if got := earlier(t.Context(), filepath.Join(dir, "none"), &m, "", nil); len(got) > 0 {
		t.Errorf("a folder that is not there has %v", got)
	}
}
