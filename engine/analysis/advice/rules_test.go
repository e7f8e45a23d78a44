package advice

import (
	"math"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// ruleCase is a situation in which a rule leads, or a similar one in which it must not apply.
type ruleCase struct {
	rule   string
	fires  bool
	stalls map[trace.Cause]int64 // of 100 ns a step
	knobs  string                // "num_workers=2 pin_memory=off"
	mod    func(*trace.Snapshot)
	knob   string // "num_workers 4"
	says   string
}

// ruleCases are those of the knobs.
var ruleCases = []ruleCase{
	{"ceiling", true, nil, "num_workers=1 ceiling=on", flag(trace.FlagCeiling), "", "turn ceiling off"},
	{"ceiling", false, nil, "num_workers=1 ceiling=off", nil, "", "the loader keeps up"},
	{"unknown workers", true, wait(trace.CauseDecode), "", nil, "num_workers ", "not known"},
	{"unknown workers", true, wait(trace.CauseDecode), "", func(s *trace.Snapshot) { s.Meta.Imported = "trace.json" }, "num_workers ", "DataLoader"},
	{"unknown workers", true, wait(trace.CauseDataLoader), "", profiled(trace.Profile{Loader: trace.InlineLoader}), "num_workers ", "_SingleProcessDataLoaderIter"},
	{"unknown workers", true, map[trace.Cause]int64{trace.CauseDataLoader: 6}, "", profiled(trace.Profile{Loader: "_MultiProcessingDataLoaderIter"}), "num_workers ", "does not tell"},
	{"unknown workers", false, map[trace.Cause]int64{trace.CauseDataLoader: 4}, "", profiled(trace.Profile{Loader: trace.InlineLoader}), "", ""},
	{"communicate less", true, map[trace.Cause]int64{trace.CauseCommunication: 11}, "", profiled(trace.Profile{}), "", "look first who comes late, in the traces of all ranks"},
	{"communicate less", true, map[trace.Cause]int64{trace.CauseCommunication: 11}, "", profiled(trace.Profile{GPUs: []trace.ProfiledGPU{{Utilisation: 0.9}}}), "", "not hidden behind kernels, and who comes early"},
	{"communicate less", true, map[trace.Cause]int64{trace.CauseCommunication: 11}, "", profiled(trace.Profile{GPUs: []trace.ProfiledGPU{{Utilisation: 0.9, Talked: 40, Exposed: 10}}}), "", "kernels that compute hide 75.0 % of the communication"},
	{"communicate less", false, map[trace.Cause]int64{trace.CauseCommunication: 10}, "", profiled(trace.Profile{}), "", ""},
	{"own loading", true, map[trace.Cause]int64{trace.CauseLaunch: 40}, "", profiled(trace.Profile{Own: trace.ProfiledRange{Name: "load_batch", Share: 0.3}}), "", "the range load_batch, by its name the loop's own loading, takes 30.0 % of the time"},
	{"own loading", false, map[trace.Cause]int64{trace.CauseLaunch: 40}, "", profiled(trace.Profile{Own: trace.ProfiledRange{Name: "load_batch", Share: 0.04}}), "", "enqueue less"},
	{"launch less", true, map[trace.Cause]int64{trace.CauseLaunch: 40}, "", profiled(trace.Profile{Own: trace.ProfiledRange{Name: "load_batch", Share: 0.1}}), "", "enqueue less"},
	{"launch less", false, map[trace.Cause]int64{trace.CauseLaunch: 40}, "", profiled(trace.Profile{Own: trace.ProfiledRange{Name: "load_batch", Share: 0.3}}), "", "load ahead of the loop"},
	{"copies that wait", true, wait(trace.CauseSync), "", profiled(trace.Profile{Sends: 40, Total: trace.ProfiledStep{Length: 100}}), "", "without a wait: from page-locked memory"},
	{"copies that wait", false, wait(trace.CauseSync), "", profiled(trace.Profile{Sends: 4, Total: trace.ProfiledStep{Length: 100}}), "", ".item(), .cpu()"},
	{"sync less", false, wait(trace.CauseSync), "", profiled(trace.Profile{Sends: 48, Total: trace.ProfiledStep{Length: 100}}), "", "non_blocking"},
	{"sync less", false, wait(trace.CauseSync), "", profiled(trace.Profile{Sends: 48, Total: trace.ProfiledStep{Length: 100}}), "", ""},
	{"allocate less", true, wait(trace.CauseMemory), "", profiled(trace.Profile{}), "", "expandable_segments"},
	{"allocate less", false, map[trace.Cause]int64{trace.CauseMemory: 4}, "", profiled(trace.Profile{}), "", ""},
	{"record later", true, wait(trace.CauseInit), "", profiled(trace.Profile{}), "", "schedule(wait=5"},
	{"record later", false, map[trace.Cause]int64{trace.CauseInit: 4}, "", profiled(trace.Profile{}), "", ""},
	{"pageable copies", true, wait(trace.CauseCopy), "", profiled(trace.Profile{Pageable: 0.9}), "", "pin_memory=True to the DataLoader"},
	{"pageable copies", false, wait(trace.CauseCopy), "", profiled(trace.Profile{Pageable: 0.1}), "", ""},
	{"unexplained", true, map[trace.Cause]int64{trace.CauseUnknown: 30}, "", profiled(trace.Profile{}), "", "the trace has no operator, call of the runtime, copy or kernel in these gaps"},
	{"unexplained", true, map[trace.Cause]int64{trace.CauseUnknown: 30}, "", profiled(trace.Profile{GPUs: []trace.ProfiledGPU{{Utilisation: 0.7}}}), "", "record the host too (ProfilerActivity.CPU)"},
	{"unexplained", true, map[trace.Cause]int64{trace.CauseUnknown: 30}, "", profiled(trace.Profile{GPUs: []trace.ProfiledGPU{{Utilisation: 0.7}}, Blind: 20, Total: trace.ProfiledStep{Length: 100}}), "", "have the trace show what the GPU was at"},
	{"unexplained", true, map[trace.Cause]int64{trace.CauseUnknown: 30}, "", inPython, "", "look at the Python function train.py(7): augment, which takes 90.0 % of the GPU's idle time"},
	{"unexplained", true, map[trace.Cause]int64{trace.CauseUnknown: 30}, "", profiled(trace.Profile{GPUs: []trace.ProfiledGPU{{Utilisation: 0.7, Idle: trace.IdleTime{Kernel: 15}}}, Total: trace.ProfiledStep{Length: 100}}), "", "CUDA graphs"},
	{"idle half the time", false, map[trace.Cause]int64{trace.CauseCopy: 4}, "", profiled(trace.Profile{GPUs: []trace.ProfiledGPU{{Utilisation: 0.0001}, {ID: 1, Utilisation: 0.9}}}), "", "the loader keeps up"},
	{"idle half the time", true, map[trace.Cause]int64{trace.CauseCopy: 4}, "", profiled(trace.Profile{GPUs: []trace.ProfiledGPU{{Utilisation: 0.6}, {ID: 1, Utilisation: 0.49}}}), "", "GPU 1 only 49.0 %"},
	{"idle half the time", false, map[trace.Cause]int64{trace.CauseCopy: 4}, "", profiled(trace.Profile{GPUs: []trace.ProfiledGPU{{Utilisation: 0.51}}}), "", ""},
	{"full memory", true, map[trace.Cause]int64{trace.CauseCopy: 4}, "", profiled(trace.Profile{GPUs: []trace.ProfiledGPU{{Utilisation: 1, Memory: 1000, Peak: 901}}}), "", "90.1 %"},
	{"full memory", false, map[trace.Cause]int64{trace.CauseCopy: 4}, "", profiled(trace.Profile{GPUs: []trace.ProfiledGPU{{Utilisation: 1, Memory: 1000, Peak: 900}}}), "", ""},
	{"unknown workers", false, wait(trace.CauseDecode), "num_workers=1", nil, "num_workers 4", ""},
	{"persistent workers", true, wait(trace.CauseStartup), "num_workers=2 persistent_workers=off", nil, "persistent_workers on", "from epoch to epoch"},
	{"persistent workers", true, wait(trace.CauseDecode), "num_workers=2 persistent_workers=off", epochs(3), "persistent_workers on", "98.6 % of the wait for data is in the first steps of epochs"},
	{"persistent workers", true, wait(trace.CauseStartup), "num_workers=2 persistent_workers=off", gauges(98, 1, 50), "persistent_workers on", "from epoch to epoch"},
	{"persistent workers", true, wait(trace.CauseDecode), "num_workers=2 persistent_workers=off", together(epochs(2), gauges(98, 1, 50)), "persistent_workers on", "in the first steps of epochs"},
	{"persistent workers", false, wait(trace.CauseDecode), "num_workers=2 persistent_workers=off", nil, "num_workers 4", ""},
	{"persistent workers", false, wait(trace.CauseStartup), "num_workers=2 persistent_workers=on", nil, "", "make epochs longer"},
	{"epoch starts", true, wait(trace.CauseStartup), "num_workers=2 persistent_workers=on", nil, "", "make epochs longer"},
	{"epoch starts", true, wait(trace.CauseRead), "num_workers=2 persistent_workers=on", epochs(3), "", "make epochs longer"},
	{"epoch starts", false, wait(trace.CauseRead), "num_workers=0 persistent_workers=off", epochs(3), "num_workers 4", ""},
	{"prefetch", true, wait(trace.CausePrefetch), "num_workers=2 prefetch_factor=12", nil, "prefetch_factor 16", "not allowed"},
	{"prefetch", false, wait(trace.CausePrefetch), "num_workers=2 prefetch_factor=16", nil, "num_workers 4", ""},
	{"page-locking", true, wait(trace.CausePin), "num_workers=2 pin_memory=on", nil, "", "page-locking is slow"},
	{"page-locking", false, wait(trace.CauseRead), "num_workers=2 pin_memory=on", nil, "num_workers 4", ""},
	{"straggler", true, wait(trace.CauseOrder), "num_workers=4 in_order=on", nil, "in_order off", "the order of samples changes"},
	{"straggler", true, wait(trace.CauseOrder), "num_workers=4 in_order=on", heads(3, 3, 3, 1), "in_order off", "worker w3 had 3 of 4 batches so waited for, mostly in decode"},
	{"straggler", false, wait(trace.CauseOrder), "num_workers=4 in_order=off", nil, "", ""},
	{"straggler", false, wait(trace.CauseWorkers), "num_workers=4 in_order=on", nil, "", ""},
	{"fewer workers", true, wait(trace.CauseDecode), "num_workers=8", onHost, "num_workers 4", "8 workers take turns with the training on 4 cores"},
	{"fewer workers", false, wait(trace.CauseDecode), "num_workers=8", together(onHost, gauges(50, 48, 50)), "", "stop the other processes"},
	{"fewer workers", false, wait(trace.CauseRead), "num_workers=8", nil, "num_workers 16", ""},
	{"fewer workers", false, wait(trace.CauseDecode), "num_workers=4", load(20), "", "loader settings won't help"},
	{"reads in flight", true, wait(trace.CauseFirstByte), "num_workers=2 reads_in_flight=1", nil, "reads_in_flight 4", "first byte of a store's answer"},
	{"reads in flight", false, wait(trace.CauseFirstByte), "num_workers=2 reads_in_flight=64", nil, "num_workers 4", ""},
	{"reads in flight", false, wait(trace.CauseRead), "num_workers=2 reads_in_flight=1", nil, "num_workers 4", ""},
	{"more workers", true, wait(trace.CauseTransform), "num_workers=0", nil, "num_workers 4", "loads each batch itself"},
	{"more workers", true, wait(trace.CauseTransform), "num_workers=0", blocked, "num_workers 4", "loads each batch itself, and the device waits meanwhile"},
	{"more workers", true, wait(trace.CauseTransform), "num_workers=0", overlapped, "num_workers 4", "the device computes during 37.5 % of that"},
	{"more workers", true, wait(trace.CauseDecode), "num_workers=3", nil, "num_workers 4", "150 ms of worker time and 50.0 ms on the device"},
	{"more workers", true, wait(trace.CauseRead), "num_workers=8", nil, "num_workers 16", "wait at once"},
	{"more workers", true, wait(trace.CauseRead), "num_workers=8", spec("num_workers", 10, ""), "num_workers 10", ""},
	{"more workers", true, wait(trace.CauseWorkers), "num_workers=1", nil, "num_workers 4", ""},
	{"more workers", false, wait(trace.CauseDecode), "num_workers=4", load(20), "", ""},
	{"more workers", true, wait(trace.CauseDecode), "num_workers=0", together(cpuDevice, gauges(40, 58, 50)), "num_workers 2", "other processes use ~2.3 of the 4 cores, and more workers may get more turns"},
	{"more workers", true, wait(trace.CauseDecode), "num_workers=1", together(cpuDevice, gauges(40, 58, 50)), "num_workers 2", "and more workers may get more turns"},
	{"more workers", true, wait(trace.CauseDecode), "num_workers=1", together(cpuDevice, gauges(40, 58, 50), shared("by cgroup", 1)), "num_workers 2", "other processes use ~2.3 of the 4 cores; the kernel shares the cores out by cgroup, and this training's share is ~1.7 of 4 cores and ~1.9 at the most with more workers"},
	{"more workers", false, wait(trace.CauseDecode), "num_workers=1", together(cpuDevice, gauges(40, 58, 62), shared("by cgroup", 1)), "", "this training's share is ~1.7 of 4 cores whatever num_workers is"},
	{"more workers", true, wait(trace.CauseDecode), "num_workers=1", together(cpuDevice, gauges(40, 58, 50), shared("by cgroup", 30)), "num_workers 2", "and more workers get more turns from those that share cores with them by the thread"},
	{"more workers", true, wait(trace.CauseDecode), "num_workers=1", together(cpuDevice, gauges(40, 58, 50), shared("by thread", 58)), "num_workers 2", "and more workers get more turns from"},
	{"more workers", false, wait(trace.CauseDecode), "num_workers=4", together(cpuDevice, load(8), gauges(40, 58, 50)), "", "loader settings won't help; free CPU cores: stop the other processes"},
	{"more workers", true, wait(trace.CauseDecode), "num_workers=4", together(gauges(40, 58, 50), onTorch("1"), cpuDevice, load(8), sleeps, shared("by cgroup", 57)), "num_workers 8", "and more workers get more turns from"},
	{"more workers", false, wait(trace.CauseDecode), "num_workers=4", together(gauges(40, 58, 62), onTorch("1"), cpuDevice, load(8), sleeps, shared("by cgroup", 1)), "", "this training's share is ~1.7 of 4 cores whatever num_workers is"},
	{"more workers", false, wait(trace.CauseDecode), "num_workers=0", together(cpuDevice, gauges(98, 1, 50)), "", "loader settings won't help"},
	{"transforms on the device", true, wait(trace.CauseTransform), "num_workers=4 device_transforms=off", load(20), "device_transforms on", "~100 % of the loading is transforms that the device can do"},
	{"transforms on the device", false, wait(trace.CauseDecode), "num_workers=4 device_transforms=off", load(20), "", "loader settings won't help"},
	{"transforms on the device", false, wait(trace.CauseTransform), "num_workers=4 device_transforms=off", onHost, "", "~24 cores needed, host has 4"},
	{"transforms on the device", true, wait(trace.CauseTransform), "num_workers=4 device_transforms=off", together(load(8), gauges(50, 48, 50)), "device_transforms on", "other processes use ~1.9 of the 4 cores"},
	{"transforms on the device", false, wait(trace.CauseDecode), "num_workers=4 device_transforms=off", together(load(8), gauges(50, 48, 50)), "num_workers 8", "more workers may get more turns"},
	{"more workers", true, wait(trace.CauseTransform), "num_workers=4 device_transforms=on", together(load(8), gauges(50, 48, 50)), "num_workers 8", "more workers may get more turns"},
	{"more workers", false, wait(trace.CauseTransform), "num_workers=4 device_transforms=off", together(load(8), gauges(50, 48, 50)), "device_transforms on", "transforms that the device can do"},
	{"storage", true, wait(trace.CauseRead), "num_workers=64", nil, "", "faster storage"},
	{"storage", false, wait(trace.CauseDecode), "num_workers=64", load(200), "", "4 workers would load as fast as 64"},
	{"bursts", true, wait(trace.CauseDecode), "num_workers=4 prefetch_factor=2", nil, "prefetch_factor 4", "in bursts"},
	{"bursts", true, wait(trace.CauseDecode), "num_workers=1 prefetch_factor=1 batch_size=32", bursty, "prefetch_factor 8", "with num_workers 2 as well, +"},
	{"bursts", false, wait(trace.CauseDecode), "num_workers=1 prefetch_factor=1 batch_size=32", load(2), "num_workers 3", ""},
	{"bursts", false, wait(trace.CauseDecode), "num_workers=2 prefetch_factor=1 batch_size=32", together(bursty, tooSlow), "num_workers 4", ""},
	{"bursts", false, wait(trace.CauseDecode), "num_workers=4 prefetch_factor=2", load(20), "", "loader settings won't help"},
	{"bursts", false, wait(trace.CauseDecode), "num_workers=1 prefetch_factor=2", together(cpuDevice, gauges(85, 1, 40), lateForCores), "num_workers 2", "a batch takes 110 ms of worker time and 50.0 ms on the device"},
	{"host", true, wait(trace.CauseDecode), "num_workers=4", load(20), "", "can feed at most ~128 samples/s with its 4 cores; the device takes 640 samples/s: ~20 cores needed, host has 4"},
	{"host", true, wait(trace.CauseDecode), "num_workers=8", together(load(8), gauges(98, 1, 50)), "", "~7.8 cores needed, host has 4; 4 workers would load as fast as 8"},
	{"host", false, wait(trace.CauseDecode), "num_workers=2", load(4), "num_workers 4", ""},
	{"host", false, wait(trace.CauseDecode), "num_workers=4", together(load(8), gauges(50, 48, 50)), "num_workers 8", "more workers may get more turns"},
	{"neighbours", true, wait(trace.CauseDecode), "num_workers=8", together(load(8), gauges(50, 48, 50)), "", "other processes use ~1.9 of the 4 cores; the device takes 640 samples/s; at that rate loading would take ~4 of the 4 cores"},
	{"neighbours", false, wait(trace.CauseRead), "num_workers=8", together(load(16), gauges(50, 48, 50)), "num_workers 20", ""},
	{"neighbours", false, wait(trace.CauseDecode), "num_workers=8", together(load(8), gauges(98, 1, 50)), "", "loader settings won't help"},
	{"uneven batches", true, wait(trace.CauseDecode), "num_workers=4 prefetch_factor=16", together(gauges(50, 1, 1), after("num_workers", "2", "4", 1)), "", "alike in cost"},
	{"uneven batches", false, wait(trace.CauseRead), "num_workers=64", nil, "", "faster storage"},
	{"fewer threads", true, wait(trace.CauseHost), "num_workers=8", together(load(8), gauges(98, 1, 50)), "num_workers 4", "8 workers and the training take turns on 4 cores"},
	{"fewer threads", false, wait(trace.CauseHost), "num_workers=8 prefetch_factor=2 batch_size=32", together(load(16), halfBlocked, gauges(50, 1, 50)), "", "a host with more cores"}, // fewer would load more slowly than the device takes
	{"fewer threads", false, wait(trace.CauseHost), "num_workers=4", together(load(4), gauges(98, 1, 50)), "", "a host with more cores"},
	{"undo", true, wait(trace.CauseDecode), "num_workers=4", after("num_workers", "2", "4", -2), "num_workers 2", "num_workers 4 measured -"},
	{"undo", false, wait(trace.CauseDecode), "num_workers=2", after("num_workers", "1", "2", 2), "num_workers 4", ""},
	{"pin memory for copies", true, wait(trace.CauseCopy), "pin_memory=off device_transforms=off", nil, "pin_memory on", "page-locked"},
	{"pin memory for copies", false, wait(trace.CauseCopy), "pin_memory=off device_transforms=off", spec("pin_memory", 0, "not here"), "", ""},
	{"copy bytes", true, wait(trace.CauseCopy), "pin_memory=on device_transforms=off", nil, "device_transforms on", "uint8"},
	{"copy bytes", false, wait(trace.CauseCopy), "pin_memory=on device_transforms=on", nil, "", "copy less"},
	{"copy less", true, wait(trace.CauseCopy), "pin_memory=on device_transforms=on", nil, "", "copy less"},
	{"copy less", true, wait(trace.CauseCopy), "pin_memory=on device_transforms=on", copied(4 << 20), "", "a batch is copied for 10.0 ms at 419 MB/s, and computed for 50.0 ms"},
	{"copy less", false, wait(trace.CauseCopy), "pin_memory=off device_transforms=on", nil, "pin_memory on", ""},
	{"capture", true, wait(trace.CauseLaunch), "capture=off batch_size=32", nil, "capture on", "one call"},
	{"capture", false, wait(trace.CauseLaunch), "capture=on batch_size=32", nil, "batch_size 64", ""},
	{"larger batches", true, wait(trace.CauseLaunch), "capture=on batch_size=32", nil, "batch_size 64", "the training changes"},
	{"larger batches", false, wait(trace.CauseLaunch), "capture=on batch_size=32", spec("batch_size", 48, ""), "", "enqueue less"},
	{"larger batches", true, wait(trace.CauseCopy), "pin_memory=on batch_size=32", copied(4 << 10), "batch_size 64", "twice the samples"},
	{"larger batches", false, wait(trace.CauseCopy), "pin_memory=off batch_size=32", copied(4 << 10), "pin_memory on", ""},
	{"larger batches", false, wait(trace.CauseCopy), "pin_memory=on batch_size=32", copied(4 << 20), "", "copy less"},
	{"short operations", true, nil, "num_workers=1 batch_size=2", timedOps(3000), "batch_size 4", "hardly more than starting one"},
	{"short operations", false, nil, "num_workers=1 batch_size=2", timedOps(30000), "", "the loader keeps up"},
	{"launch less", true, wait(trace.CauseLaunch), "capture=on", nil, "", "enqueue less"},
	{"launch less", false, wait(trace.CauseSync), "capture=on", nil, "", "results less often"},
	{"sync less", true, wait(trace.CauseSync), "num_workers=1", nil, "", "results less often"},
	{"sync less", false, wait(trace.CauseUnknown), "num_workers=1", nil, "", "timeline"},
	{"more cores", true, wait(trace.CauseHost), "num_workers=4", nil, "", "a host with more cores"},
	{"more cores", true, wait(trace.CauseHost), "num_workers=4", gauges(40, 60, 50), "", "stop the other processes"},
	{"more cores", false, wait(trace.CauseSync), "num_workers=1", nil, "", "results less often"},
	{"unexplained", true, wait(trace.CauseUnknown), "num_workers=1", nil, "", "timeline"},
	{"unexplained", false, wait(trace.CauseSync), "num_workers=1", nil, "", "results less often"},
	{"spare workers", true, nil, "num_workers=4", after("num_workers", "2", "4", 1), "num_workers 2", "measured the same"},
	{"spare workers", false, nil, "num_workers=4", after("num_workers", "2", "4", 2), "", "the loader keeps up"},
	{"spare workers", false, nil, "num_workers=2", after("num_workers", "4", "2", 1), "", "the loader keeps up"},
}

func wait(c trace.Cause) map[trace.Cause]int64 { return map[trace.Cause]int64{c: 50} }

func flag(f uint16) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		for i := range s.Recent {
			s.Recent[i].Flags |= f
		}
	}
}

