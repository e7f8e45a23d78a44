package stall

import (
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// healthy is a run in which two workers keep up with the device.
func healthy() sim {
	return sim{
		workers: 2, prefetch: 2, steps: 100, start: 2 * msec,
		read: 2 * msec, decode: 3 * msec, transform: 2 * msec, collate: msec,
		enqueue: msec / 5, copy: msec, compute: 10 * msec,
	}
}

// faults are the bottlenecks that can be injected, what must be found, and what
// must not be: every cause that is not in causes stays under 1 %.
var faults = []struct {
	name     string
	inject   func(*sim)
	class    string
	dominant trace.Cause
	causes   []trace.Cause
	queue    string
	knob     string
	value    string
}{
	{"none", func(s *sim) {}, DeviceBound, trace.CauseUnknown, nil, "", "", ""},
	{"slow read", func(s *sim) { s.read = 40 * msec }, "input-bound", trace.CauseRead,
		[]trace.Cause{trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}, QueueIO, "num_workers", "5"},
	{"slow decode", func(s *sim) { s.decode = 40 * msec }, "input-bound", trace.CauseDecode,
		[]trace.Cause{trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}, QueueCPU, "num_workers", "5"},
	{"slow transform", func(s *sim) { s.transform = 40 * msec }, "input-bound", trace.CauseTransform,
		[]trace.Cause{trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}, QueueCPU, "num_workers", "5"},
	{"one straggler", func(s *sim) { s.workers, s.straggler, s.delay = 4, 3, 150*msec }, "input-bound", trace.CauseTransform,
		[]trace.Cause{trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}, QueueCPU, "in_order", "off"},
	{"no overlap", func(s *sim) { s.workers = 0; s.sync = 1 }, "input-bound", trace.CauseDecode,
		[]trace.Cause{trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}, QueueCPU, "num_workers", "1"},
	{"slow copy", func(s *sim) { s.copy = 15 * msec }, "copy-bound", trace.CauseCopy,
		[]trace.Cause{trace.CauseCopy}, "", "pin_memory", "on"},
	{"slow enqueue", func(s *sim) { s.enqueue = 15 * msec }, "launch-bound", trace.CauseLaunch,
		[]trace.Cause{trace.CauseLaunch}, "", "capture", "on"},
	{"slow metrics", func(s *sim) { s.sync = 4 * msec }, "sync-bound", trace.CauseSync,
		[]trace.Cause{trace.CauseSync, trace.CauseCopy}, "", "", ""},
	{"paused", func(s *sim) { s.pauseAt, s.pause = 50, 5000*msec }, DeviceBound, trace.CauseUnknown,
		[]trace.Cause{trace.CausePaused}, "", "", ""},
	{"workers restarted every epoch", func(s *sim) { s.epoch, s.restart, s.start = 10, true, 80*msec }, "input-bound", trace.CauseStartup,
		[]trace.Cause{trace.CauseStartup, trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}, QueueCPU, "persistent_workers", "on"},
	{"slots returned late", func(s *sim) { s.slots, s.lag = 1, 20*msec }, "input-bound", trace.CausePrefetch,
		[]trace.Cause{trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CausePrefetch, trace.CauseCopy}, QueueCPU, "prefetch_factor", "4"},
	{"one worker on a steady load", func(s *sim) { s.workers, s.prefetch, s.transform = 1, 1, 22*msec }, "input-bound", trace.CauseTransform,
		[]trace.Cause{trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}, QueueCPU, "num_workers", "3"},
}

func TestInjectedFaultsAreFound(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s := healthy()
			f.inject(&s)
			snap, tl := s.snapshot()
			checkExact(t, tl, 0, snap.Now)
			b := Sum(snap.Recent[1:])
			v := judge(snap, snap.Recent)
			t.Log(v.Text)
			t.Log(v.Advice)
			if v.Class != f.class || v.Dominant != f.dominant {
				t.Errorf("%s, dominant %s; want %s, %s", v.Class, v.Dominant, f.class, f.dominant)
			}
			if v.Queue != f.queue || v.Knob != f.knob || v.Value != f.value {
				t.Errorf("queue %q, knob %s=%s; want %q, %s=%s", v.Queue, v.Knob, v.Value, f.queue, f.knob, f.value)
			}
			allowed := map[trace.Cause]bool{}
			for _, c := range f.causes {
				allowed[c] = true
			}
			for c := range trace.NumCauses {
				c := trace.Cause(c)
				share := float64(b.Stall[c]) / float64(b.Wall)
				if !allowed[c] && share >= 0.01 {
					t.Errorf("%.1f %% is charged to %s, which was not injected", 100*share, c)
				}
			}
			if f.dominant != trace.CauseUnknown && b.Share(f.dominant) < 0.05 {
				t.Errorf("%s has only %.1f %%", f.dominant, 100*b.Share(f.dominant))
			}
		})
	}
}

