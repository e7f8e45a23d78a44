package advice

import (
	"fmt"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestCostlyIsOfOneSegment: the costly ops are those of the segment judged. With rows of another
// segment, no op is listed twice and no share becomes smaller.
func TestCostlyIsOfOneSegment(t *testing.T) {
	s := uniform(60, nil, set("num_workers", "2"))
	s.Segments = append(s.Segments, trace.Segment{Index: 1, Knobs: s.Segments[0].Knobs})
	for segment := range int32(3) {
		for _, o := range []struct {
			layer string
			ns    int64
		}{{"conv1", 600}, {"conv2", 300}, {"fc", 100}} {
			s.Ops = append(s.Ops, trace.OpTime{Segment: segment, Name: "forward", Layer: o.layer, Calls: 1, Total: o.ns})
		}
	}
	v := judge(s, s.Recent)
	if want := "goes first to forward of conv1 (60.0 %), forward of conv2 (30.0 %), forward of fc (10.0 %)"; !strings.HasSuffix(v.all.Costly.Text, want) {
		t.Errorf("%q, want %q", v.all.Costly.Text, want)
	}
	// A segment whose ops were not timed shows the ops of the last segment before it.
	s.Ops = s.Ops[:3]
	if got := costly(s, 1); len(got.Ops) != 3 || got.Ops[0].Layer != "conv1" {
		t.Errorf("%+v", got)
	}
}

// stretches is a session of segments. Each has a number of workers, and steps that compute and wait
// for data for so many ms.
func stretches(of ...[3]int64) *trace.Snapshot {
	s := &trace.Snapshot{Meta: trace.Meta{Specs: []knob.Spec{{Name: "num_workers", Group: "loader"}, {Name: "precision", Group: "engine"}}}}
	var t int64
	for g, o := range of {
		s.Segments = append(s.Segments, trace.Segment{Index: int32(g), Knobs: []knob.Setting{set("num_workers", fmt.Sprint(o[0])), set("precision", "fp32")}})
		for i := range int64(100) {
			jitter := (i*7919%13 - 6) * 2e5 // ±1.2 ms
			st := trace.Step{Index: int32(len(s.Recent)), Segment: int32(g), Samples: 32, Correct: -1, Busy: o[1]*1e6 + jitter}
			st.Stall[trace.CauseDecode] = o[2] * 1e6
			st.Start, st.End = t, t+st.Busy+st.Stall[trace.CauseDecode]
			t = st.End
			s.Recent = append(s.Recent, st)
		}
	}
	return s
}

// TestKeep: no loader setting gets the credit for what the device or the host did by
// itself.
func TestKeep(t *testing.T) {
	for _, c := range []struct {
		name    string
		of      [][3]int64
		segment int32
		says    string
		outcome Outcome // of the last change
	}{
		{"a gain", [][3]int64{{1, 50, 50}, {4, 50, 0}}, 1, "keep segment #1, the fastest that was measured: +100 %", Gain},
		{"a loss", [][3]int64{{1, 50, 10}, {4, 50, 40}}, 0, "keep the baseline's settings", Loss},
		{"the same", [][3]int64{{1, 50, 10}, {4, 50, 10}}, 0, "keep the baseline's settings", NoGain},
		{"the device was slowed down at first", [][3]int64{{1, 100, 1}, {4, 50, 1}}, 0, "the device or the host changed, which is no credit to the loader", Unclear},
		{"slower by itself, and no gain", [][3]int64{{1, 50, 10}, {4, 90, 10}}, 0, "keep the baseline's settings", Unclear},
		{"faster in spite of a slower device", [][3]int64{{1, 50, 100}, {4, 60, 0}}, 1, "keep segment #1", Gain},
		{"the baseline again was as fast", [][3]int64{{1, 50, 50}, {4, 50, 20}, {1, 50, 20}}, 0, "segment #2 has the settings of A and was +", Loss},
	} {
		s := stretches(c.of...)
		v := judge(s, s.Recent)
		if k := v.all.Keep; k.Segment != c.segment || !strings.Contains(k.Text, c.says) || (len(k.Knobs) > 0) != (c.segment > 0) {
			t.Errorf("%s: segment %d, %s", c.name, k.Segment, k.Text)
		}
		if last := v.all.Tried[len(v.all.Tried)-1]; last.Outcome != c.outcome && c.name != "the baseline again was as fast" {
			t.Errorf("%s: outcome %d, want %d: %v", c.name, last.Outcome, c.outcome, &last.Change.Throughput)
		}
	}
	// A segment that is too short for a comparison counts as unknown, not as without a
	// gain.
	short := stretches([3]int64{1, 5, 5}, [3]int64{4, 5, 0})
	if k := judge(short, short.Recent).all.Keep; k.Segment != 0 || len(k.Knobs) > 0 || !k.Open || k.Change.Throughput.Ratio != 0 ||
		k.Text != "num_workers=4 looks faster than the baseline's settings (~+100 %), not proven yet: press A on the screen or give --paired num_workers=4 to let the two take turns (A/B test)" {
		t.Errorf("%+v", k)
	}
	facts(set("torch", "2.15.0"))(short)
	if k := judge(short, short.Recent).all.Keep; !strings.Contains(k.Text, "press A on the screen to let the two") {
		t.Errorf("%+v", k)
	}
	// An A/B test of these settings that ended undecided outranks how they look beside the baseline's.
	turned := stretches([3]int64{1, 5, 5}, [3]int64{4, 5, 0}, [3]int64{1, 5, 5}, [3]int64{4, 5, 0})
	test := trace.Experiment{Kind: trace.Paired, Start: 1, End: 2, First: 3, Last: 3, B: []knob.Setting{set("num_workers", "4")}}
	for i := range int64(8) {
		test.Pairs = append(test.Pairs, trace.Pair{
			A: trace.Block{Steps: 10, Samples: 320, Active: 100e6, Busy: 50e6},
			B: trace.Block{Steps: 10, Samples: 320, Active: (60 + 80*(i%2)) * 1e6, Busy: 50e6},
		})
	}
	for _, c := range []struct {
		end  int64
		says string
	}{{2, "the A/B test of num_workers=4 ended undecided (3,491 against 3,200 samples/s, 8 pairs): a longer one decides"}, {0, "looks faster"}} {
		test.End = c.end
		turned.Experiments = []trace.Experiment{test}
		if k := judge(turned, turned.Recent).all.Keep; !k.Open || !strings.Contains(k.Text, c.says) {
			t.Errorf("%+v does not say %q", k, c.says)
		}
	}
	// So it does where nothing else was tried.
	only := stretches([3]int64{1, 5, 5}, [3]int64{4, 5, 0}, [3]int64{1, 5, 5})
	test.End, test.First, test.Last = 2, 1, 1
	only.Experiments = []trace.Experiment{test}
	if k := judge(only, only.Recent).all.Keep; !strings.HasPrefix(k.Text, "keep the baseline's settings for now: the A/B test of num_workers=4 ended undecided (3,491 against 3,200 samples/s") {
		t.Errorf("%+v", k)
	}
	// And where the run ended with the test.
	last := stretches([3]int64{1, 5, 5}, [3]int64{4, 5, 0})
	last.Experiments = only.Experiments
	if k := judge(last, last.Recent).all.Keep; !strings.HasPrefix(k.Text, "keep the baseline's settings for now: the A/B test of num_workers=4 ended undecided (3,491 against 3,200 samples/s") {
		t.Errorf("%+v", k)
	}
	alike := stretches([3]int64{1, 5, 5}, [3]int64{4, 5, 5})
	if k := judge(alike, alike.Recent).all.Keep; k.Segment != 0 || k.Open || !strings.Contains(k.Text, "can be compared with them yet") {
		t.Errorf("%+v", k)
	}
	// Settings that a tune left in force are still advised, although their gain was so large that
	// no interval was waited for. They are not where the run went on with other settings, or the
	// change was taken back.
	tuned := stretches([3]int64{1, 5, 50}, [3]int64{4, 5, 0}, [3]int64{4, 5, 0})
	tuned.Experiments = []trace.Experiment{{Kind: trace.Tune, First: 1, Last: 1, End: 1, B: []knob.Setting{set("num_workers", "4")}, Kept: true, Decisions: []trace.Decision{
		{Verdict: trace.Confirmed, Before: trace.Block{Steps: 9, Samples: 288, Active: 9 * 55e6}, After: trace.Block{Steps: 9, Samples: 288, Active: 9 * 5e6}},
	}}}
	if k := judge(tuned, tuned.Recent).all.Keep; k.Segment != 2 || !strings.Contains(k.Text, "keep segment #2, whose settings tune found") || !strings.Contains(k.Text, "~x11 throughput") || len(k.Knobs) != 1 {
		t.Errorf("%+v", k)
	}
	tuned.Experiments[0].Kept = false
	if k := judge(tuned, tuned.Recent).all.Keep; k.Segment != 0 {
		t.Errorf("%+v", k)
	}
	// Nobody chose what the watched script changed by itself.
	script := stretches([3]int64{1, 50, 50}, [3]int64{4, 50, 0})
	script.Segments[1].ByScript = true
	if k := judge(script, script.Recent).all.Keep; k.Text != "" || len(k.Knobs) > 0 {
		t.Errorf("%+v", k)
	}
	// A knob of the engine may change the device's time.
	s := stretches([3]int64{1, 100, 1}, [3]int64{1, 50, 1})
	s.Segments[1].Knobs[1].Value = "fp16"
	if k := judge(s, s.Recent).all.Keep; k.Segment != 1 || k.Knobs[0].Name != "precision" {
		t.Errorf("%+v", k)
	}
}

// TestKeepRepeats: workers that each yield a whole data set make epochs longer, which is no gain.
func TestKeepRepeats(t *testing.T) {
	for _, times := range []int32{1, 4} {
		s := stretches([3]int64{1, 50, 50}, [3]int64{4, 50, 0})
		facts(set("torch", "2.15.0"))(s)
		epochOf(times)(s)
		if k := judge(s, s.Recent).all.Keep; (k.Segment == 0) != (times == 4) || strings.Contains(k.Text, "each worker yields all") != (times == 4) {
			t.Errorf("%d times the samples: %+v", times, k)
		}
	}
}

// TestRemarks: what the device or the host did by itself is told beside the row that it concerns,
// and beside no other.
func TestRemarks(t *testing.T) {
	for _, c := range []struct {
		name string
		of   [][3]int64
		says []string
	}{
		{"a gain of the loader's", [][3]int64{{1, 50, 50}, {4, 50, 0}}, []string{"", ""}},
		{"a device that became faster", [][3]int64{{1, 100, 1}, {4, 50, 1}}, []string{"", "the device or the host changed, which is no credit to the loader"}},
		{"a device that became slower", [][3]int64{{1, 50, 1}, {4, 100, 1}}, []string{"", "the device's own time for a sample changed by +100 %"}},
		{"the same again", [][3]int64{{1, 50, 50}, {4, 50, 20}, {1, 50, 50}}, []string{"", "", "as A: equal settings, pooled: 200 steps"}},
		{"the same again, and slower", [][3]int64{{1, 50, 20}, {4, 50, 20}, {1, 50, 50}}, []string{"", "", "the same settings, yet -30.0 % (-30.6 to -29.4 %): no setting made it slower"}},
	} {
		s := stretches(c.of...)
		got := judge(s, s.Recent).all.Remarks
		for i, want := range c.says {
			if len(got) != len(c.of) || !strings.Contains(got[i], want) || want == "" && got[i] != "" {
				t.Errorf("%s: %q", c.name, got)
				break
			}
		}
	}
	// The rates lie apart, because of a drift that was taken out.
	drifting := stretches([3]int64{1, 50, 50}, [3]int64{4, 50, 50})
	var at int64
	for i := range drifting.Recent {
		st := &drifting.Recent[i]
		st.Busy -= int64(i) * 1e5
		at, st.Start, st.End = at+st.Busy+st.Stall[trace.CauseDecode], at, at+st.Busy+st.Stall[trace.CauseDecode]
	}
	if v := judge(drifting, drifting.Recent).all; !strings.HasPrefix(v.Remarks[1], "host drift explains x") {
		t.Errorf("%q", v.Remarks)
	}
	// The row, and the sentence on what to keep, say that A had to read what the other one
	// found in memory.
	for _, c := range []struct {
		name        string
		once, again float64 // bytes/s
		wait        int64
		says        string
	}{
		{"first epoch and later", 40e6, 1e6, 0, "A read ~122 KiB a sample from storage and this ~1.53 KiB: part of the difference may be the page cache"},
		{"both from storage", 40e6, 30e6, 0, ""},
		{"little", 1e6, 0, 0, ""},
		{"no faster", 40e6, 1e6, 60, ""},
	} {
		s := stretches([3]int64{1, 50, 50}, [3]int64{4, 50, c.wait})
		s.Segments[0].End, s.Segments[1].Start, s.Now = s.Recent[99].End, s.Recent[100].Start, s.Recent[199].End
		s.Gauges = map[string][]trace.Point{trace.GaugeDiskOurs: {{T: 1e9, V: c.once}, {T: s.Now - 1e9, V: c.again}}}
		v := judge(s, s.Recent).all
		if !strings.HasPrefix(v.Remarks[1], c.says) || c.says == "" && v.Remarks[1] != "" || strings.Contains(v.Keep.Text, "page cache") != (c.says != "") {
			t.Errorf("%s: %q, %q", c.name, v.Remarks[1], v.Keep.Text)
		}
	}
	// A knob of the engine is reason enough.
	s := stretches([3]int64{1, 100, 1}, [3]int64{1, 50, 1})
	s.Segments[1].Knobs[1].Value = "fp16"
	if got := judge(s, s.Recent).all.Remarks; got[1] != "" {
		t.Errorf("%q", got)
	}
}