// TestLasting: the cost of an epoch's start in a window is told together with its cost over all
// steps.
func TestLasting(t *testing.T) {
	for _, c := range []struct {
		from int // the first step judged
		next string
	}{
		{355, "try persistent_workers off -> on (no more than +17 % throughput, were it free)"},
		{0, "try persistent_workers off -> on"},
	} {
		s := uniform(400, wait(trace.CauseStartup), set("num_workers", "2"), set("persistent_workers", "off"))
		epochs(180)(s)
		for i := range s.Recent { // three epochs begin among 400 steps, one of them among the last 45
			st := &s.Recent[i]
			if st.Stall[trace.CauseStartup] > 1 {
				st.End += 1500 - st.Stall[trace.CauseStartup]
				st.Stall[trace.CauseStartup] = 1500
			}
			if i > 0 {
				d := s.Recent[i-1].End - st.Start
				st.Start, st.End = st.Start+d, st.End+d
			}
		}
		slow(s)
		v := judge(s, s.Recent[c.from:])
		if next, why := v.all.Next(); !strings.HasPrefix(next, c.next) || strings.Contains(why, "over all 399 steps") != (c.from > 0) {
			t.Errorf("from step %d: %q: %q", c.from, next, why)
		}
	}
}

// epochs makes epochs of n steps. The first step of each waits for the whole epoch's batches.
func epochs(n int) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		for i := range s.Recent {
			st := &s.Recent[i]
			st.Flags = 0
			idle := 100 - st.Busy
			for c := range st.Stall {
				if st.Stall[c] > 0 && i%n == 0 {
					st.Stall[c], st.Flags = int64(n)*idle, trace.FlagFirstOfEpoch
				} else if st.Stall[c] > 0 {
					st.Stall[c] = 1
				}
			}
			st.Start = 0
			if i > 0 {
				st.Start = s.Recent[i-1].End
			}
			st.End = st.Start + st.Busy
			for _, ns := range st.Stall {
				st.End += ns
			}
		}
	}
}