// The engine may be paused for any time: no share and no verdict changes.
func TestAPauseChangesNoShare(t *testing.T) {
	for _, f := range faults {
		if f.name == "paused" {
			continue
		}
		s := healthy()
		f.inject(&s)
		plain, _ := s.snapshot()
		s.pauseAt, s.pause = 60, 100_000*msec
		paused, _ := s.snapshot()
		a, b := Sum(plain.Recent), Sum(paused.Recent)
		if b.Paused != s.pause {
			t.Errorf("%s: %d ns are paused, want %d", f.name, b.Paused, s.pause)
		}
		// The workers go on in the pause, so the queue is fuller after it; what was
		// in flight has ended, so one step overlaps less.
		if d := a.Utilisation() - b.Utilisation(); d > 0.01 || d < -0.06 {
			t.Errorf("%s: utilisation %.3f, with a pause %.3f", f.name, a.Utilisation(), b.Utilisation())
		}
	}
}

// A knob change shows: as a transition, left out of the comparison, which then
// finds what more workers bring.
func TestKnobChange(t *testing.T) {
	s := healthy()
	s.workers, s.steps, s.transform = 1, 160, 30*msec
	s.changeAt, s.changeTo, s.rebuild = 80, 4, 25*msec
	snap, tl := s.snapshot()
	checkExact(t, tl, 0, snap.Now)
	b := Sum(snap.Recent)
	if got := b.Stall[trace.CauseTransition]; got < s.rebuild*9/10 || got > s.rebuild*2 {
		t.Errorf("transition costs %d ns, the rebuild took %d", got, s.rebuild)
	}
	rows := Segments(snap, 0)
	if len(rows) != 2 {
		t.Fatalf("%d rows", len(rows))
	}
	a, z := rows[0], rows[1]
	if a.VsA.OK || a.Excluded != 1 || a.Steps != 79 {
		t.Errorf("segment A: %+v", a)
	}
	if z.Excluded != 8 || z.Steps != 72 || z.Segment.Transition < s.rebuild {
		t.Errorf("segment B excludes %d, keeps %d, cost %d", z.Excluded, z.Steps, z.Segment.Transition)
	}
	// One worker makes a batch in 36 ms; with four the device's 10 ms bind.
	if !z.VsA.OK || !z.VsA.Different || z.VsA.Ratio < 3.5 || z.VsA.Ratio > 3.7 || z.VsA.Lo > z.VsA.Ratio || z.VsA.Hi < z.VsA.Ratio {
		t.Errorf("B over A: %+v", z.VsA)
	}
	if a.DataShare < 0.65 || z.DataShare > 0.01 {
		t.Errorf("data shares %.2f and %.2f", a.DataShare, z.DataShare)
	}
	if v := judge(snap, snap.Recent); v.Class != DeviceBound || v.Excluded != 8 {
		t.Errorf("after the change: %+v", v)
	}
	if v := judge(snap, snap.Recent[:80]); v.Class != "input-bound" || v.Knob != "num_workers" || v.Value != "4" {
		t.Errorf("before the change: %+v", v)
	}
	if v := judge(snap, snap.Recent[:90]); v.Class != NotEnoughSteps || !strings.Contains(v.Text, "2 since the last change") {
		t.Errorf("right after the change: %+v", v)
	}
}

