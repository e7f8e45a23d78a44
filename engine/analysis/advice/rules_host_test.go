package advice

import (
	"testing"

	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/trace"
)

var hostCases = []ruleCase{
	{"quota", true, wait(trace.CauseDecode), "num_workers=4", together(load(8), gauges(50, 1, 50), gauge(trace.GaugeThrottled, 40)), "", "the quota ran out in 40.0 % of its periods; the cgroup allows"},
	{"quota", false, wait(trace.CauseDecode), "num_workers=4", load(20), "", "a host with more cores"},
	{"quota", false, nil, "num_workers=4", together(gauges(50, 1, 1), gauge(trace.GaugeThrottled, 40)), "", "the loader keeps up"},
	{"swap", true, nil, "num_workers=1", together(gauge(trace.GaugeMajorFaults, 200), gauge(trace.GaugePressureMemory, 30)), "", "200 pages a second had to come back from a disk, and tasks waited for memory 30.0 % of the time"},
	{"swap", false, nil, "num_workers=1", gauge(trace.GaugeMajorFaults, 200), "", "the loader keeps up"},
	{"swap", false, nil, "num_workers=1", together(gauge(trace.GaugeMajorFaults, 2), gauge(trace.GaugePressureMemory, 30)), "", "the loader keeps up"},
	{"memory limit", true, nil, "num_workers=1", gauge(trace.GaugeHostMemory, 97), "", "97.0 % of the memory that this process may have"},
	{"memory limit", false, nil, "num_workers=1", gauge(trace.GaugeHostMemory, 90), "", "the loader keeps up"},
	{"memory limit", false, nil, "num_workers=1", together(gauge(trace.GaugeHostMemory, 97), gauge(trace.GaugeMajorFaults, 200), gauge(trace.GaugePressureMemory, 30)), "", "come back from a disk"},
	{"hot", true, nil, "num_workers=1", together(gauge(trace.GaugeHot, 100), gauge("nvml_temperature", 91)), "", "because of heat in 100 % of the samples, at 91 degrees C"},
	{"hot", false, nil, "num_workers=1", together(gauge(trace.GaugeHot, 0), gauge("nvml_temperature", 80)), "", "the loader keeps up"},
}

// gauge gives a gauge of the session the value v over all of it.
func gauge(name string, v float64) func(*trace.Snapshot) { return gaugeUntil(name, 100, v) }

// gaugeUntil makes a gauge v until so many tenths of a second, and 0 from then on.
func gaugeUntil(name string, tenths int64, v float64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		if s.Gauges == nil {
			s.Gauges = map[string][]trace.Point{}
		}
		if name == trace.GaugeThrottled {
			s.Meta.Host = append(s.Meta.Host, set(trace.CPUQuota, "the cgroup allows the time of 2 cores"))
		}
		for t := range int64(100) {
			if t >= tenths {
				v = 0
			}
			s.Gauges[name] = append(s.Gauges[name], trace.Point{T: t * 1e8, V: v})
		}
	}
}

// ranks makes the training one of two ranks, which wait for data in these percentages of their
// time.
func ranks(first, second float64) func(*trace.Snapshot) {
	return together(gauge("rank_0_steps", 60), gauge("rank_0_wait_ns", 1e8*first), gauge("rank_0_time_ns", 100e8),
		gauge("rank_1_steps", 60), gauge("rank_1_wait_ns", 1e8*second), gauge("rank_1_time_ns", 100e8))
}

