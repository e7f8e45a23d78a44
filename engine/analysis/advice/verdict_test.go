package advice

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/attribution/attributiontest"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// told holds what is said about a session.
type told struct {
	Verdict
	Advice, Knob, Value string
	all                 Advice
}

// judge returns what is said about the last segment of steps.
func judge(s *trace.Snapshot, steps []trace.Step) told {
	from := len(steps)
	for from > 0 && steps[from-1].Segment == steps[len(steps)-1].Segment {
		from--
	}
	s.Digest = *trace.Digested(s.Recent)
	a := Of(s, trace.Count(steps[from:]), attribution.Segments(s))
	return told{a.Verdict, a.Text(), a.First().Knob, a.First().Value, a}
}

// uniform is a session of equal steps, each of 100 ns less what stalls.
func uniform(n int, stalls map[trace.Cause]int64, knobs ...knob.Setting) *trace.Snapshot {
	s := &trace.Snapshot{
		Segments: []trace.Segment{{Index: 0, Knobs: knobs}},
		Meta:     trace.Meta{Host: []knob.Setting{{Name: "threads", Value: "4"}}},
	}
	var idle int64
	for _, ns := range stalls {
		idle += ns
	}
	t := int64(0)
	for i := range int32(n) {
		st := trace.Step{Index: i, Samples: 32, Correct: -1, Busy: 100 - idle}
		for c, ns := range stalls {
			st.Stall[c] = ns
		}
		st.Start, st.End = t, t+100
		st.Load = 3 * st.Busy
		t += 100
		s.Recent = append(s.Recent, st)
	}
	return s
}

func set(name, value string) knob.Setting { return knob.Setting{Name: name, Value: value} }

// TestClasses checks the TensorFlow profiler's thresholds at their edges.
func TestClasses(t *testing.T) {
	type stalls = map[trace.Cause]int64
	for _, c := range []struct {
		stalls stalls
		class  string
		cause  trace.Cause
		says   string
	}{
		{stalls{}, DeviceBound, trace.CauseUnknown, "computes 100 % of the time and waits for no data"},
		{stalls{trace.CauseDecode: 4}, DeviceBound, trace.CauseUnknown, "and waits for data 4.0 %"},
		{stalls{trace.CauseDecode: 3, trace.CauseRead: 2}, "moderately input-bound", trace.CauseDecode, "5.0 % of the time, most of it for decoding (3.0 % of the time)"},
		{stalls{trace.CauseDecode: 3, trace.CauseRead: 2, trace.CauseTransform: 2}, "moderately input-bound", trace.CauseDecode, "the largest part of it for decoding (3.0 % of the time)"},
		{stalls{trace.CauseDecode: 19}, "moderately input-bound", trace.CauseDecode, "nearly all of it for decoding"},
		{stalls{trace.CauseDecode: 9, trace.CauseWorkers: 11}, "input-bound", trace.CauseWorkers, "most of it for a free worker"},
		{stalls{trace.CauseCopy: 30, trace.CauseRead: 10}, "copy-bound", trace.CauseCopy, "copies 30.0 %"},
		{stalls{trace.CauseLaunch: 6, trace.CauseSync: 5}, "launch-bound", trace.CauseLaunch, "enqueued and begun"},
		{stalls{trace.CauseSync: 6}, "sync-bound", trace.CauseSync, "waits for results"},
		{stalls{trace.CauseUnknown: 30, trace.CauseRead: 10}, "unexplained", trace.CauseUnknown, "no recorded cause"},
	} {
		s := uniform(20, c.stalls, set("num_workers", "1"))
		v := judge(s, s.Recent)
		if v.Class != c.class || v.Dominant != c.cause {
			t.Errorf("%v: %s, %s; want %s, %s", c.stalls, v.Class, v.Dominant, c.class, c.cause)
		}
		if !strings.HasPrefix(v.Text, v.Class) || !strings.Contains(v.Text, c.says) || v.Advice == "" || strings.Contains(v.Text+v.Advice, "\n") {
			t.Errorf("text %q, advice %q", v.Text, v.Advice)
		}
	}
	s := uniform(9, stalls{trace.CauseRead: 50})
	if v := judge(s, s.Recent); v.Class != NotEnoughSteps || v.Advice != "" || v.Knob != "" {
		t.Errorf("on 9 steps: %+v", v)
	}
	if v := judge(&trace.Snapshot{}, nil); v.Class != NotEnoughSteps {
		t.Errorf("on no steps: %+v", v)
	}
}