// sleeps is a script whose steps are blocked most of the time.
var sleeps = did(trace.Rank{Wait: 50, Body: 50, Core: 5})

// load makes a batch's worker time so many times its time on the device.
func load(times int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		for i := range s.Recent {
			s.Recent[i].Load = times * s.Recent[i].Busy
		}
	}
}

// bursty makes one batch in ten take long, so that one worker is slightly slower than the device on
// average.
func bursty(s *trace.Snapshot) {
	for i := range s.Recent {
		if s.Recent[i].Load = 5; i%10 == 5 {
			s.Recent[i].Load = 600
		}
	}
}

// tooSlow makes each batch take longer by four times its time on the device.
func tooSlow(s *trace.Snapshot) {
	for i := range s.Recent {
		s.Recent[i].Load += 4 * s.Recent[i].Busy
	}
}

// onHost makes the device compute on the host's threads, which the workers need.
func onHost(s *trace.Snapshot) {
	load(20)(s)
	cpuDevice(s)
}

func cpuDevice(s *trace.Snapshot) { s.Meta.DeviceKind = "cpu" }

// lateForCores makes a worker take longer for a batch than the device does. With a core to itself
// it would not.
func lateForCores(s *trace.Snapshot) {
	for i := range s.Recent {
		s.Recent[i].Load = 110
		s.Recent[i].Work.Batch = trace.Split{Core: 60, Waiting: 50}
	}
}

