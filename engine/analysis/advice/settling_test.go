package advice

import (
	"math/rand/v2"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// epochsOf returns a session with one epoch for each of waits. An epoch has so many steps of 50
// ms on the device. Each step waits for data for so many ms, give or take a fifth.
func epochsOf(steps int, waits ...int64) *trace.Snapshot {
	s := uniform(steps*len(waits), nil, set("num_workers", "0"), set("batch_size", "32"))
	r := rand.New(rand.NewPCG(1, 2))
	var at int64
	for i := range s.Recent {
		st := &s.Recent[i]
		wait := int64(float64(waits[i/steps]*1e6) * (0.8 + 0.4*r.Float64()))
		*st = trace.Step{Index: st.Index, Samples: 32, Correct: -1, Start: at, End: at + 50e6 + wait, Busy: 50e6, Wait: wait, Load: wait + 1e6}
		st.Stall[trace.CauseFetch] = wait
		at = st.End
	}
	passes(steps)(s)
	for i := 0; i < len(s.Recent); i += steps {
		s.Recent[i].Flags |= trace.FlagFirstOfEpoch
	}
	return s
}

// alternating returns n waits that take turns.
func alternating(n int, waits ...int64) (out []int64) {
	for i := range n {
		out = append(out, waits[i%len(waits)])
	}
	return out
}

// TestFirstEpochs: the advice rests on the later epochs, and an aside says how the first ones went.
func TestFirstEpochs(t *testing.T) {
	changed := func(s *trace.Snapshot) { // after the first epoch
		s.Segments = append(s.Segments, trace.Segment{Index: 1, FirstStep: 80, Start: s.Recent[80].Start, Knobs: []knob.Setting{set("num_workers", "4"), set("batch_size", "32")}})
		for i := range s.Recent[80:] {
			s.Recent[80+i].Segment = 1
		}
	}
	for _, c := range []struct {
		name    string
		s       *trace.Snapshot
		mod     func(*trace.Snapshot)
		class   string
		verdict string // it ends so
		says    string // the aside begins so
		cache   bool   // and speaks of what was kept
	}{
		{"slow first", epochsOf(80, 200, 1, 1), nil, DeviceBound, "159 steps of epochs 2 and 3", "epoch 1 waited for data in 80.5 % of its time, epochs 2 and 3 in 2.0 %", true},
		{"slow first from storage", epochsOf(80, 200, 1, 1), gaugeUntil(trace.GaugeDiskOurs, 10, 100e6), DeviceBound, "159 steps of epochs 2 and 3", "epoch 1 waited for data in 80.5 % of its time", true},
		{"slow first, still input-bound", epochsOf(80, 200, 50), nil, "input-bound", "79 steps of epoch 2", "epoch 1 waited for data in 80.5 % of its time, epoch 2 in 50.1 %", true},
		{"filled bit by bit", epochsOf(80, 200, 100, 40, 1, 1), nil, DeviceBound, "159 steps of epochs 4 and 5", "epochs 1 to 3 waited for data in 69.8 % of their time, epochs 4 and 5 in 2.0 %", true},
		{"in a long run", epochsOf(80, alternating(60, append([]int64{400}, alternating(59, 1)...)...)...), nil, DeviceBound, "steps of epochs 2 to 60", "epoch 1 waited for data in 89.2 %", true},
		{"others had the cores", epochsOf(80, 200, 1, 1), func(s *trace.Snapshot) {
			for i := range s.Recent {
				st := &s.Recent[i]
				st.Work.Batch = trace.Split{Core: 1e6, Waiting: st.Load - 1e6}
			}
		}, DeviceBound, "159 steps of epochs 2 and 3", "epoch 1 waited for data in 80.5 % of its time, epochs 2 and 3 in 2.0 %", false},
		{"fast first", epochsOf(80, 1, 200, 200), nil, "input-bound", "159 steps of epochs 2 and 3", "epoch 1 waited for data in 2.0 % of its time, epochs 2 and 3 in 80.1 %", false},
		{"slow last", epochsOf(80, 1, 1, 1, 200), nil, "input-bound", " 319 steps", "", false},
		{"slow first, the second a little", epochsOf(80, 200, 15, 10), nil, "input-bound", "159 steps of epochs 2 and 3", "epoch 1 waited for data in 80.5 % of its time, epochs 2 and 3 in 20", true},
		{"slow in between", epochsOf(80, 1, 200, 1), nil, "input-bound", " 239 steps", "", false},
		{"noise", epochsOf(80, 50, 52, 48, 51), nil, "input-bound", " 319 steps", "", false},
		{"noise of whole epochs", epochsOf(80, alternating(20, 60, 40, 20, 80, 50)...), nil, "input-bound", " 1,599 steps", "", false},
		{"one epoch", epochsOf(80, 200), nil, "input-bound", " 79 steps", "", false},
		{"a third epoch has begun", epochsOf(80, 200, 1, 200), func(s *trace.Snapshot) { s.Recent = s.Recent[:165] }, "moderately input-bound", "84 steps of epochs 2 and 3", "epoch 1 waited for data in 80.5 % of its time, epoch 2 in 2", true},
		{"a second epoch has begun", epochsOf(80, 200, 1), func(s *trace.Snapshot) { s.Recent = s.Recent[:90] }, "input-bound", " 89 steps", "", false},
		{"short epochs", epochsOf(8, 200, 1, 1), nil, "input-bound", " 23 steps", "", false},
		{"changed settings", epochsOf(80, 200, 1, 1), changed, DeviceBound, " 159 steps", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.mod != nil {
				c.mod(c.s)
			}
			a := judge(c.s, c.s.Recent).all
			if a.Verdict.Class != c.class || !strings.HasSuffix(a.Verdict.Text, c.verdict) {
				t.Errorf("verdict %q, want %s ... %s", a.Verdict.Text, c.class, c.verdict)
			}
			var says string
			for _, f := range a.Asides {
				if f.Rule == "first epochs" {
					says = f.Evidence
				}
			}
			if (says == "") != (c.says == "") || !strings.HasPrefix(says, c.says) || contains(says, "cache") != c.cache {
				t.Errorf("it says %q, want %q (cache %v)", says, c.says, c.cache)
			}
			if says != "" && a.Model != nil && c.class == DeviceBound && a.First().Knob == "num_workers" {
				t.Errorf("it advises on the first epoch: %s", a.Text())
			}
		})
	}
}

// TestSettledWindow: a window of the newest steps is judged as it is, and the aside stays.
func TestSettledWindow(t *testing.T) {
	s := epochsOf(80, 200, 1, 1)
	s.Digest = *trace.Digested(s.Recent)
	a := Of(s, trace.Count(s.Recent[200:]), attribution.Segments(s))
	if a.Verdict.Steps != 40 || contains(a.Verdict.Text, "epoch") {
		t.Errorf("the verdict on a window: %s", a.Verdict.Text)
	}
	if len(a.Asides) == 0 || contains(a.Asides[0].Evidence, "on which the advice rests") {
		t.Errorf("beside it: %+v", a.Asides)
	}
}
