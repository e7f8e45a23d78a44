package sweep

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pretend leaves a session in which a step takes 40 ms over num_workers, plus a little
// that varies, of which the device computes 10 ms.
func pretend(j Job) error {
	workers, _ := strconv.Atoi(knob.ValueOf(j.Settings, "num_workers"))
	knobs := []knob.Setting{{Name: "num_workers", Value: strconv.Itoa(workers)}}
	snap := &trace.Snapshot{Meta: trace.Meta{ID: "x", Device: "pretended", Model: "cnn", Samples: 1000, Synthetic: true},
		Segments: []trace.Segment{{Knobs: knobs}}, Outcome: trace.Outcome{Status: "finished"}}
	at := int64(0)
	for i := range j.Steps {
		wall := int64(40e6)/int64(max(1, workers)) + int64(i*7919%100)*1e4
		s := trace.Step{Index: int32(i), Start: at, End: at + wall, Busy: 10e6, Samples: 10, Correct: 1, Loss: 1, Load: 38e6}
		s.Stall[trace.CauseRead] = wall - s.Busy
		if i == 0 {
			s.Flags |= trace.FlagFirstOfEpoch
		}
		snap.Recent = append(snap.Recent, s)
		at = s.End
	}
	snap.Now, snap.Outcome.Ended = at, at
	snap.Gauges = map[string][]trace.Point{trace.GaugeCPUOthers: {{T: at / 2, V: 20 * float64(min(workers, 2))}}}
	return store.Save(j.Session, trace.Restore(snap))
}

func plan() *Plan {
	return &Plan{Configs: Grid([]Axis{{"num_workers", []string{"1", "2", "4"}}}), Steps: 300, Warmup: 5, Repeat: 2}
}

// TestMeasure: the runs of a plan are measured, once each, and compared.
func TestMeasure(t *testing.T) {
	dir := Folder(t.TempDir())
	ran, kept := 0, 0
	measure := func(ctx context.Context, fail int) (*Results, error) {
		ran, kept = 0, 0
		return plan().Measure(ctx, dir, func(_ context.Context, j Job) error {
			if ran++; ran == fail {
				return errors.New("the device is on fire")
			}
			return pretend(j)
		}, func(e Event) {
			if e.Kept {
				kept++
			}
		})
	}
	// The first run of the second configuration fails: it is not tried again in this sweep.
	r, err := measure(context.Background(), 2)
	if err != nil || ran != 5 || r.Rows[1].Measured() || r.Err("x") == nil {
		t.Fatalf("%d runs, %v: %+v", ran, err, r.Rows[1])
	}
	// A second sweep does only the runs that are missing.
	if r, err = measure(context.Background(), 0); err != nil || ran != 2 || kept != 4 || r.Err("x") != nil {
		t.Fatalf("%d runs, %d kept, %v", ran, kept, err)
	}
	for i, want := range []float64{1, 2, 4} {
		c := &r.Rows[i].Against.Throughput
		if got := r.Rows[i].Rate.Value / r.Rows[0].Rate.Value; got < want*0.8 || got > want*1.05 {
			t.Errorf("row %d is %.2f times as fast", i, got)
		}
		if i > 0 && (c.Answer != stats.Different || c.Lo > c.Ratio || c.Hi < c.Ratio) {
			t.Errorf("row %d: %+v", i, c)
		}
	}
	if n := r.Rows[0].Stats.Steps; n != 600 {
		t.Errorf("%d steps count, of 2 runs of 300 after the warm-up", n)
	}
	// An epoch of 1000 samples is 100 steps: 3.8 s to load and 1 s to compute.
	row := &r.Rows[2]
	if load, each, compute := row.PerEpoch(row.Stats.Load), row.share(), row.PerEpoch(row.Stats.Busy); load != 3.8e9 || each != 3.8e9/4 || compute != 1e9 {
		t.Errorf("an epoch: load %d, each %d, compute %d", load, each, compute)
	}
	why := strings.Join(r.Workers(), "\n")
	for _, want := range []string{
		"num_workers=4 was the fastest",
		"3.80 s to load, 950 ms for each worker, and 1.00 s to compute: computing is the longer",
		"with 2: an epoch takes 3.80 s to load, 1.90 s for each worker, and 1.00 s to compute: loading is the longer",
	} {
		if !strings.Contains(why, want) {
			t.Errorf("no %q in %s", want, why)
		}
	}
	files(t, r, dir)

	again, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	if err := errors.Join(r.CSV(&a), again.CSV(&b)); err != nil || a.String() != b.String() {
		t.Errorf("read again it is not the same: %v\n%s\n%s", err, a.String(), b.String())
	}
	c, err := Compare(r, again, "a", "b")
	if err != nil || len(c.Pairs) != 3 || c.Pairs[0].Throughput.Answer != stats.Same {
		t.Errorf("%v: a sweep against itself: %+v", err, c.Pairs)
	}
}