// overlapped makes the step loop load a batch for 80 ns, of which the device waits 50.
func overlapped(s *trace.Snapshot) {
	for i := range s.Recent {
		s.Recent[i].Wait = 80
	}
}

// halfBlocked makes workers wait for reads nearly half of the time.
func halfBlocked(s *trace.Snapshot) {
	for i := range s.Recent {
		l := s.Recent[i].Load
		s.Recent[i].Work.Batch = trace.Split{Core: l * 2 / 5, Waiting: l / 8, Blocked: l - l*2/5 - l/8}
	}
}

// blocked makes the device wait for all of the loading.
func blocked(s *trace.Snapshot) {
	for i := range s.Recent {
		s.Recent[i].Wait = 50
	}
}

func spec(name string, most int, noEffect string) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Meta.Specs = []knob.Spec{{Name: name, Max: most, NoEffect: noEffect}}
	}
}

// heads makes the step loop wait for these workers while batches of other workers are ready.
func heads(workers ...int) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		for i, w := range workers {
			at, batch := 200+100*int64(i), int32(i)
			s.Spans = append(s.Spans,
				trace.Span{Start: at, End: at + 10, Batch: batch, Kind: trace.KindRead, Track: trace.Worker(w)},
				trace.Span{Start: at, End: at + 60, Batch: batch + 100, Kind: trace.KindRead, Track: trace.Worker(0)},
				trace.Span{Start: at + 10, End: at + 50, Batch: batch, Kind: trace.KindDecode, Track: trace.Worker(w)},
				trace.Span{Start: at, End: at + 50, Batch: batch, Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(trace.CauseOrder)})
		}
	}
}