// TestClassLasts: in a window, the class changes when another clearly beats the class of the time
// before, or when the new class has led for the length of the window. The verdict on a whole segment has
// no time before it.
func TestClassLasts(t *testing.T) {
	type stalls = map[trace.Cause]int64
	for _, c := range []struct {
		before, now stalls
		class       string
	}{
		{stalls{trace.CauseDecode: 30, trace.CauseCopy: 25}, stalls{trace.CauseDecode: 26, trace.CauseCopy: 30}, "input-bound"},
		{stalls{trace.CauseDecode: 26, trace.CauseCopy: 30}, stalls{trace.CauseDecode: 26, trace.CauseCopy: 30}, "copy-bound"},
		{stalls{trace.CauseDecode: 30, trace.CauseCopy: 25}, stalls{trace.CauseDecode: 20, trace.CauseCopy: 30}, "copy-bound"},
		{stalls{trace.CauseDecode: 30}, stalls{trace.CauseDecode: 4}, DeviceBound},
		{stalls{}, stalls{trace.CauseCopy: 8, trace.CauseDecode: 7}, "copy-bound"},
	} {
		s := uniform(40, c.now, set("num_workers", "1"))
		earlier := uniform(20, c.before).Recent
		for i := range earlier {
			st := &s.Recent[i]
			st.Busy, st.Stall = earlier[i].Busy, earlier[i].Stall
		}
		s.Digest = *trace.Digested(s.Recent)
		a := Of(s, trace.Count(s.Recent[20:]), attribution.Segments(s))
		if a.Verdict.Class != c.class {
			t.Errorf("%v, then %v: %s, want %s", c.before, c.now, a.Verdict.Class, c.class)
		}
		if all := Of(s, trace.Count(s.Recent), attribution.Segments(s)); groupBefore(s, trace.Count(s.Recent)) != trace.GroupNone {
			t.Errorf("%v, then %v: %s on the whole", c.before, c.now, all.Verdict.Class)
		}
	}
}

// TestTooShort: for a run that ended within a second, the verdict says what the device waited
// for, and nothing is advised or predicted. A run that goes on, or an imported trace, gets
// advice.
func TestTooShort(t *testing.T) {
	for _, c := range []struct {
		ended    int64
		imported string
		short    bool
	}{{999e6, "", true}, {1e9, "", false}, {0, "", false}, {999e6, "a trace", false}} {
		s := uniform(20, map[trace.Cause]int64{trace.CauseRead: 50}, set("num_workers", "1"))
		s.Outcome.Ended, s.Meta.Imported = c.ended, c.imported
		v := judge(s, s.Recent)
		if short := strings.HasPrefix(v.Advice, "the run took 999 ms, too short to advise on: "); short != c.short || short && (v.Knob != "" || v.all.Model != nil) || v.Class != "input-bound" {
			t.Errorf("%+v: %s: %s %s", c, v.Class, v.Knob, v.Advice)
		}
	}
}

