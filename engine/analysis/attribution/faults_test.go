package attribution

import (
	"testing"

	"dev.gpustall/engine/analysis/attribution/attributiontest"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/trace"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// snapshot is the session of a run, and its timeline.
func snapshot(r attributiontest.Run) (s *trace.Snapshot, tl Timeline) {
	s = r.Snapshot(func(spans []trace.Span, steps []trace.Step, end int64) []trace.Step {
		tl = Attribute(spans, steps, 0, end)
		return tl.Steps
	})
	return s, tl
}

func TestInjectedFaultsAreFound(t *testing.T) {
	for _, f := range attributiontest.Faults {
		t.Run(f.Name, func(t *testing.T) {
			s := attributiontest.Healthy()
			f.Inject(&s)
			snap, tl := snapshot(s)
			checkExact(t, tl, 0, snap.Now)
			b := Sum(snap.Recent[1:])
			allowed := map[trace.Cause]bool{}
			for _, c := range f.Causes {
				allowed[c] = true
			}
			for c := range trace.NumCauses {
				c := trace.Cause(c)
				share := float64(b.Stall[c]) / float64(b.Wall)
				if !allowed[c] && share >= 0.01 {
					t.Errorf("%.1f %% is charged to %s, which was not injected", 100*share, c)
				}
			}
			if f.Dominant != trace.CauseUnknown && b.Share(f.Dominant) < 0.05 {
				t.Errorf("%s has only %.1f %%", f.Dominant, 100*b.Share(f.Dominant))
			}
		})
	}
}

// TestAPauseChangesNoShare: a pause of any length changes no share and no verdict.
func TestAPauseChangesNoShare(t *testing.T) {
	for _, f := range attributiontest.Faults {
		if f.Name == "paused" {
			continue
		}
		s := attributiontest.Healthy()
		f.Inject(&s)
		plain, _ := snapshot(s)
		s.PauseAt, s.Pause = 60, 100_000*attributiontest.Msec
		paused, _ := snapshot(s)
		a, b := Sum(plain.Recent), Sum(paused.Recent)
		if b.Paused != s.Pause {
			t.Errorf("%s: %d ns are paused, want %d", f.Name, b.Paused, s.Pause)
		}
		// The workers go on in the pause, so the queue is fuller after it. The steps in
		// flight have ended, so one step overlaps less.
		if d := a.Utilisation() - b.Utilisation(); d > 0.01 || d < -0.06 {
			t.Errorf("%s: utilisation %.3f, with a pause %.3f", f.Name, a.Utilisation(), b.Utilisation())
		}
	}
}

// TestKnobChange: a knob change shows as a transition, which comparisons leave out. The comparison
// then finds what more workers bring.
func TestKnobChange(t *testing.T) {
	s := attributiontest.Healthy()
	s.Workers, s.Steps, s.Transform = 1, 400, 30*attributiontest.Msec
	s.ChangeAt, s.ChangeTo, s.Rebuild = 80, 4, 25*attributiontest.Msec
	snap, tl := snapshot(s)
	checkExact(t, tl, 0, snap.Now)
	b := Sum(snap.Recent)
	if got := b.Stall[trace.CauseTransition]; got < s.Rebuild*9/10 || got > s.Rebuild*2 {
		t.Errorf("transition costs %d ns, the rebuild took %d", got, s.Rebuild)
	}
	rows := Segments(snap)
	if len(rows) != 2 {
		t.Fatalf("%d rows", len(rows))
	}
	a, z := rows[0], rows[1]
	if a.VsA.Throughput.Ratio != 0 || a.Excluded != 1 || a.Steps != 79 {
		t.Errorf("segment A: %+v", a)
	}
	if z.Excluded != 8 || z.Steps != 312 || z.Segment.Transition < s.Rebuild {
		t.Errorf("segment B excludes %d, keeps %d, cost %d", z.Excluded, z.Steps, z.Segment.Transition)
	}
	// One worker makes a batch in 36 ms. With four workers the device's 10 ms limit the
	// rate.
	if c := &z.VsA.Throughput; c.Answer != stats.Different || c.Ratio < 3.5 || c.Ratio > 3.7 || c.Lo > c.Ratio || c.Hi < c.Ratio {
		t.Errorf("B over A: %+v", c)
	}
	if a.DataShare < 0.65 || z.DataShare > 0.01 {
		t.Errorf("data shares %.2f and %.2f", a.DataShare, z.DataShare)
	}
}

// TestAnalyzerFollowsARun: the analyzer forgets old spans, and Attribute knows all of them. Both
// agree with the oracle, whatever the run is and however the collector cuts it.
func TestAnalyzerFollowsARun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := func(name string, most int64) int64 { return rapid.Int64Range(0, most).Draw(t, name) }
		s := attributiontest.Run{
			Workers: rapid.IntRange(0, 4).Draw(t, "workers"), Prefetch: rapid.IntRange(1, 3).Draw(t, "prefetch"),
			Slots: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "slots"), Steps: rapid.IntRange(1, 25).Draw(t, "steps"),
			Start: d("start", 30), Restart: rapid.Bool().Draw(t, "restart"), Epoch: rapid.IntRange(1, 25).Draw(t, "epoch"),
			Read: d("read", 40), Decode: d("decode", 40), Transform: d("transform", 40), Collate: d("collate", 9),
			Straggler: rapid.IntRange(0, 4).Draw(t, "straggler"), Delay: d("delay", 100),
			Enqueue: d("enqueue", 20), Copy: d("copy", 30), Compute: d("compute", 60), Sync: d("sync", 5),
			PauseAt: rapid.IntRange(0, 25).Draw(t, "pause at"), Pause: d("pause", 90),
			ChangeAt: rapid.IntRange(0, 25).Draw(t, "change at"), ChangeTo: rapid.IntRange(1, 6).Draw(t, "change to"), Rebuild: d("rebuild", 50),
		}
		if s.Workers == 0 {
			s.ChangeAt = 0
		}
		log, _, end := s.Log()
		spans, steps := attributiontest.Split(log)
		want := Attribute(spans, steps, 0, end)
		checkExact(t, want, 0, end)

		oracle, _ := newNaive(spans).attribute(steps, 0, end)
		for i := range oracle {
			oracle[i].Bytes = want.Steps[i].Bytes
		}
		if diff := cmp.Diff(oracle, want.Steps); diff != "" {
			t.Fatal(diff)
		}

		a := NewAnalyzer(0)
		got := Timeline{Wall: end}
		for _, c := range attributiontest.Chunks(log, func(n int) (int, int) {
			m := rapid.IntRange(1, min(n, 40)).Draw(t, "spans")
			return rapid.IntRange(0, m).Draw(t, "steps"), m
		}) {
			done, stalls := a.Feed(c.Spans, c.Steps)
			got.Steps = append(got.Steps, done...)
			got.add(stalls)
		}
		got.add(a.Finish(end))
		for _, st := range got.Steps {
			got.Busy += st.Busy
		}
		got.Busy += a.tailBusy
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestAnalyzerForgets: the analyzer's memory does not grow with the run, and it does not allocate
// in the steady state.
func TestAnalyzerForgets(t *testing.T) {
	s := attributiontest.Healthy()
	s.Workers, s.Steps, s.Epoch = 8, 4000, 100
	log, _, _ := s.Log()
	a := NewAnalyzer(0)
	pieces := attributiontest.Chunks(log, func(int) (int, int) { return 50, 50 })
	feed := func(from, to int) (allocs float64) {
		return testing.AllocsPerRun(1, func() { // runs f twice: the first feed is the warm-up of the second
			for _, c := range pieces[from:to] {
				a.Feed(c.Spans, c.Steps)
			}
			from, to = to, to+(to-from)
		})
	}
	feed(0, len(pieces)/4)
	allocs := feed(len(pieces)/2, len(pieces)*3/4)
	if allocs > 20 {
		t.Errorf("%v allocations over a quarter of the run", allocs)
	}
	waits := 0
	for i := range a.lanes {
		waits += len(a.lanes[i].waits)
	}
	if len(a.builds) > 100 || len(a.accounts) > 10 || len(a.live) > 50 || len(a.late) > 0 || len(a.turns) > 20 || waits > 200 {
		t.Errorf("kept: %d builds, %d accounts, %d + %d spans, %d waits", len(a.builds), len(a.accounts), len(a.live), len(a.late), waits)
	}
}

// BenchmarkAnalyzer is the cost of one step with 64 workers and some 50 phases a
// batch, as the loader records them.
func BenchmarkAnalyzer(b *testing.B) {
	for _, c := range []struct {
		name   string
		inject func(*attributiontest.Run)
	}{
		{"keepingUp", func(s *attributiontest.Run) { s.Workers = 64 }},
		{"starving", func(s *attributiontest.Run) {
			s.Workers, s.Read, s.Transform = 64, 800*attributiontest.Msec, 400*attributiontest.Msec
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := attributiontest.Healthy()
			s.Steps = 2000
			c.inject(&s)
			log, _, _ := s.Log()
			log = attributiontest.Shred(log, 12)
			pieces := attributiontest.Chunks(log, func(int) (int, int) { return 500, 500 })
			spans, _ := attributiontest.Split(log)
			b.ReportAllocs()
			for b.Loop() {
				a := NewAnalyzer(0)
				for _, c := range pieces {
					a.Feed(c.Spans, c.Steps)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.Steps), "ns/step")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(spans)), "ns/span")
		})
	}
}