// after puts a segment in front in which the knob had another value, and steps took so many times
// as long. If times is negative, the later steps took longer instead.
func after(name, from, to string, times int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		if times < 0 {
			after(name, from, to, 1)(s)
			slower(s, len(s.Recent)/2, -times, trace.CauseDecode)
			return
		}
		var before []trace.Step
		n := len(s.Recent)
		for i := range s.Recent {
			st := s.Recent[i]
			st.Start, st.End = times*st.Start, times*st.End
			st.Stall[trace.CauseWorkers] += (times - 1) * 100
			before = append(before, st)
		}
		shift := before[n-1].End
		for i := range s.Recent {
			st := &s.Recent[i]
			st.Index, st.Segment, st.Start, st.End = st.Index+int32(n), 1, st.Start+shift, st.End+shift
		}
		s.Recent = append(before, s.Recent...)
		a, b := s.Segments[0], s.Segments[0]
		a.Knobs, b.Index = slices.Clone(a.Knobs), 1
		a.Knobs[slices.IndexFunc(a.Knobs, func(k knob.Setting) bool { return k.Name == name })].Value = from
		s.Segments = []trace.Segment{a, b}
	}
}

// slower makes the last n steps take so many times as long, waiting for cause.
func slower(s *trace.Snapshot, n int, times int64, cause trace.Cause) {
	for i := range n {
		st := &s.Recent[len(s.Recent)-n+i]
		more := (times - 1) * 100
		st.Start, st.End = st.Start+int64(i)*more, st.End+int64(i+1)*more
		st.Stall[cause] += more
	}
}