// TestHeadline: the headline says what else may have made the fastest look fast.
func TestHeadline(t *testing.T) {
	for _, c := range []struct {
		workers []string
		repeat  int
		steps   int
		says    string
	}{
		{[]string{"1", "2"}, 1, 300, "other processes took 40.0 % of all cores while it ran, and 20.0 % while num_workers=1 did; one run of each was made"},
		{[]string{"2", "4"}, 1, 300, "; one run of each was made"},
		{[]string{"2", "4"}, 2, 300, ""},
		{[]string{"4", "2"}, 1, 20, "; not told apart from it yet: num_workers=2"},
	} {
		p := &Plan{Configs: Grid([]Axis{{"num_workers", c.workers}}), Steps: c.steps, Warmup: 5, Repeat: c.repeat}
		r, err := p.Measure(context.Background(), Folder(t.TempDir()), func(_ context.Context, j Job) error { return pretend(j) }, func(Event) {})
		if err != nil {
			t.Fatal(err)
		}
		got := r.Headline()
		for _, doubt := range []string{"other processes", "one run of each"} {
			if strings.Contains(got, doubt) != strings.Contains(c.says, doubt) || !strings.Contains(got, c.says) {
				t.Errorf("num_workers %v, %d rounds: %s", c.workers, c.repeat, got)
			}
		}
	}
}

// files checks the table, and that the other files can be made.
func files(t *testing.T, r *Results, dir Folder) {
	t.Helper()
	var b bytes.Buffer
	if err := r.CSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 4 || rows[3][0] != "num_workers=4" {
		t.Fatalf("%v: %v", err, rows)
	}
	d, err := r.Document()
	if err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if err := d.Markdown(&b); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"| 4           |", "![Throughput by num_workers](<throughput.png>)", "[synthetic data]"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	if err := r.Sheet().PNG(&bytes.Buffer{}); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(dir.Path("sweep.json"), []byte(`{"configs":[{"before":0}],"steps":1,"repeat":1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Plan(); err == nil {
		t.Error("a damaged plan is read")
	}
	if err := dir.Save(r.Plan); err != nil {
		t.Fatal(err)
	}
}

// TestStopped: what was measured before the stop is kept, and the unfinished run is repeated.
func TestStopped(t *testing.T) {
	dir := Folder(t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	ran := 0
	r, err := plan().Measure(ctx, dir, func(_ context.Context, j Job) error {
		if ran++; ran == 2 {
			cancel()
			j.Steps = 20
		}
		return pretend(j)
	}, func(Event) {})
	if !errors.Is(err, context.Canceled) || r == nil || r.Done() != 1 {
		t.Fatalf("%v after %d runs: %+v", err, ran, r)
	}
	if left, _ := os.ReadDir(filepath.Join(string(dir), sessions)); len(left) != 1 {
		t.Errorf("%d files are left, of one run", len(left))
	}
	r, err = plan().Measure(context.Background(), dir, func(_ context.Context, j Job) error { ran++; return pretend(j) }, func(Event) {})
	if err != nil || r.Done() != 6 || ran != 2+5 {
		t.Errorf("%v: %d runs done after %d", err, r.Done(), ran)
	}
}