// TestQueueState: the queue's state comes from its samples, or else from the gauges.
func TestQueueState(t *testing.T) {
	for _, c := range []struct {
		name  string
		ready float64
		cause trace.Cause
		share int64
		want  string
	}{
		{"full", 0.95, trace.CauseRead, 2, QueueDevice},
		{"half", 0.5, trace.CauseRead, 30, ""},
		{"empty, computing", 0.05, trace.CauseDecode, 30, QueueCPU},
		{"empty, reading", 0.05, trace.CauseRead, 30, QueueIO},
		{"empty, and nothing waits", 0.05, trace.CauseRead, 2, ""},
	} {
		s := uniform(20, map[trace.Cause]int64{c.cause: c.share}, set("num_workers", "2"))
		gauged := *s
		for i := range int64(20) {
			s.Spans = append(s.Spans, trace.Span{Start: i * 100, End: i * 100, Kind: trace.KindQueue, Arg: uint32(c.ready * 100), Flags: 100})
		}
		s.Spans = append(s.Spans, trace.Span{Start: 99_999, End: 99_999, Kind: trace.KindQueue, Arg: 50, Flags: 100}) // outside
		gauged.Gauges = map[string][]trace.Point{"queue_ready": {{T: 100, V: c.ready * 8}, {T: 9999, V: 4}}, "queue_cap": {{T: 100, V: 8}, {T: 9999, V: 8}}}
		for name, s := range map[string]*trace.Snapshot{"spans": s, "gauges": &gauged} {
			if v := judge(s, s.Recent); v.Queue != c.want {
				t.Errorf("%s, from %s: %q, want %q", c.name, name, v.Queue, c.want)
			}
		}
	}
}

// BenchmarkJudge is a verdict on 500 steps and a second of 64 workers' spans.
func BenchmarkJudge(b *testing.B) {
	s := attributiontest.Healthy()
	s.Workers, s.Steps = 64, 500
	log, _, _ := s.Log()
	snap := snapshot(s)
	snap.Spans, _ = attributiontest.Split(attributiontest.Shred(log, 12))
	b.ReportAllocs()
	for b.Loop() {
		judge(snap, snap.Recent)
	}
}

// TestOwnLoadingVerdict: a verdict mentions the loop's own loading.
func TestOwnLoadingVerdict(t *testing.T) {
	s := uniform(60, nil)
	profiled(trace.Profile{Own: trace.ProfiledRange{Name: "load_batch", Share: 0.85}})(s)
	if v := judge(s, s.Recent); !contains(v.Text, "waits for no data; the range load_batch, loading by its name, takes 85.0 % of the time; 60 steps") {
		t.Errorf("the verdict: %s", v.Text)
	}
}

// stepsFetch makes each step wait so much of its time for samples.
func stepsFetch(ns int64) func(*trace.Snapshot) { return stepsLose(trace.CauseFetch, ns) }

// stepsLose has the device idle for a cause, for so much of each step of 100.
func stepsLose(cause trace.Cause, ns int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		for i := range s.Recent {
			s.Recent[i].Busy, s.Recent[i].Stall[cause] = 100-ns, ns
		}
	}
}