// timedOps gives the session an operation that takes so many ns.
func timedOps(ns int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) { s.Ops = []trace.OpTime{{Name: "relu", Calls: 100, Total: 100 * ns}} }
}

// copied gives each step a copy of so many bytes.
func copied(bytes int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		for i := range s.Recent {
			s.Recent[i].Bytes, s.Recent[i].Copy = bytes, 10
		}
	}
}

// gauges sets the host's gauges over the whole session, in percent.
func gauges(ours, others, waiting float64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Gauges = map[string][]trace.Point{}
		for t := int64(0); t < 100; t++ {
			for name, v := range map[string]float64{trace.GaugeCPUOurs: ours, trace.GaugeCPUOthers: others, trace.GaugeRunQueue: waiting} {
				s.Gauges[name] = append(s.Gauges[name], trace.Point{T: t * 1e8, V: v})
			}
		}
	}
}

// shared sets how the kernel shares out the cores, and how many percent of them others in our group use.
func shared(how string, percent float64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Meta.Host = append(s.Meta.Host, set(trace.CoresShared, how))
		gauge(trace.GaugeCPUGroup, percent)(s)
	}
}

func together(mods ...func(*trace.Snapshot)) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		for _, mod := range mods {
			mod(s)
		}
	}
}

// slow turns each ns into a ms, so that there is enough time to compare.
func slow(s *trace.Snapshot) {
	for i := range s.Recent {
		st := &s.Recent[i]
		for _, ns := range []*int64{&st.Start, &st.End, &st.Busy, &st.Wait, &st.Load, &st.Copy} {
			*ns *= 1e6
		}
		for c := range st.Stall {
			st.Stall[c] *= 1e6
		}
	}
	for i := range s.Spans {
		s.Spans[i].Start, s.Spans[i].End = 1e6*s.Spans[i].Start, 1e6*s.Spans[i].End
	}
}

