package advice

import (
	"strings"

	"dev.gpustall/engine/trace"
)

var dataCases = []ruleCase{
	{"thrashing", true, wait(trace.CauseRead), "num_workers=64", together(passes(20), gauge(trace.GaugeDiskOurs, 100e6)), "", "an epoch still reads ~191 MiB from storage where the first read ~191 MiB"},
	{"thrashing", false, wait(trace.CauseRead), "num_workers=64", together(passes(20), gaugeUntil(trace.GaugeDiskOurs, 20, 100e6)), "", "on faster storage or into larger files"},
	{"thrashing", false, nil, "num_workers=64", together(passes(20), gauge(trace.GaugeDiskOurs, 100e6)), "", "the loader keeps up"},
	{"small files", true, wait(trace.CauseRead), "num_workers=64", together(folder, gauge(trace.GaugeDiskOurs, 3.2e6)), "", "~9.77 KiB of it come from storage, 3.20 MB/s in all"},
	{"small files", false, wait(trace.CauseRead), "num_workers=64", gauge(trace.GaugeDiskOurs, 3.2e6), "", "on faster storage or into larger files"},
	{"small files", false, wait(trace.CauseRead), "num_workers=64", together(folder, gauge(trace.GaugeDiskOurs, 320e6)), "", "on faster storage or into larger files"},
	{"slow worker", true, wait(trace.CauseDecode), "num_workers=4 prefetch_factor=16", together(builtBy(3), gauges(50, 1, 1), after("num_workers", "2", "4", 1)), "", "w3 takes 450 ms for a batch, the others 150 ms"},
	{"slow worker", false, wait(trace.CauseDecode), "num_workers=4 prefetch_factor=16", together(builtBy(1), gauges(50, 1, 1), after("num_workers", "2", "4", 1)), "", "alike in cost"},
	{"slow samples", true, nil, "num_workers=4", slowest(1234, 1234, 1234), "", "1 sample is each time far slower than others: sample 1,234 takes 60.0 ms in decode, where the slowest of a batch usually takes 2.00 ms"},
	{"slow samples", false, nil, "num_workers=4", slowest(1234, 1235, 1236), "", "the loader keeps up"},
	{"slow samples", false, nil, "num_workers=4", func(s *trace.Snapshot) { slowest(1234, 1234, 1234)(s); starve(s) }, "", "the loader keeps up"},
	{"slow samples", false, nil, "num_workers=4", together(slowest(1234, 1234, 1234), oneIsSlow), "", "the loader keeps up"},
	{"slow samples", false, nil, "num_workers=4", together(slowest(1234, 1234, 1234), slowIsFirst), "", "the loader keeps up"},
}

// passes makes epochs of n equal steps.
func passes(n int) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		for i := range s.Recent {
			st := &s.Recent[i]
			st.Epoch = int32(i / n)
			if i%n == n-1 {
				st.Flags |= trace.FlagLastOfEpoch
			}
		}
	}
}

func folder(s *trace.Snapshot) { s.Meta.Format = "imagefolder" }

// builtBy makes four workers take turns; the last one takes so many times as long.
func builtBy(times int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		for i := range s.Recent {
			s.Recent[i].Built.Worker = trace.Worker(i % 4)
			if i%4 == 3 {
				s.Recent[i].Load *= times
			}
		}
	}
}

// slowest makes these samples take 60 ms, one of them every twentieth step, while the device waits.
// The slowest sample of any other batch takes 2 ms.
func slowest(samples ...int32) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Now = 1 << 62
		for i := range s.Recent {
			st := &s.Recent[i]
			st.Built = trace.Built{Worker: trace.Worker(0), Slowest: trace.Piece{Sample: int32(i), Kind: trace.KindDecode, Took: 2e6}}
			if i%20 == 7 {
				st.Built.Slowest.Sample, st.Built.Slowest.Took = samples[i/20], 60e6
				st.Busy, st.Stall[trace.CauseDecode] = st.Busy-40, 40
			}
		}
	}
}

// oneIsSlow keeps only the first slow sample slow.
func oneIsSlow(s *trace.Snapshot) {
	n := 0
	for i := range s.Recent {
		if p := &s.Recent[i].Built.Slowest; p.Took > 10e6 {
			if n++; n > 1 {
				p.Took = 3e6
			}
		}
	}
}

// slowIsFirst begins an epoch with each slow sample.
func slowIsFirst(s *trace.Snapshot) {
	epoch := int32(0)
	for i := range s.Recent {
		if s.Recent[i].Built.Slowest.Took > 10e6 {
			epoch++
		}
		s.Recent[i].Epoch = epoch
	}
}

// starve makes the slowness a wait for a core.
func starve(s *trace.Snapshot) {
	for i := range s.Recent {
		if p := &s.Recent[i].Built.Slowest; p.Took > 10e6 {
			p.Split = trace.Split{Core: 2e6, Waiting: p.Took - 2e6}
		}
	}
}

func contains(s, part string) bool { return strings.Contains(s, part) }