// TestScriptBound: no text says that a device computes where a script runs on the CPU. The text
// also names what the script does besides training.
func TestScriptBound(t *testing.T) {
	body := did(trace.Rank{Wait: 4e6, Body: 96e6, Backward: 11e6, Optimizer: 19e6})
	alone := together(onTorch("1"), cpuDevice, facts(set(trace.LoopWaits, "not known")), stepsLose(trace.CauseUnknown, 70))
	for _, c := range []struct {
		name  string
		with  func(*trace.Snapshot)
		class string
		says  string
	}{
		{"an evaluation", together(onTorch("1"), did(trace.Rank{Time: 100, Body: 60, Aside: 40})), ScriptBound, ": 40.0 % of the time goes to loops that do not train, such as an evaluation; in the rest the device computes 100 % of the time and waits for no data; 60 steps"},
		{"a little data", together(onTorch("1"), cpuDevice, did(trace.Rank{Wait: 8e6, Body: 92e6, Backward: 2e6, Optimizer: 2e6}), stepsFetch(8)), ScriptBound, ": the script is busy 92.0 % of the time; of a step's 100 ms, 88.0 ms are neither backward pass nor optimizer; it waits for data 8.0 %; "},
		{"more data", together(onTorch("1"), cpuDevice, did(trace.Rank{Wait: 30e6, Body: 70e6, Backward: 2e6, Optimizer: 2e6}), stepsFetch(30)), "input-bound", ": the device waits for data 30.0 %"},
		{"an evaluation of a quarter", together(onTorch("1"), did(trace.Rank{Time: 100, Body: 75, Aside: 25})), ScriptBound, ": 25.0 % of the time goes to loops that do not train"},
		{"an evaluation of a quarter, on a crowded host", together(onTorch("1"), cpuDevice, gauges(50, 48, 60), did(trace.Rank{Time: 100, Body: 75, Backward: 30, Aside: 25})), ScriptBound, ": 25.0 % of the time goes to loops that do not train"},
		{"an evaluation, and more in the steps", together(onTorch("1"), cpuDevice, did(trace.Rank{Time: 100, Body: 75, Backward: 8, Core: 70, Aside: 25})), ScriptBound, ": the script is busy 100 % of the time"},
		{"a short evaluation", together(onTorch("1"), did(trace.Rank{Time: 100, Body: 85, Aside: 15})), DeviceBound, ": the device computes 100 % of the time and waits for no data; 60 steps"},
		{"parts", together(onTorch("1"), cpuDevice, body), ScriptBound, ": the script is busy 100 % of the time; of a step's 100 ms, 66.0 ms are neither backward pass nor optimizer; it waits for no data; 60 steps"},
		{"an old PyTorch", together(onTorch("1"), cpuDevice, did(trace.Rank{Body: 100e6, Backward: 30e6})), ScriptBound, ": the script is busy 100 % of the time; of a step's 100 ms, 70.0 ms are not backward pass; it waits for no data; 60 steps"},
		{"no parts", together(onTorch("1"), cpuDevice), ScriptBound, ": the script is busy 100 % of the time and waits for no data; 60 steps"},
		{"without cores", together(onTorch("1"), cpuDevice, body, gauge(trace.GaugeStarved, 25)), "host-bound",
			": the script is busy 100 % of the time; of a step's 100 ms, 66.0 ms are neither backward pass nor optimizer; CPU contention: compute runs 1.3x slower, as"},
		{"without cores that others have", together(gauges(50, 48, 60), onTorch("1"), cpuDevice, body, gauge(trace.GaugeStarved, 60)), ScriptBound,
			": the script is busy 100 % of the time; of a step's 100 ms, 66.0 ms are neither backward pass nor optimizer; it waits for no data; CPU contention: compute runs 2.5x slower, as its threads wait for a core 60.0 % of its time; other processes use ~1.9 of the 4 cores; 60 steps"},
		{"without most cores that others have", together(gauges(50, 48, 60), onTorch("1"), cpuDevice, body, gauge(trace.GaugeStarved, 80)), "host-bound", ": the script is busy 100 % of the time; "},
		{"without cores, but mostly blocked", together(onTorch("1"), cpuDevice, did(trace.Rank{Wait: 4e6, Body: 96e6, Backward: 11e6, Optimizer: 19e6, Core: 30e6}), gauge(trace.GaugeStarved, 25)), ScriptBound,
			": the script is in its own steps 100 % of the time, most of it blocked; of a step's 100 ms, 66.0 ms are neither backward pass nor optimizer; it waits for no data; CPU contention: compute runs 1.3x slower, as its threads wait for a core 25.0 % of its time; 60 steps"},
		{"a trace of the CPU", together(profiled(trace.Profile{}), cpuDevice), ScriptBound, ": the script is busy 100 % of the time and waits for no data; "},
		{"no DataLoader", together(alone, linesAt(trace.Forward, "model(x)", "", 1)), ScriptBound, ": the script is busy 100 % of the time, in forward passes 70.0 %; 100 % of the loop's time is at train.py:42 (model(x)); 60 steps"},
		{"no DataLoader, and much besides", together(alone, linesAt(trace.InStep, "get_batch()", "", 1)), ScriptBound, ": the loop is in neither backward passes nor the optimizer 70.0 % of the time; 100 % of the loop's time is at train.py:42 (get_batch()); 60 steps"},
		{"on a GPU", together(onTorch("1"), body), DeviceBound, ": the device computes 100 % of the time and waits for no data; 60 steps"},
		{"our own", cpuDevice, DeviceBound, ": the device computes 100 % of the time and waits for no data; 60 steps"},
	} {
		s := uniform(60, nil, set("num_workers", "1"))
		c.with(s)
		slow(s)
		if v := judge(s, s.Recent); v.Class != c.class || !strings.Contains(v.Text, c.class+c.says) {
			t.Errorf("%s: %s: %s", c.name, v.Class, v.Text)
		}
	}
}