// profiled makes the session an imported one.
func profiled(p trace.Profile) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) { s.Meta.Imported, s.Meta.Profile = "trace.json", &p }
}

// inPython has the trace's stacks find the script in one function while the GPU is idle.
var inPython = profiled(trace.Profile{
	GPUs: []trace.ProfiledGPU{{Utilisation: 0.7, Idle: trace.IdleTime{Other: 30}, Host: []trace.HostTime{
		{Part: trace.HostRange, Name: "epoch", Time: 30}, {Part: trace.HostFrame, Name: "train.py(7): augment", Time: 27},
	}}},
	Total: trace.ProfiledStep{Length: 100, Roles: [trace.NumRoles]int64{trace.RoleCPU: 10}},
})

func TestRules(t *testing.T) {
	seen := map[string][2]bool{}
	for _, c := range slices.Concat(ruleCases, hostCases, dataCases, timeCases, torchCases, callCases) {
		var knobs []knob.Setting
		for _, k := range strings.Fields(c.knobs) {
			name, value, _ := strings.Cut(k, "=")
			knobs = append(knobs, set(name, value))
		}
		s := uniform(60, c.stalls, knobs...)
		if c.mod != nil {
			c.mod(s)
		}
		slow(s)
		v := judge(s, s.Recent)
		name := c.rule + ": " + c.knobs
		fired := slices.ContainsFunc(v.all.Findings, func(f Finding) bool { return f.Rule == c.rule })
		if fired != c.fires {
			t.Errorf("%s: fires %v, want %v: %+v", name, fired, c.fires, v.all.Findings)
		}
		if c.fires && v.all.First().Rule != c.rule {
			t.Errorf("%s: %q leads", name, v.all.First().Rule)
		}
		if k, value, _ := strings.Cut(c.knob, " "); v.Knob != k || v.Value != value {
			t.Errorf("%s: %s=%s, want %s: %s", name, v.Knob, v.Value, c.knob, v.Advice)
		}
		if !strings.Contains(v.Advice, c.says) {
			t.Errorf("%s: %q does not say %q", name, v.Advice, c.says)
		}
		both := seen[c.rule]
		both[map[bool]int{false: 0, true: 1}[c.fires]] = true
		seen[c.rule] = both
	}
	for _, r := range rules {
		if seen[r.Name] != [2]bool{true, true} {
			t.Errorf("rule %q has no case in which it fires and one in which it does not", r.Name)
		}
	}
}

// TestMeanwhile: the verdict on a trace says what the host was in while the GPU was idle, if one thing has
// much of that time.
func TestMeanwhile(t *testing.T) {
	for _, c := range []struct {
		host []trace.HostTime
		says string
	}{
		{[]trace.HostTime{{Part: trace.HostRange, Name: "load\x1b", Time: 60}, {Part: trace.HostOperator, Name: "aten::item", Time: 90}}, "; 60.0 % of the GPU's idle time the host is in the range load?; 60 steps"},
		{[]trace.HostTime{{Part: trace.HostRange, Name: "load", Time: 30}, {Part: trace.HostCall, Name: "cudaLaunchKernel", Time: 45}}, "; 45.0 % of the GPU's idle time the host is in the runtime call cudaLaunchKernel"},
		{[]trace.HostTime{{Part: trace.HostRange, Name: "load", Time: 30}, {Part: trace.HostFrame, Name: "train.py(1): main", Time: 100}}, "enqueued and begun; 60 steps"},
	} {
		s := uniform(60, map[trace.Cause]int64{trace.CauseLaunch: 40})
		profiled(trace.Profile{GPUs: []trace.ProfiledGPU{{Idle: trace.IdleTime{Host: 100}, Host: c.host}}})(s)
		if v := judge(s, s.Recent).all.Verdict.Text; !strings.Contains(v, c.says) {
			t.Errorf("%q does not say %q", v, c.says)
		}
	}
	s := uniform(60, map[trace.Cause]int64{trace.CauseUnknown: 30})
	inPython(s)
	if v, want := judge(s, s.Recent).all.Verdict.Text, "script-bound: the device is idle 30.0 % of the time, in which the script enqueues nothing; 90.0 % of the GPU's idle time the host is in the Python function train.py(7): augment"; !strings.Contains(v, want) {
		t.Errorf("%q does not say %q", v, want)
	}
}