// Whatever the run and however the collector cuts it, the analyzer that forgets
// agrees with the one that knows all, and with the oracle.
func TestAnalyzerFollowsARun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := func(name string, most int64) int64 { return rapid.Int64Range(0, most).Draw(t, name) }
		s := sim{
			workers: rapid.IntRange(0, 4).Draw(t, "workers"), prefetch: rapid.IntRange(1, 3).Draw(t, "prefetch"),
			slots: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "slots"), steps: rapid.IntRange(1, 25).Draw(t, "steps"),
			start: d("start", 30), restart: rapid.Bool().Draw(t, "restart"), epoch: rapid.IntRange(1, 25).Draw(t, "epoch"),
			read: d("read", 40), decode: d("decode", 40), transform: d("transform", 40), collate: d("collate", 9),
			straggler: rapid.IntRange(0, 4).Draw(t, "straggler"), delay: d("delay", 100),
			enqueue: d("enqueue", 20), copy: d("copy", 30), compute: d("compute", 60), sync: d("sync", 5),
			pauseAt: rapid.IntRange(0, 25).Draw(t, "pause at"), pause: d("pause", 90),
			changeAt: rapid.IntRange(0, 25).Draw(t, "change at"), changeTo: rapid.IntRange(1, 6).Draw(t, "change to"), rebuild: d("rebuild", 50),
		}
		if s.workers == 0 {
			s.changeAt = 0
		}
		log, _, end := s.run()
		spans, steps := split(log)
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
		for _, c := range chunks(log, func(n int) (int, int) {
			m := rapid.IntRange(1, min(n, 40)).Draw(t, "spans")
			return rapid.IntRange(0, m).Draw(t, "steps"), m
		}) {
			done, stalls := a.Feed(c.spans, c.steps)
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

// The analyzer's memory does not grow with the run, and in the steady state it
// does not allocate.
func TestAnalyzerForgets(t *testing.T) {
	s := healthy()
	s.workers, s.steps, s.epoch = 8, 4000, 100
	log, _, _ := s.run()
	a := NewAnalyzer(0)
	pieces := chunks(log, func(int) (int, int) { return 50, 50 })
	feed := func(from, to int) (allocs float64) {
		return testing.AllocsPerRun(1, func() { // runs f twice: the first feed is the warm-up of the second
			for _, c := range pieces[from:to] {
				a.Feed(c.spans, c.steps)
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
	if len(a.builds) > 100 || len(a.accounts) > 10 || len(a.live) > 50 || len(a.late) > 0 || waits > 200 {
		t.Errorf("kept: %d builds, %d accounts, %d + %d spans, %d waits", len(a.builds), len(a.accounts), len(a.live), len(a.late), waits)
	}
}

// BenchmarkAnalyzer is the cost of one step with 64 workers and some 50 phases a
// batch, as the loader records them.
func BenchmarkAnalyzer(b *testing.B) {
	for _, c := range []struct {
		name   string
		inject func(*sim)
	}{
		{"keepingUp", func(s *sim) { s.workers = 64 }},
		{"starving", func(s *sim) { s.workers, s.read, s.transform = 64, 800*msec, 400*msec }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := healthy()
			s.steps = 2000
			c.inject(&s)
			log, _, _ := s.run()
			log = shred(log, 12)
			pieces := chunks(log, func(int) (int, int) { return 500, 500 })
			spans, _ := split(log)
			b.ReportAllocs()
			for b.Loop() {
				a := NewAnalyzer(0)
				for _, c := range pieces {
					a.Feed(c.spans, c.steps)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.steps), "ns/step")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(spans)), "ns/span")
		})
	}
}

// shred cuts every phase of a worker into n.
func shred(log []logged, n int64) []logged {
	var out []logged
	for _, l := range log {
		if l.step != nil || !l.span.Track.IsWorker() || l.span.Kind > trace.KindCollate || l.span.End-l.span.Start < n {
			out = append(out, l)
			continue
		}
		d := (l.span.End - l.span.Start) / n
		for i := range n {
			p := l
			p.span.Start = l.span.Start + i*d
			if i < n-1 {
				p.span.End = p.span.Start + d
			}
			out = append(out, p)
		}
	}
	return out
}