// TestAsides: asides stand beside the advice and never replace it.
func TestAsides(t *testing.T) {
	seen := map[string][2]bool{}
	for _, c := range []struct {
		rule  string
		fires bool
		mod   func(*trace.Snapshot)
		says  string
	}{
		{"earlier runs", true, past(3, 500, 480, 520), "36.0 % slower than the median of the last 3 runs of this training (480 to 520 samples/s)"},
		{"earlier runs", true, past(1, 200, 200, 200), "60.0 % faster than the last run of this training (200 samples/s)"},
		{"earlier runs", true, together(past(1, 200, 200, 200), gauge(trace.GaugePastOthers, 85), gauge(trace.GaugeCPUOthers, 10)), "60.0 % faster than the last run of this training (200 samples/s), when other processes used 85.0 % of the cores, against 10.0 % in this one"},
		{"earlier runs", true, together(past(1, 200, 200, 200), gauge(trace.GaugePastOthers, 15), gauge(trace.GaugeCPUOthers, 10)), "60.0 % faster than the last run of this training (200 samples/s)"},
		{"earlier runs", false, past(3, 330, 300, 340), ""},
		{"earlier runs", false, past(3, 323, 322, 330), ""},
		{"earlier runs", false, together(past(3, 500, 480, 520), flag(trace.FlagInjected)), ""},
		{"first epochs", true, waits(200, 1, 1), "epoch 1 waited for data in 80.5 % of its time, epochs 2 and 3 in 2.0 %"},
		{"first epochs", false, waits(2, 1, 1), ""},
		{"cold cache", true, together(reads(20), gauge(trace.GaugeDiskOurs, 100e6)), "this is the first epoch, and ~572 MiB of it came from storage"},
		{"cold cache", false, together(reads(2), gauge(trace.GaugeDiskOurs, 100e6)), ""},
		{"cold cache", true, together(reads(20), passes(20), gaugeUntil(trace.GaugeDiskOurs, 20, 100e6)), "the first epoch read ~182 MiB from storage, and the newest ~0 B"},
		{"cold cache", false, together(passes(20), gaugeUntil(trace.GaugeDiskOurs, 20, 100e6)), ""},
		{"cold cache", false, together(reads(20), passes(20), gauge(trace.GaugeDiskOurs, 100e6)), ""},
		{"cold cache", false, gauge(trace.GaugeDiskOurs, 1e6), ""},
		{"first step", true, firstTakes(5000), "the first step took 5.00 s, where 100 ms are usual: start-up and compilation;"},
		{"first step", true, together(firstTakes(5000), func(s *trace.Snapshot) {
			s.Recent[0].Busy, s.Recent[0].Stall[trace.CauseRead] = 100, 4900
		}), "the first step took 5.00 s, where 100 ms are usual: 4.90 s of it until the first batch was there"},
		{"first step", false, firstTakes(300), ""},
		{"trace without steps", true, profiled(trace.Profile{Steps: []trace.ProfiledStep{{Name: trace.WholeTrace}}}), "the trace has no steps"},
		{"trace without steps", false, profiled(trace.Profile{Steps: []trace.ProfiledStep{{Name: "ProfilerStep#3"}}}), ""},
		{"trace of the host", true, profiled(trace.Profile{}), "nothing ran on a GPU in this trace"},
		{"trace of the host", true, profiled(trace.Profile{Total: trace.ProfiledStep{Roles: [trace.NumRoles]int64{trace.RoleRuntime: 5}}}), "the trace has calls of a device's runtime"},
		{"trace of the host", false, profiled(trace.Profile{GPUs: []trace.ProfiledGPU{{Utilisation: 1}}}), ""},
		{"trace that lacks work", true, profiled(trace.Profile{Blind: 6, Total: trace.ProfiledStep{Length: 100}}), "for 6.0 % of the time the host waits for a GPU"},
		{"trace that lacks work", false, profiled(trace.Profile{Blind: 4, Total: trace.ProfiledStep{Length: 100}}), ""},
		{"power limit", true, together(gauge(trace.GaugePowerCapped, 100), gauge("nvml_power", 700)), "the GPU is at its power limit in 100 % of the samples (700 W), which lowers its clock"},
		{"power limit", false, gauge(trace.GaugePowerCapped, 10), ""},
		{"kept batches", true, together(onTorch("1"), left), "the loop took batches from a DataLoader before, and takes none from it now: those that a script keeps"},
		{"kept batches", false, onTorch("1"), ""},
		{"other machines", true, facts(set("ranks", "8"), set("ranks here", "2")), "6 of the 8 ranks are on other machines and not in this session"},
		{"other machines", false, facts(set("ranks", "8"), set("ranks here", "8")), ""},
		{"other machines", false, facts(set("ranks", "8")), ""},
		{"samples repeated before", true, together(onTorch("1"), workers("2"), after("num_workers", "4", "2", 1), epochOf(1), func(s *trace.Snapshot) {
			for i := range 60 {
				s.Recent[i].Samples *= 2
			}
		}), "with 4 workers an epoch had"},
		{"samples repeated before", false, together(onTorch("1"), workers("2"), after("num_workers", "4", "2", 1), epochOf(1)), ""},
	} {
		s := uniform(60, nil, set("num_workers", "1"), set("batch_size", "32"))
		c.mod(s)
		slow(s)
		a := judge(s, s.Recent).all
		var says string
		for _, f := range a.Asides {
			if f.Rule == c.rule {
				says = f.Evidence
			}
		}
		if (says != "") != c.fires || len(says) < len(c.says) || says[:len(c.says)] != c.says {
			t.Errorf("%s: %q, want %q", c.rule, says, c.says)
		}
		for _, f := range a.Findings {
			if f.Rule == c.rule {
				t.Errorf("%s: it is advice as well: %+v", c.rule, f)
			}
		}
		both := seen[c.rule]
		both[map[bool]int{false: 0, true: 1}[c.fires]] = true
		seen[c.rule] = both
	}
	for _, r := range asides {
		if seen[r.Name] != [2]bool{true, true} {
			t.Errorf("%q has no case in which it is told and one in which it is not", r.Name)
		}
	}
}

