package experiment

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// came returns the run's only experiment with its result, and the rows.
func came(t *testing.T, r *run) (attribution.Experiment, []attribution.SegmentStats) {
	t.Helper()
	s := r.session.Snapshot(0, 0)
	rows := attribution.Segments(s)
	xs := attribution.Experiments(s, rows)
	if len(xs) != 1 || xs[0].Running() {
		t.Fatalf("%+v", xs)
	}
	for i := range rows {
		if xs[0].Has(rows[i].Segment.Index) {
			t.Errorf("segment %d has a row, and belongs to the experiment", rows[i].Segment.Index)
		}
	}
	return xs[0], rows
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name     string
		q        Question
		answer   stats.Answer
		ratio    float64
		settings string // that the run is left with
		rows     int
	}{
		{"faster", workers(4), stats.Different, 1.25, "4 off off", 2},
		{"slower", workers(1), stats.Different, 0.8, "2 off off", 2},
		{"the same", workers(3), stats.Same, 1, "2 off off", 2},
		{"ceiling", Question{Kind: trace.Ceiling}, stats.Different, 2, "2 off off", 2},
	} {
		r := newRun(t)
		r.until(r.begin(c.q))
		x, rows := came(t, r)
		got := &x.Change.Throughput
		if got.Answer != c.answer || math.Abs(got.Ratio/c.ratio-1) > 0.03 || got.Lo > c.ratio || got.Hi < c.ratio {
			t.Errorf("%s: %v, want %v", c.name, got, c.ratio)
		}
		if r.settings() != c.settings || x.Kept != (c.settings == "4 off off") || x.Why != "" {
			t.Errorf("%s: left with %s, want %s: %s", c.name, r.settings(), c.settings, x.Text())
		}
		if len(rows) != c.rows {
			t.Errorf("%s: %d rows, want %d", c.name, len(rows), c.rows)
		}
		if last := &rows[len(rows)-1]; x.Kept && (last.VsA.Throughput.Answer != stats.Different || len(rows) < 2) {
			t.Errorf("%s: the row of what stays: %v", c.name, &last.VsA.Throughput)
		}
		if c.q.Kind == trace.Paired {
			for i, p := range x.Pairs {
				if p.A.Active < 2*x.Pairs[0].A.Active/3 || p.LeftOut == 0 && i > 0 || p.End <= p.Start {
					t.Errorf("%s: pair %d: %+v", c.name, i, p)
				}
			}
		} else if x.First != x.Last || x.Sides[1].Active > int64(12*time.Second) {
			t.Errorf("%s: %s, %v of cached batches", c.name, x.Segments(), time.Duration(x.Sides[1].Active))
		}
	}
}

// TestDisturbed: however an experiment is disturbed, the settings that it tries do not stay, and
// those that others set do.
func TestDisturbed(t *testing.T) {
	set := func(name, value string) func(*run, *Experiment) {
		return func(r *run, _ *Experiment) { _ = r.Set([]knob.Setting{{Name: name, Value: value}}) }
	}
	for _, c := range []struct {
		name     string
		disturb  func(*run, *Experiment)
		settings string
		why      string
	}{
		{"stopped", func(r *run, e *Experiment) { e.Stop(r.session.Snapshot(0, 0)) }, "2 off off", "it was stopped"},
		{"another knob", set("pin_memory", "on"), "2 on off", "pin_memory on was set by hand"},
		{"the same knob", set("num_workers", "6"), "6 off off", "num_workers 6 was set by hand"},
		{"no change is possible", func(r *run, _ *Experiment) { r.cannot = true }, "", trace.NotApplied},
		{"workers are refused", func(r *run, _ *Experiment) { r.barred = true }, "", trace.NotApplied + "it cannot be sent"},
		{"no change is taken", func(r *run, _ *Experiment) { r.refuse = true }, "", "set num_workers: no"},
	} {
		for _, at := range []int{0, 20, 60, 130, 185, 400} {
			r := newRun(t)
			e := r.begin(workers(3))
			for r.step < int32(150+at) {
				e.Look(r.session.Snapshot(0, 0))
				r.train(5)
			}
			c.disturb(r, e)
			r.until(e)
			x, _ := came(t, r)
			if c.settings != "" && r.settings() != c.settings || !strings.Contains(x.Why, c.why) || x.Kept && c.settings != "" {
				t.Errorf("%s after %d steps: left with %s, want %s: %q", c.name, at, r.settings(), c.settings, x.Why)
			}
		}
	}
}