// ranked gives a session the counts of ranks whose steps take 100 ms each. Rank i waits for data in wait[i]
// of them, has 10 ms of its own, and the rest in backward passes. The session is about rank 0.
func ranked(waits ...int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Meta.DeviceKind = "cpu"
		s.Meta.Host = append(s.Meta.Host, set("torch", "2.15.0"), set(trace.JobRank, "0"), set(trace.JobNode, "n0"))
		s.Gauges = map[string][]trace.Point{}
		for rank, wait := range waits {
			for name, ms := range map[string]int64{"wait_ns": wait, "body_ns": 100 - wait, "backward_ns": 90 - wait, "time_ns": 100} {
				s.Gauges[fmt.Sprintf("rank_%d_%s", rank, name)] = []trace.Point{{V: float64(50 * ms * 1e6)}}
			}
			s.Gauges[fmt.Sprintf("rank_%d_steps", rank)] = []trace.Point{{V: 50}}
		}
	}
}

// TestWaitsForRank: a rank that waits for another rank says so, with what that rank does. The late
// rank, and ranks that go in step, are judged by themselves.
func TestWaitsForRank(t *testing.T) {
	peer := func(p trace.Peer) func(*trace.Snapshot) {
		return func(s *trace.Snapshot) { s.Peers = append(s.Peers, p) }
	}
	script := func(s *trace.Snapshot) { // rank 1 has 60 ms of its own
		s.Gauges["rank_1_backward_ns"] = []trace.Point{{V: 50 * 28 * 1e6}}
	}
	for name, c := range map[string]struct {
		mod   func(*trace.Snapshot)
		class string
		says  string
		next  string
	}{
		"for a rank of this machine": {ranked(2, 62), "communication-bound", "waits 60.0 % of the time for rank 1, which waits for data", "fix rank 1, which the others wait for"},
		"for a rank, and takes batches slowly": {
			together(ranked(2, 62), func(s *trace.Snapshot) {
				for i := range s.Recent {
					st := &s.Recent[i]
					st.Stall[trace.CauseDataLoader] = (st.End - st.Start) / 5
					st.Busy -= st.Stall[trace.CauseDataLoader]
				}
			}),
			"communication-bound", "for rank 1, which waits for data", "fix rank 1, which the others wait for",
		},
		"for one of another machine": {
			together(ranked(2, 62), peer(trace.Peer{Rank: 1, Node: "n7", Waits: "transforming", Line: "aug.py:42 blur(img)"})),
			"communication-bound", "waits 60.0 % of the time for rank 1 on n7, which waits for transforming at aug.py:42 blur(img)", "speed up aug.py:42 blur(img), where rank 1 on n7 loads, or test more workers",
		},
		"for one whose script is late": {
			together(ranked(2, 2), script, peer(trace.Peer{Rank: 1, Node: "n7", Line: "train.py:17 log(x)"})),
			"communication-bound", "waits 60.0 % of the time for rank 1 on n7, whose script is late at train.py:17 log(x)", "speed up train.py:17 log(x), where rank 1 on n7 is late",
		},
		"it is late itself":    {ranked(62, 2), ScriptBound, "the script is busy", "fix rank 0, which the others wait for"},
		"all go in step":       {ranked(2, 3, 2), ScriptBound, "the script is busy", ""},
		"it is the only one":   {ranked(2), ScriptBound, "the script is busy", ""},
		"its own is not known": {together(ranked(2, 62), func(s *trace.Snapshot) { s.Meta.Host = append(s.Meta.Host[:2:2], set(trace.JobRank, "7")) }), ScriptBound, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := uniform(50, nil, set("num_workers", "1"))
			slow(s)
			c.mod(s)
			got := judge(s, s.Recent)
			if got.Class != c.class || !strings.Contains(got.Text, c.says) || !strings.Contains(got.Advice, c.next) {
				t.Errorf("%s: %q and %q; want %s, %q and %q", got.Class, got.Text, got.Advice, c.class, c.says, c.next)
			}
		})
	}
}