// waits makes epochs of 80 steps. Each epoch waits for data for so many ms a step.
func waits(each ...int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) { *s = *epochsOf(80, each...) }
}

// reads makes each step wait for reads for so many percent of its time.
func reads(percent int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		for i := range s.Recent {
			s.Recent[i].Busy, s.Recent[i].Stall[trace.CauseRead] = 100-percent, percent
		}
	}
}

// past sets what earlier runs reached. This run makes 320 samples/s.
func past(runs int, median, low, high float64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		p := Past{Runs: float64(runs), Median: median, Low: low, High: high}
		s.Gauges = map[string][]trace.Point{}
		for _, g := range p.gauges() {
			s.Gauges[g.name] = []trace.Point{{T: 1, V: *g.value}}
		}
	}
}

// firstTakes makes the first step, which no rate counts, take so many ns.
func firstTakes(ns int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Recent[0].Flags |= trace.FlagFirstOfEpoch
		s.Recent[0].Busy += ns - 100
		for i := range s.Recent {
			s.Recent[i].End += ns - 100
			if i > 0 {
				s.Recent[i].Start += ns - 100
			}
		}
	}
}

// TestCost: the verdict says what idleness costs where a rate was given.
func TestCost(t *testing.T) {
	s := uniform(60, map[trace.Cause]int64{trace.CauseDecode: 36, trace.CauseLaunch: 4}, set("num_workers", "1"))
	if v := judge(s, s.Recent); contains(v.Text, "$") {
		t.Errorf("without a rate: %s", v.Text)
	}
	s.Meta.GPURate = 2.5
	if v := judge(s, s.Recent); !contains(v.Text, "$0.90 of each hour is spent waiting for data, $1.00 on an idle device in all") {
		t.Errorf("with a rate: %s", v.Text)
	}
}

// workers sets num_workers.
func workers(n string) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) { s.Segments[0].Knobs[0].Value = n }
}

// TestRisky: while others take the cores, no number of workers is advised that likely costs, and nothing of which little is known
// and which may cost: fewer workers anything, anything else more than it likely gains, or half of that where others have all.
func TestRisky(t *testing.T) {
	for _, c := range []struct {
		lo, likely, hi, others float64
		want                   bool
	}{
		{0.64, 0.82, 1.05, 0.6, true}, {0.64, 0.82, 1.05, 0, false}, {0.9, 1.12, 1.3, 0.6, true}, {0.9, 1.12, 1.3, 0, false}, {0.7, 1.2, 1.8, 0.6, true}, {0.7, 1.2, 1.8, 0, false}, {0.7, 1.4, 1.8, 0.99, true},
		{0.79, 1.07, 1.47, 0.6, true}, {0.94, 1.01, 1.04, 0.6, false}, {0.96, 0.99, 1.02, 0.6, false}, {1.1, 1.5, 3, 0.6, false},
	} {
		f := Finding{Knob: "num_workers", From: "4", Value: "2", Predicted: trace.Prediction{Base: 100, Lo: 100 * c.lo, Rate: 100 * c.likely, Hi: 100 * c.hi, Others: c.others}}
		if got := risky(&f, true); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		if predict.Vague(f.Predicted) && c.others > 0 && !risky(&f, false) {
			t.Errorf("%+v: fewer workers get less of the cores", c)
		}
		cost := 1 - c.lo
		if c.others > 0.97 {
			cost *= 2
		}
		if f.Value = "8"; risky(&f, false) != (c.want && c.likely-1 < cost) {
			t.Errorf("%+v: more workers get no less of the cores", c)
		}
		if little := c.likely < 1.1 && c.likely-1 < cost; risky(&f, true) != (c.want && little) {
			t.Errorf("%+v: more workers of a group with a part of its own, which likely gain little: %v", c, little)
		}
		if f.Knob = "persistent_workers"; risky(&f, false) != predict.MayCost(f.Predicted) && c.others > 0 {
			t.Errorf("%+v: another knob is risky: %v", c, risky(&f, false))
		}
	}
}