// TestHealthy: no rule applies to a healthy run, whatever its knobs.
func TestHealthy(t *testing.T) {
	for _, idle := range []int64{0, 4} {
		for _, workers := range []string{"0", "2", "4", "64"} {
			s := uniform(60, map[trace.Cause]int64{trace.CauseDecode: idle}, set("num_workers", workers), set("prefetch_factor", "2"),
				set("pin_memory", "off"), set("persistent_workers", "off"), set("in_order", "on"), set("capture", "off"),
				set("device_transforms", "off"), set("batch_size", "32"))
			if v := judge(s, s.Recent); len(v.all.Findings) != 0 || !strings.Contains(v.Advice, "the loader keeps up") {
				t.Errorf("%s workers, %d %% idle: %+v", workers, idle, v.all.Findings)
			}
		}
	}
}

// TestTriedIsNotAdvisedAgain: a value that was tried in vain and undone is not advised again,
// neither live nor in a replay.
func TestTriedIsNotAdvisedAgain(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to string
		times    int64 // how many times as long a step took before
		now      string
		want     string
	}{
		{"a loss", "8", "16", -2, "8", "num_workers 12"},
		{"no gain", "8", "16", 1, "8", " "},
		{"a gain", "4", "8", 2, "8", "num_workers 16"},
	} {
		s := uniform(60, wait(trace.CauseRead), set("num_workers", c.to))
		after("num_workers", c.from, c.to, max(c.times, 1))(s)
		if c.times < 0 {
			slower(s, 60, -c.times, trace.CauseRead)
		}
		if c.now != c.to { // the change is undone
			undone(s, c.now)
		}
		slow(s)
		v := judge(s, s.Recent)
		if got := v.Knob + " " + v.Value; got != c.want {
			t.Errorf("%s: %s, want %s: %s; tried %+v", c.name, got, c.want, v.Advice, v.all.Tried)
		}
	}
}

// undone appends a segment with num_workers as before, and with the same steps as the
// first segment.
func undone(s *trace.Snapshot, value string) {
	g := s.Segments[0]
	g.Index = 2
	n := len(s.Recent)
	shift := s.Recent[n-1].End
	for i := range 60 {
		st := s.Recent[i]
		st.Index, st.Segment, st.Start, st.End = int32(n+i), 2, st.Start+shift, st.End+shift
		s.Recent = append(s.Recent, st)
	}
	s.Segments = append(s.Segments, g)
}

// TestGain: only a bound is worded with "at most" or "up to".
func TestGain(t *testing.T) {
	predicted := trace.Prediction{Base: 100, Lo: 120, Rate: 130, Hi: 140}
	for _, tt := range []struct {
		f    Finding
		want string
	}{
		{Finding{}, ""},
		{Finding{Share: 0.5, Beside: true}, ""},
		{Finding{Share: 0.5, Before: true, Most: 3}, ""},
		{Finding{Share: 0.5, Most: 3, Predicted: predicted}, "+20 to +40 % predicted"},
		{Finding{Share: 0.5}, "~+100 % throughput if nothing but this time were saved"},
		{Finding{Share: 0.5, Most: 4.2}, "~+100 % throughput if nothing but this time were saved, at most ~+320 %"},
		{Finding{Share: 0.9, Most: 8}, "at most ~+700 % throughput, all that the device takes"},
		{Finding{Share: 0.9, Most: 1.5, Here: true}, "at most ~+50 % throughput, all that this host can feed"},
		{Finding{Share: 0.9, Most: 0.9, Here: true}, "at most ~0.0 % throughput, all that this host can feed"},
		{Finding{Share: 0.9, Most: 32, Scales: true}, "as many times the throughput as a sample becomes cheaper, up to ~x32"},
	} {
		if got := tt.f.Gain(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.f, got, tt.want)
		}
	}
	for _, tt := range []struct {
		name string
		of   func(*trace.Snapshot)
		want float64
	}{
		{"host", load(20), 2}, {"neighbours", together(load(20), gauges(50, 48, 50)), 0.8},
	} {
		s := uniform(20, wait(trace.CauseDecode), set("num_workers", "8"))
		tt.of(s)
		a := Of(s, trace.Count(s.Recent), nil)
		if i := slices.IndexFunc(a.Findings, func(f Finding) bool { return f.Rule == tt.name }); i < 0 || math.Abs(a.Findings[i].Most-tt.want) > 0.01 {
			t.Errorf("%s: %+v, want %v times", tt.name, a.Findings, tt.want)
		}
	}
}