// TestRenewed: a script that makes a new loader for each epoch does not end an experiment, although the
// script's own settings are in force for some steps. If these settings stay, the experiment ends.
func TestRenewed(t *testing.T) {
	for _, c := range []struct {
		hold     int
		settings string
		why      string
	}{{20, "4 off off", ""}, {2000, "2 off off", "the script changed its settings itself"}} {
		r := newRun(t)
		e := r.begin(workers(4))
		for i := 0; i < 3000 && !e.Look(r.session.Snapshot(0, 0)); i++ {
			if r.train(5); i%40 == 39 && r.hold == 0 {
				r.renew(c.hold)
			}
		}
		r.train(50)
		x, _ := came(t, r)
		if r.settings() != c.settings || x.Running() || x.Why != c.why || x.Kept != (c.why == "") {
			t.Errorf("for %d steps: left with %s: %+v", c.hold, r.settings(), x)
		}
	}
}

// TestPause: a pause spoils the pair that it falls into, and nothing else.
func TestPause(t *testing.T) {
	r := newRun(t)
	e := r.begin(workers(4))
	for i := 0; !e.Look(r.session.Snapshot(0, 0)); i++ {
		r.pauses = i == 30 || i == 100
		r.train(5)
	}
	x, _ := came(t, r)
	for _, p := range x.Pairs {
		if p.A.Active+p.B.Active > 6e9 || p.End-p.Start > 7e9 {
			t.Errorf("a pair with a pause: %+v", p)
		}
	}
	if !x.Kept {
		t.Errorf("%s", x.Text())
	}
}

// TestEvaluations: where every pair has evaluations, after an epoch or midway, they take turns all the same.
func TestEvaluations(t *testing.T) {
	for _, midway := range []bool{false, true} {
		r := newRun(t)
		r.evaluates, r.midway = 20, midway
		e := r.begin(workers(4))
		r.until(e)
		if x, _ := came(t, r); !x.Kept || len(x.Pairs) == 0 {
			t.Errorf("midway %v: %s", midway, x.Text())
		}
	}
}

func TestEnds(t *testing.T) {
	r := newRun(t)
	r.noise = 0.5
	q := workers(3)
	q.Budget = 30 * time.Second
	r.until(r.begin(q))
	if x, _ := came(t, r); !strings.Contains(x.Why, "budget of 30.0 s") || r.settings() != "2 off off" {
		t.Errorf("left with %s: %s", r.settings(), x.Text())
	}
	r = newRun(t)
	e := r.begin(workers(4))
	r.train(100)
	e.Abandon(r.session.Snapshot(0, 0))
	if x, _ := came(t, r); x.Why != "the run ended" || !e.Look(r.session.Snapshot(0, 0)) {
		t.Errorf("%s", x.Text())
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name    string
		q       Question
		prepare func(*run)
		want    string
	}{
		{"in force", workers(2), func(*run) {}, "are in force"},
		{"unknown", Question{Kind: trace.Paired, Knobs: []knob.Setting{{Name: "speed", Value: "9"}}}, func(*run) {}, "no knob speed"},
		{"impossible", workers(640), func(*run) {}, "num_workers"},
		{"ceiling on", Question{Kind: trace.Ceiling}, func(r *run) { _ = r.Set([]knob.Setting{{Name: "ceiling", Value: "on"}}); r.train(5) }, "turn ceiling off"},
		{"a change under way", workers(4), func(r *run) { _ = r.Set([]knob.Setting{{Name: "pin_memory", Value: "on"}}) }, "another change"},
	} {
		r := newRun(t)
		c.prepare(r)
		if _, err := New(c.q, r.session.Snapshot(0, 0), r, r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if s := r.session.Snapshot(0, 0); len(s.Experiments) > 0 {
			t.Errorf("%s: it was begun", c.name)
		}
	}
	if _, err := New(workers(4), &trace.Snapshot{}, nil, nil); err == nil {
		t.Error("begun without a run")
	}
}

// TestNeverSlower: whatever happens, and whenever, the run is not left slower than at the start,
// unless somebody else made it slower. And each experiment ends.
func TestNeverSlower(t *testing.T) {
	for seed := range uint64(60) {
		r := newRun(t)
		random := rand.New(rand.NewPCG(seed, 7))
		tried := random.IntN(5)
		if tried == 2 {
			tried = 4
		}
		e := r.begin(workers(tried))
		after := random.IntN(1200)
		for i := 0; i < after && !e.Look(r.session.Snapshot(0, 0)); i += 5 {
			r.train(1 + random.IntN(8))
		}
		theirs := false
		switch random.IntN(5) {
		case 0:
			e.Stop(r.session.Snapshot(0, 0))
		case 1:
			_ = r.Set([]knob.Setting{{Name: "pin_memory", Value: "on"}})
		case 2:
			_ = r.Set([]knob.Setting{{Name: "num_workers", Value: strconv.Itoa(8)}})
			theirs = true
		case 3:
			r.pauses = true
		}
		r.until(e)
		if now := knob.ValueOf(r.inForce, "num_workers"); now != "2" && now != "4" && !(theirs && now == "8") {
			t.Errorf("seed %d: tried %d, left with %s: %+v", seed, tried, r.settings(), e.x)
		}
	}
}
