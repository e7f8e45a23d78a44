package advice

import "dev.gpustall/engine/trace"

var timeCases = []ruleCase{
	{"long tail", true, nil, "num_workers=1", takes(func(i int64) int64 { return 100 + 250*b2i(i%10 == 5) }), "", "6 of 60 steps took more than twice the median of 100 ms, the longest 350 ms; in them the device itself computed longer"},
	{"long tail", false, nil, "num_workers=1", takes(func(i int64) int64 { return 100 + 50*b2i(i%10 == 5) }), "", "the loader keeps up"},
	{"long tail", false, wait(trace.CauseDecode), "num_workers=1", takes(func(i int64) int64 { return 100 + 250*b2i(i%10 == 5) }), "num_workers 4", ""},
	{"drift", true, nil, "num_workers=1", takes(func(i int64) int64 { return 1000 + 20*i }), "", "at the start of these settings"},
	{"drift", false, nil, "num_workers=1", takes(func(i int64) int64 { return 1000 + 500*(i%2) }), "", "the loader keeps up"},
	{"drift", false, nil, "num_workers=1", together(takes(func(i int64) int64 { return 1000 + 20*i }), onCPU), "", "the loader keeps up"},
	{"low utilisation", true, many(4), "num_workers=1", nil, "", "the device computes 76.0 % of the time, and waits for many reasons: 4.0 % data, 4.0 % host"},
	{"low utilisation", false, many(3), "num_workers=1", nil, "", "the loader keeps up"},
}

// takes makes step i last so many ns. The device computes for all of it except the
// stalls.
func takes(ns func(i int64) int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		at := int64(0)
		for i := range s.Recent {
			st := &s.Recent[i]
			idle := 100 - st.Busy
			st.Busy = ns(int64(i)) - idle
			st.Start, st.End = at, at+ns(int64(i))
			st.Load = 3 * st.Busy
			at = st.End
		}
	}
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func onCPU(s *trace.Snapshot) { s.Meta.DeviceKind = "cpu" }

// many returns a wait of so many ns for each of six reasons.
func many(ns int64) map[trace.Cause]int64 {
	return map[trace.Cause]int64{trace.CauseDecode: ns, trace.CauseHost: ns, trace.CauseCopy: ns, trace.CauseLaunch: ns, trace.CauseSync: ns, trace.CauseUnknown: ns}
}
