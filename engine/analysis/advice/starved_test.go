package advice

import (
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

// split gives each step of s work in which phase k was split as p.
func split(s *trace.Snapshot, k trace.Kind, p trace.Split) *trace.Snapshot {
	for i := range s.Recent {
		w := &s.Recent[i].Work
		w.Batch = p
		*w.Phases.Of(k) = p
	}
	return s
}

// TestBoundInWords: what a phase is bound by is measured, and not guessed from its name.
func TestBoundInWords(t *testing.T) {
	decoding := map[trace.Cause]int64{trace.CauseDecode: 30}
	for _, c := range []struct {
		name  string
		split trace.Split
		says  string
		queue string
		not   string
	}{
		{"not measured", trace.Split{}, "for decoding; CPU-bound loader", QueueCPU, "which"},
		{"computing", trace.Split{Core: 90, Waiting: 5, Blocked: 5}, "for decoding, which is mostly computing;", QueueCPU, QueueCPU},
		{"starved", trace.Split{Core: 50, Waiting: 40, Blocked: 10}, "for decoding, which is CPU-starved;", QueueCores, QueueCores},
		{"blocked", trace.Split{Core: 10, Blocked: 90}, "for decoding, which mostly waits for storage, a lock or a timer;", QueueIO, QueueIO},
	} {
		s := split(uniform(20, decoding, set("num_workers", "2")), trace.KindDecode, c.split)
		v := judge(s, s.Recent)
		if !strings.Contains(v.Text, c.says) || strings.Contains(v.Text, c.not) || v.Queue != c.queue {
			t.Errorf("%s: queue %q, %q", c.name, v.Queue, v.Text)
		}
	}
	// A cause that is no phase is bound by nothing; only the loader is.
	s := split(uniform(20, map[trace.Cause]int64{trace.CauseWorkers: 30}, set("num_workers", "2")), trace.KindDecode, trace.Split{Core: 50, Waiting: 40})
	if v := judge(s, s.Recent); !strings.Contains(v.Text, "for a free worker; loader CPU-starved;") {
		t.Errorf("no worker is free: %q", v.Text)
	}
}

// TestSpinning: threads may spin while they wait for one that has no core. Then the cost is
// higher than the time without a core, by an unknown amount.
func TestSpinning(t *testing.T) {
	for _, c := range []struct {
		threads, policy string
		says            string
		gain            bool
	}{
		{"2", "", "compute runs at least 2.0x slower", false},
		{"2", "passive", "compute runs 2.0x slower", true},
		{"1", "", "compute runs 2.0x slower", true},
	} {
		s := uniform(20, nil, set("num_workers", "1"))
		together(onTorch(c.threads), facts(set(trace.TorchWaitPolicy, c.policy)), cpuDevice, gauges(50, 49, 50), gauge(trace.GaugeStarved, 50))(s)
		a := Of(s, trace.Count(s.Recent), nil)
		if f := a.First(); !strings.Contains(a.Verdict.Text, c.says) || (f.Gain() != "") != c.gain {
			t.Errorf("%s threads, %q: %q, gain %q", c.threads, c.policy, a.Verdict.Text, f.Gain())
		}
	}
}

// TestStarvedDevice: a device whose threads have no core is busy, but the run is not device-bound.
func TestStarvedDevice(t *testing.T) {
	gauge := func(s *trace.Snapshot, name string, v float64) {
		s.Gauges[name] = []trace.Point{{T: 100, V: v}, {T: 1500, V: v}}
	}
	for _, c := range []struct {
		name     string
		stalls   map[trace.Cause]int64
		starved  float64 // percent
		others   float64
		class    string
		says, do string
	}{
		{"cores for all", nil, 2, 0, DeviceBound, "waits for no data; 20 steps", "the loader keeps up"},
		{"hardly starved", nil, 10, 0, DeviceBound, "waits for no data; CPU contention: compute runs 1.1x slower, as its threads wait for a core 10.0 % of its time; 20 steps", "the loader keeps up"},
		{"starved by neighbours", nil, 67, 75, "host-bound", "the device is busy 100 % of the time; CPU contention: compute runs 3.0x slower, as its threads wait for a core 67.0 % of its time; other processes use ~3.0 of the 4 cores", "stop the other processes"},
		{"starved by ourselves", nil, 50, 0, "host-bound", "compute runs 2.0x slower", "a host with more cores"},
		{"little lost to data", map[trace.Cause]int64{trace.CauseWorkers: 8}, 80, 75, "host-bound", "compute runs 5.0x slower", "stop the other processes"},
		{"more lost to data", map[trace.Cause]int64{trace.CauseRead: 60}, 40, 0, "input-bound", "compute runs 1.7x slower", "loader settings won't help"},
		{"data on a crowded host", map[trace.Cause]int64{trace.CauseRead: 35}, 80, 75, "input-bound", "the device waits for data 35.0 % of the time, nearly all of it for reading; CPU contention: compute runs 5.0x slower, as its threads wait for a core 80.0 % of its time; other processes use ~3.0 of the 4 cores", ""},
		{"as much, by ourselves", map[trace.Cause]int64{trace.CauseRead: 35}, 80, 0, "host-bound", "compute runs 5.0x slower", ""},
		{"late threads", map[trace.Cause]int64{trace.CauseHost: 12}, 0, 0, "host-bound", "the device waits for a thread of the host that has no core 12.0 % of the time; 20 steps", "a host with more cores"},
	} {
		s := uniform(20, c.stalls, set("num_workers", "1"))
		s.Gauges = map[string][]trace.Point{}
		gauge(s, trace.GaugeStarved, c.starved)
		gauge(s, trace.GaugeCPUOthers, c.others)
		gauge(s, trace.GaugeCPUOurs, 100-c.others)
		v := judge(s, s.Recent)
		if v.Class != c.class || !strings.Contains(v.Text, c.says) || !strings.Contains(v.Advice, c.do) {
			t.Errorf("%s: %q, %q", c.name, v.Text, v.Advice)
		}
	}
}

// TestAsleep: a step that sleeps lacks no core meanwhile. So what is told is the wait for data, where there is one.
func TestAsleep(t *testing.T) {
	for data, class := range map[int64]string{2: ScriptBound, 18: "moderately input-bound", 24: "input-bound"} {
		s := uniform(60, map[trace.Cause]int64{trace.CauseFetch: data}, set("num_workers", "1"))
		together(onTorch("1"), cpuDevice, gauges(50, 48, 40), gauge(trace.GaugeStarved, 40), did(trace.Rank{Wait: data, Body: 100 - data, Backward: 20, Core: 20}))(s)
		slow(s)
		if v := judge(s, s.Recent); v.Class != class {
			t.Errorf("%d %% of the time lost to data: %q", data, v.Text)
		}
	}
}