// TestFirstGone: of a training that failed, it is said which rank ended first, and no more than is known.
func TestFirstGone(t *testing.T) {
	const ok, one, killed = "with exit code 0", "with exit code 1", "by SIGKILL (killed)"
	for name, c := range map[string]struct {
		peers []trace.Peer
		world int
		want  string
	}{
		"none failed":            {[]trace.Peer{{Rank: 0, Gone: 5, How: ok}, {Rank: 1}}, 2, ""},
		"one is silent":          {[]trace.Peer{{Rank: 1, Gone: 5, Silent: true}}, 2, ""},
		"all are known":          {[]trace.Peer{{Rank: 0, Gone: 9, How: one}, {Rank: 1, Node: "b", Gone: 5, How: killed}}, 2, "rank 1 on b ended first, " + killed},
		"some are not":           {[]trace.Peer{{Rank: 0, Gone: 9, How: one}, {Rank: 1, Gone: 5, How: one}, {Rank: 2}}, 3, "rank 1 ended first of 2 whose end is known, " + one},
		"no other is":            {[]trace.Peer{{Rank: 1, Gone: 5, How: one}, {Rank: 2}}, 3, "rank 1 ended " + one},
		"the first one finished": {[]trace.Peer{{Rank: 0, Gone: 9, How: one}, {Rank: 1, Gone: 5, How: ok}}, 2, "rank 1 ended first, " + ok + ", then rank 0 " + one},
	} {
		if got := FirstGone(c.peers, c.world); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestStandstill(t *testing.T) {
	in := func(rank int, node, stands string, late bool) trace.Peer {
		return trace.Peer{Rank: rank, Node: node, Stands: stands, Late: late}
	}
	const waits, lock = "in a backward pass at train.py:9 loss.backward()", "at aug.py:3 lock.acquire()"
	for name, c := range map[string]struct {
		peers []trace.Peer
		want  string
	}{
		"none stands":           {[]trace.Peer{in(0, "a", "", false)}, ""},
		"one does not wait":     {[]trace.Peer{in(0, "a", waits, false), in(1, "a", waits, false), in(2, "b", lock, true)}, "others wait for rank 2 on b, which is " + lock},
		"two, at one place":     {[]trace.Peer{in(2, "a", lock, true), in(0, "a", waits, false), in(1, "a", lock, true)}, "others wait for ranks 1-2, which are " + lock},
		"all wait, differently": {[]trace.Peer{in(0, "a", waits, false), in(1, "a", "in an exchange at train.py:12", false), in(2, "a", waits, false)}, "rank 1 is in an exchange at train.py:12; ranks 0, 2 are " + waits},
		"one ended":             {[]trace.Peer{in(0, "a", waits, false), {Rank: 3, Node: "b", Late: true, Gone: 105e9, How: "with exit code 1"}}, "others wait for rank 3 on b, which ended 7 s ago with exit code 1"},
		"two, and none waits":   {[]trace.Peer{{Rank: 2, Node: "b", Late: true, Gone: 105e9}, {Rank: 3, Node: "b", Late: true, Gone: 1048e8}}, "ranks 2-3 on b ended 7 s ago"},
		"one is silent":         {[]trace.Peer{{Rank: 3, Node: "b", Late: true, Gone: 105e9, Silent: true}}, "rank 3 on b went silent 7 s ago"},
		"none waits":            {[]trace.Peer{in(0, "a", lock, true), in(1, "b", lock, true)}, "rank 0 is " + lock + "; rank 1 on b is " + lock},
	} {
		s := &trace.Snapshot{Peers: c.peers, Meta: trace.Meta{Started: time.Unix(100, 0), Host: []knob.Setting{set(trace.JobNode, "a")}}, Now: 12e9}
		if got := Standstill(s); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
