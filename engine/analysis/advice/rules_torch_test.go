package advice

import (
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

var torchCases = []ruleCase{
	{"torch threads", true, nil, "num_workers=2", together(onTorch("4"), cpuDevice, cores(200), gauge(trace.GaugeStarved, 40)), "",
		"call torch.set_num_threads(2) in the script: the training computes with 4 threads on 4 cores, of which workers use ~2.0"},
	{"torch threads", true, nil, "num_workers=0", together(onTorch("16"), cpuDevice, gauge(trace.GaugeStarved, 40)), "", "call torch.set_num_threads(4) in the script"},
	{"torch threads", true, wait(trace.CauseHost), "num_workers=1", together(onTorch("4"), cpuDevice, cores(5), gauges(50, 49, 50), gauge(trace.GaugeStarved, 50)), "",
		"call torch.set_num_threads(2) in the script while other processes take the cores: the training computes with 4 threads on 4 cores, of which other processes use ~2.0, and its threads wait for a core 50.0 % of the time in which it computes, while those that have one spin on it until all are done"},
	{"torch threads", false, wait(trace.CauseHost), "num_workers=1", together(onTorch("2"), cpuDevice, cores(10), gauges(50, 49, 50), gauge(trace.GaugeStarved, 50)), "",
		"stop the other processes, or move them or this training to another host: the training's threads spin on their cores while they wait for one that has none"},
	{"more cores", true, wait(trace.CauseHost), "num_workers=1", together(onTorch("1"), cpuDevice, cores(10), gauges(50, 49, 50), gauge(trace.GaugeStarved, 50)), "", "at that rate computing and loading would take ~8 cores, and the host has 4"},
	{"more cores", true, wait(trace.CauseHost), "num_workers=2", together(onTorch("4"), cpuDevice, cores(60)), "", "take turns on the same cores"},
	{"more cores", true, wait(trace.CauseHost), "num_workers=2", together(onTorch("4"), cpuDevice, cores(4), gauges(85, 8, 20)), "", "use a host with more cores: other processes use ~0.3 of the 4 cores"},
	{"torch threads", false, nil, "num_workers=2", together(onTorch("4"), cpuDevice, cores(60), gauge(trace.GaugeStarved, 15)), "", "the loader keeps up"},
	{"torch threads", false, nil, "num_workers=2", together(onTorch("2"), cpuDevice, cores(200), gauge(trace.GaugeStarved, 40)), "", "a host with more cores"},
	{"torch threads", false, nil, "num_workers=2", together(onTorch("4"), cpuDevice, cores(200), gauge(trace.GaugeStarved, 2)), "", "the loader keeps up"},
	{"torch threads", false, nil, "num_workers=2", together(onTorch("4"), cores(200), gauge(trace.GaugeStarved, 40)), "", "a host with more cores"},
	{"host", true, wait(trace.CauseDecode), "num_workers=4", together(load(20), onTorch("4")), "", "torchvision.io.decode_jpeg"},
	{"host", true, wait(trace.CauseTransform), "num_workers=4", together(load(20), onTorch("4")), "", "torchvision.transforms.v2"},
	{"host", true, wait(trace.CauseFetch), "num_workers=4", together(load(20), onTorch("4")), "", "__getitems__"},
	{"collating", true, wait(trace.CauseCollate), "num_workers=4", together(load(20), onTorch("4")), "", "make a batch cheaper to put together and hand over"},
	{"collating", false, wait(trace.CauseTransform), "num_workers=4", together(load(20), onTorch("4")), "", "make a sample cheaper"},
	{"collating", true, wait(trace.CauseCollate), "num_workers=64", together(onTorch("4"), facts(set(trace.BatchOf, "2 tensors, 38.5 MiB in all"))), "", "~100 % of the loading is for that, not for the samples; a batch is 2 tensors, 38.5 MiB in all"},
	{"more workers", true, wait(trace.CauseFetch), "num_workers=0", together(onTorch("4"), barred("num_workers", 64, "guard the script")), "", "to try num_workers 0 -> 4, guard the script: it cannot be had; the step loop loads"},
	{"persistent workers", true, wait(trace.CauseStartup), "num_workers=2 persistent_workers=off", together(onTorch("4"), barred("persistent_workers", 0, "make it once")), "", "to try persistent_workers off -> on, make it once: it cannot be had; workers then live on"},
	{"epoch starts", true, wait(trace.CauseStartup), "num_workers=2 persistent_workers=on", together(onTorch("4"), barred("persistent_workers", 0, "make it once")), "", "make it once: it cannot be had; the device waits at the start of an epoch"},
	{"more workers", false, wait(trace.CauseFetch), "num_workers=0", together(onTorch("4"), barred("num_workers", 64, "")), "", "no knob that is left helps"},
	{"more workers", true, wait(trace.CauseFetch), "num_workers=1", together(onTorch("4"), bound("num_workers", 2, "")), "num_workers 2", ""},
	{"more workers", true, wait(trace.CauseFetch), "num_workers=1", together(onTorch("4"), bound("num_workers", 1, "have it take a part")), "", "to try num_workers 1 -> 4, have it take a part: there is no more"},
	{"straggler", true, wait(trace.CauseOrder), "num_workers=4 in_order=on", together(onTorch("4"), barred("in_order", 0, "use PyTorch 2.6 or newer")), "", "to try in_order on -> off, use PyTorch 2.6 or newer: it cannot be had"},
	{"threads of workers", true, wait(trace.CauseFetch), "num_workers=8", together(onTorch("4"), load(8), gauges(98, 1, 50), gauge(trace.GaugeWorkerThreads, 1.5)), "",
		"cv2.setNumThreads(0) for OpenCV, torch.set_num_threads(1) for PyTorch, threadpoolctl.threadpool_limits(1) for NumPy and the like: no core is free, and beside the threads that load and send batches, others that libraries began in the 8 workers use ~1.50 of the 4 cores"},
	{"threads of workers", true, wait(trace.CauseFetch), "num_workers=2", together(onTorch("4"), load(8), gauges(98, 1, 50), gauge(trace.GaugeWorkerThreads, 1.5)), "", "NumPy and the like; and have 4 workers"},
	{"threads of workers", true, wait(trace.CauseFetch), "num_workers=8", together(onTorch("4"), load(8), gauges(60, 39, 50), gauge(trace.GaugeWorkerThreads, 1.5)), "",
		"use ~1.50 of the 4 cores; other processes use ~1.6 of the 4 cores, so that it may gain little here"},
	{"threads of workers", true, wait(trace.CauseFetch), "num_workers=8", together(onTorch("4"), load(8), gauges(98, 1, 50), gauge(trace.GaugeWorkerThreads, 1.5)), "",
		"one thread in each worker may help, set in worker_init_fn: cv2"},
	{"threads of workers", false, wait(trace.CauseFetch), "num_workers=8", together(onTorch("4"), load(8), gauges(98, 1, 50), gauge(trace.GaugeWorkerThreads, 0.2)), "", "loader settings won't help"},
	{"threads of workers", false, wait(trace.CauseFetch), "num_workers=2", together(onTorch("4"), gauges(50, 1, 1), gauge(trace.GaugeWorkerThreads, 1.5)), "num_workers 4", ""},
	{"whole data sets", true, wait(trace.CauseFetch), "num_workers=4", together(onTorch("1"), facts(set(trace.WorkersYield, "all samples each"))), "num_workers 1", "try num_workers 4 -> 1: nothing in"},
	{"whole data sets", false, wait(trace.CauseFetch), "num_workers=1", together(onTorch("1"), facts(set(trace.WorkersYield, "all samples each"))), "num_workers 4", ""},
	{"whole data sets", false, wait(trace.CauseFetch), "num_workers=4", onTorch("1"), "", ""},
	{"worker memory", true, nil, "num_workers=4", together(onTorch("4"), gauge(trace.GaugeWorkerBytes, 1<<30), gauge(trace.GaugeHostMemory, 97)), "",
		"4 worker processes take ~4.00 GiB of memory of their own, 1.00 GiB each, and 97.0 %"},
	{"worker memory", true, nil, "num_workers=4", together(onTorch("4"), gauge(trace.GaugeWorkerBytes, 1<<30), gauge(trace.GaugeHostMemory, 97)), "", "in place of lists and dicts"},
	{"worker memory", true, nil, "num_workers=4", together(onTorch("4"), facts(set(trace.WorkerStart, "forkserver")), gauge(trace.GaugeWorkerBytes, 1<<30), gauge(trace.GaugeHostMemory, 97)), "",
		"use fewer workers, or keep what the data set holds in tensors, which workers share in /dev/shm, as each is sent a copy of all else:"},
	{"worker memory", true, nil, "num_workers=4", together(onTorch("4"), facts(set(trace.WorkerStart, "spawn")), gauge(trace.GaugeWorkerBytes, 300<<20), gauge(trace.GaugeHostMemory, 97)), "",
		"PyTorch takes ~300 MB of each that is spawned"},
	{"worker memory", false, nil, "num_workers=4", together(onTorch("4"), gauge(trace.GaugeWorkerBytes, 50<<20), gauge(trace.GaugeHostMemory, 97)), "", "lower prefetch_factor"},
	{"worker memory", false, nil, "num_workers=4", together(onTorch("4"), gauge(trace.GaugeWorkerBytes, 1<<30), gauge(trace.GaugeHostMemory, 60)), "", "the loader keeps up"},
	{"compiling again", true, nil, "num_workers=1", together(onTorch("4"), linesAt(trace.Compiles, "loss = model(x)", "", 0.6), compiled(3e9)), "", "have torch.compile compile less often"},
	{"compiling again", true, nil, "num_workers=1", together(onTorch("4"), linesAt(trace.Compiles, "loss = model(x)", "", 0.6), compiled(3e9)), "", "at train.py:42 (loss = model(x)): torch.compile takes 100 % of the loop's time, ~3.00 s since the first step"},
	{"compiling again", false, nil, "num_workers=1", together(onTorch("4"), linesAt(trace.Compiles, "loss = model(x)", "", 0.6), compiled(90e6)), "", "the loader keeps up"}, // in the first step
	{"other threads", true, wait(trace.CauseDataLoader), "num_workers=1", together(onTorch("4"), cheapLoads, linesAt(trace.Locked, "x += i * i", "", 0.6)), "",
		"let that thread work in a process of its own (multiprocessing), less often, or in code that lets go of the GIL; no setting of the loader helps: the loop waits for Python's lock (GIL) 100 % of its time, which another thread holds, 60.0 % of it at train.py:42 (x += i * i)"},
	{"other threads", false, wait(trace.CauseDataLoader), "num_workers=1", together(onTorch("4"), cheapLoads, linesAt(trace.InStep, "x += i * i", "", 0.6)), "num_workers 0", ""},
	{"iterator a step", true, wait(trace.CauseStartup), "num_workers=2 persistent_workers=off", together(onTorch("4"), renewed(64)), "",
		"make the iterator once and keep it (it = iter(loader), then next(it) in each step), or loop over the loader: 60 of 60 steps begin an iterator of their own"},
	{"iterator a step", true, wait(trace.CauseFetch), "num_workers=0", together(onTorch("4"), renewed(3200)), "", "so that nothing can be loaded ahead"},
	{"persistent workers", false, wait(trace.CauseStartup), "num_workers=2 persistent_workers=off", together(onTorch("4"), renewed(3200)), "", "what they load ahead is thrown away"},
	{"iterator a step", false, wait(trace.CauseStartup), "num_workers=2 persistent_workers=off", together(onTorch("4"), renewed(63)), "persistent_workers on", ""}, // an epoch has no more
	{"iterator a step", false, wait(trace.CauseStartup), "num_workers=2 persistent_workers=off", together(onTorch("4"), epochs(2)), "persistent_workers on", ""},
	{"persistent workers", true, wait(trace.CauseStartup), "num_workers=2 persistent_workers=off", together(onTorch("4"), starts(600), facts(set(trace.WorkerSent, "34.0 MiB"))), "persistent_workers on", "34.0 MiB are pickled and sent to each, one after the other: keep what the data set holds in tensors"},
	{"sampler", true, wait(trace.CauseSampler), "num_workers=2", together(onTorch("4"), linesAt(trace.Sampling, "p = torch.multinomial(self.w, self.bs)", "", 0.6)), "",
		"draw indices ahead, many at once: those of an epoch with one call (torch.randperm, or torch.multinomial for weights), kept as a list; no setting of the loader helps (no more than +100 % throughput, were it free): train.py:42 (p = torch.multinomial(self.w, self.bs)) takes 60.0 % of the loop's time; the training loop itself draws"},
	{"sampler", true, wait(trace.CauseSampler), "num_workers=2", together(onTorch("4"), func(s *trace.Snapshot) {
		s.Lines = []trace.Line{{At: trace.Sampling, File: "/torch/sampler.py", Func: "RandomSampler.__iter__ (torch)", Library: true, Looks: 1000, Time: 1000}}
	}), "", "with replacement=True 32 at a time"},
	{"sampler", true, wait(trace.CauseSampler), "num_workers=0", onTorch("4"), "", "the sampler takes ~"},
	{"sampler", false, wait(trace.CauseFetch), "num_workers=2", onTorch("4"), "num_workers 4", ""},
	{"more workers", false, wait(trace.CauseSampler), "num_workers=2", onTorch("4"), "", "no setting of the loader helps"},
	{"watched loop", true, wait(trace.CauseDataLoader), "batch_size=32", onTorch("4"), "", "an iterable that is no DataLoader"},
	{"watched loop", false, wait(trace.CauseFetch), "num_workers=0", onTorch("4"), "num_workers 4", ""},
	{"shared lock", true, wait(trace.CauseFetch), "num_workers=2", together(onTorch("4"), asleep, gauge(trace.GaugeLockWaiting, 1)), "", "~1.0 of 2 workers wait at any time for a lock that processes share"},
	{"shared lock", false, wait(trace.CauseFetch), "num_workers=2", together(onTorch("4"), asleep, gauge(trace.GaugeLockWaiting, 0)), "num_workers 4", "unless what they wait for serves no more at once"},
	{"more workers", true, wait(trace.CauseFetch), "num_workers=2", together(onTorch("4"), asleep, func(s *trace.Snapshot) { s.Meta.Format = "PyTorch, iterable-style" }), "num_workers 4",
		"unless the data set has fewer shards than workers"},
	{"more workers", true, wait(trace.CauseFetch), "num_workers=3", together(onTorch("4"), asleep, gauge(trace.GaugeLockWaiting, 0.4)), "num_workers 4",
		"more of them can wait at once; a batch takes 150 ms of worker time and 50.0 ms on the device; ~0.4 of 3 workers wait at any time for a lock that processes share (a multiprocessing.Lock, or one on a file), and more of them would wait longer"},
	{"shared lock", false, wait(trace.CauseFetch), "num_workers=1", together(onTorch("4"), asleep), "num_workers 4", "unless they wait for each other"},
	{"unexplained", true, wait(trace.CauseUnknown), "num_workers=0", together(onTorch("4"), epochs(3)), "", "do less between epochs, or do it less often: "},
	{"unexplained", true, wait(trace.CauseUnknown), "num_workers=0", onTorch("4"), "", "look at the timeline"},
	{"unexplained", true, wait(trace.CauseUnknown), "", together(onTorch("4"), facts(set(trace.LoopWaits, "not known"))), "", "until it is known which lines of code it is"},
	{"unexplained", true, wait(trace.CauseUnknown), "", together(onTorch("4"), facts(set(trace.LoopWaits, "not known")), linesAt(trace.InStep, "x = get_batch()", "", 0.6)), "", "look at train.py:42 (x = get_batch()), which takes 60.0 % of the loop's time"},
	{"repeated samples", true, wait(trace.CauseFetch), "num_workers=2", together(onTorch("4"), after("num_workers", "1", "2", 2), epochOf(2)), "num_workers 1", "with 2 workers an epoch had 3,840 samples, with 1 1,920: each worker yields all that the data set has; or have its __iter__ take a part"},
	{"repeated samples", false, wait(trace.CauseFetch), "num_workers=2", together(onTorch("4"), after("num_workers", "1", "2", 2), epochOf(1)), "num_workers 4", ""},
	{"more workers", false, wait(trace.CauseFetch), "num_workers=1", together(onTorch("4"), after("num_workers", "2", "1", 1), epochOf(1), func(s *trace.Snapshot) {
		for i := range len(s.Recent) / 2 {
			s.Recent[i].Samples *= 2
		}
	}), "", "no knob that is left helps"},
	{"cheap batches", true, wait(trace.CauseFetch), "num_workers=0 batch_size=32", together(onTorch("4"), cpuDevice, facts(set(trace.BatchOf, "4,000 tensors, 16.0 MiB in all"))), "", "in less time than it would take it to take one from a worker process"},
	{"cheap batches", false, wait(trace.CauseFetch), "num_workers=0 batch_size=32", together(onTorch("4"), cpuDevice), "num_workers 3", ""},
	{"taking batches", true, wait(trace.CauseDataLoader), "num_workers=1", onTorch("4"), "", "fewer and smaller tensors"},
	{"taking batches", true, wait(trace.CauseDataLoader), "num_workers=1", together(onTorch("4"), facts(set(trace.BatchOf, "40 tensors, 320 KiB in all"))), "", "; a batch is 40 tensors, 320 KiB in all"},
	{"taking batches", true, wait(trace.CauseDataLoader), "num_workers=1", together(onTorch("4"), cheapLoads), "num_workers 0", "to take a batch that is ready"},
	{"taking batches", true, wait(trace.CauseDataLoader), "num_workers=1", together(onTorch("4"), gauges(50, 49, 50)), "", "loader settings won't help; free CPU cores"},
	{"taking batches", false, wait(trace.CauseFetch), "num_workers=1", onTorch("4"), "num_workers 4", ""},
	{"more workers", true, wait(trace.CauseFetch), "num_workers=0 batch_size=32", together(onTorch("1"), cpuDevice, readsBesideOthers, samples(3200)), "num_workers 3", ""},
	{"workers that stay", false, wait(trace.CauseFetch), "num_workers=0 batch_size=32", together(onTorch("1"), cpuDevice, readsBesideOthers, samples(3200)), "num_workers 3", ""},
	{"more workers", true, wait(trace.CauseFetch), "num_workers=0 batch_size=32", together(onTorch("1"), cpuDevice, readsBesideOthers, samples(960)), "num_workers 1", ""},
	{"workers that stay", true, wait(trace.CauseFetch), "num_workers=0 batch_size=32", together(onTorch("1"), cpuDevice, readsBesideOthers, samples(192)), "", "set num_workers 2 and persistent_workers on, both at once"},
	{"slowest rank", true, nil, "num_workers=1", ranks(5, 50), "", "fix rank 1, which the others wait for: rank 1 is the slowest of 2: it waits for data 50.0 % of the time"},
	{"slowest rank", true, nil, "num_workers=1", together(facts(set("ranks", "4"), set("ranks here", "2")), ranks(5, 50)), "", "fix rank 1, which the others wait for: rank 1 is the slowest of 2 that are known here: it"},
	{"slowest rank", false, nil, "num_workers=1", ranks(48, 50), "", "the loader keeps up"},
	{"evaluation", true, nil, "num_workers=1", together(onTorch("1"), did(trace.Rank{Time: 100, Body: 20, Aside: 80, AsideWait: 60})), "", "raise num_workers of the evaluation's DataLoader in the script"},
	{"evaluation", true, nil, "num_workers=1", together(onTorch("1"), did(trace.Rank{Time: 100, Body: 20, Aside: 80, AsideWait: 20})), "", "take 80.0 % of all time, which is in no other share, and wait for data 25.0 % of that"},
	{"evaluation", false, nil, "num_workers=1", together(onTorch("1"), did(trace.Rank{Time: 100, Body: 85, Aside: 15, AsideWait: 12})), "", "the loader keeps up"},
	{"evaluation", true, little, "num_workers=1", together(onTorch("1"), did(trace.Rank{Time: 100, Body: 20, Aside: 80})), "", "evaluate less often"},
	{"more workers", true, little, "num_workers=1", together(onTorch("1"), did(trace.Rank{Time: 100, Body: 85, Aside: 15})), "num_workers 4", ""},
	{"rest of the script", true, nil, "num_workers=1", together(onTorch("1"), cpuDevice, did(trace.Rank{Body: 100, Backward: 8, Core: 30})), "", "the loader keeps up, so no setting of it gains anything; with a batch in hand the loop's thread is blocked 70.0 %"},
	{"rest of the script", true, nil, "num_workers=1", together(onTorch("1"), cpuDevice, did(trace.Rank{Body: 100, Backward: 8, Core: 30})), "", "look at what a step waits for: a sleep, a lock"},
	{"rest of the script", true, wait(trace.CauseUnknown), "", together(onTorch("1"), cpuDevice, facts(set(trace.LoopWaits, "not known")), did(trace.Rank{Body: 100, Backward: 8, Core: 30})), "",
		"a device: with a batch in hand the loop's thread is blocked 70.0 %"}, // and no word of a loader
	{"evaluation", true, nil, "num_workers=1", together(onTorch("1"), cpuDevice, did(trace.Rank{Time: 100, Body: 63, Backward: 2, Core: 3, Aside: 37})), "", "take 37.0 % of all time, which is in no other share"},
	{"evaluation", true, map[trace.Cause]int64{trace.CauseDecode: 15}, "num_workers=1", together(onTorch("1"), did(trace.Rank{Time: 100, Body: 42, Wait: 18, Aside: 40})), "", "evaluate less often"},
	{"rest of the script", false, nil, "num_workers=1", together(onTorch("1"), cpuDevice, did(trace.Rank{Time: 600, Body: 100, Backward: 8})), "", "the loader keeps up"}, // most of it is between epochs
	{"rest of the script", true, little, "num_workers=1", together(onTorch("1"), cpuDevice, did(trace.Rank{Body: 100, Backward: 4})), "", "metrics, .item(), logging"},
	{"more workers", true, wait(trace.CauseTransform), "num_workers=1", together(onTorch("1"), cpuDevice, did(trace.Rank{Wait: 50, Body: 50, Backward: 2})), "num_workers 3", ""},
	{"more workers", true, wait(trace.CauseTransform), "num_workers=1", together(onTorch("4"), did(trace.Rank{Wait: 50, Other: 45, Body: 50})), "num_workers 4", "90.0 % of the waiting is for another DataLoader"},
	{"rest of the script", false, nil, "num_workers=1", together(onTorch("1"), cpuDevice, did(trace.Rank{Body: 100, Backward: 60})), "", "the loader keeps up"},
	{"rest of the script", false, nil, "num_workers=1", together(onTorch("1"), did(trace.Rank{Body: 100, Backward: 8})), "", "the loader keeps up"},
	{"launching", true, nil, "num_workers=1", together(onTorch("1"), did(trace.Rank{Body: 100, Device: 99, Followed: 95}), gauge(trace.GaugeKernels, 15)), "",
		"torch.compile fuses kernels and mode=\"reduce-overhead\" captures them as a graph, or take larger batches: the GPU ends a step as soon as the script has enqueued it, and runs kernels 15.0 % of the time, as NVML samples it"},
	{"launching", false, nil, "num_workers=1", together(onTorch("1"), did(trace.Rank{Body: 100, Device: 99, Followed: 95}), gauge(trace.GaugeKernels, 80)), "", "the loader keeps up"},
	{"copying to the GPU", true, nil, "num_workers=1", together(onTorch("1"), did(trace.Rank{Body: 100, Device: 99, Followed: 95}), gauge(trace.GaugeKernels, 15), linesAt(trace.InStep, "x = x.cuda(non_blocking=True)", "", 0.8)), "",
		"send a narrower type (uint8) and convert it on the GPU"},
	{"copying to the GPU", false, nil, "num_workers=1", together(onTorch("1"), did(trace.Rank{Body: 100, Device: 99, Followed: 95}), gauge(trace.GaugeKernels, 90), linesAt(trace.InStep, "x = x.cuda(non_blocking=True)", "", 0.8)), "", "the loader keeps up"},
	{"copying to the GPU", false, nil, "num_workers=1", together(onTorch("1"), did(trace.Rank{Body: 100, Device: 99, Followed: 95}), gauge(trace.GaugeKernels, 15), linesAt(trace.InStep, "x = x.to(torch.float32)", "", 0.8)), "", "torch.compile fuses kernels"},
	{"launching", false, nil, "num_workers=1", together(onTorch("1"), did(trace.Rank{Body: 100, Device: 99, Followed: 40}), gauge(trace.GaugeKernels, 15)), "", "the loader keeps up"},
	{"launching", false, nil, "num_workers=1", together(onTorch("1"), did(trace.Rank{Body: 100, Device: 99, Followed: 95})), "", "the loader keeps up"},
}

// TestLaunching: a GPU that ends each step as soon as it was enqueued is called launch-bound, if
// NVML tells that it runs kernels little of the time. If NVML does not tell, the verdict says that
// it may be.
func TestLaunching(t *testing.T) {
	for _, c := range []struct {
		name    string
		stall   map[trace.Cause]int64
		kernels float64 // percent; negative where NVML does not tell
		follows int64   // of 99 hundredths
		want    string
	}{
		{"few kernels", nil, 15, 95, "launch-bound: the device is empty 85.0 % of the time while its work is enqueued and begun"},
		{"few kernels, as copies take the time", nil, 15, 95, "copy-bound: the device waits for host-to-device copies 85.0 % of the time; 80.0 % of the loop's time is at train.py:42 (x = x.to(device))"},
		{"many kernels", nil, 90, 95, "device-bound: the device has a step 100 % of the time and waits for no data"},
		{"the GPU is behind", nil, 15, 20, "device-bound: the device computes 100 % of the time and waits for no data"},
		{"unknown", nil, -1, 95, "device-bound: the device has a step 100 % of the time and ends each as soon as the script has enqueued it, so that launching may be what takes it; it waits for no data"},
		{"and some waiting", little, 15, 95, "launch-bound: "},
		{"and more waiting", map[trace.Cause]int64{trace.CauseTransform: 60}, 1, 95, "input-bound: "},
	} {
		s := uniform(60, c.stall, set("num_workers", "1"))
		together(onTorch("1"), did(trace.Rank{Body: 100, Device: 99, Followed: c.follows}))(s)
		if c.kernels >= 0 {
			gauge(trace.GaugeKernels, c.kernels)(s)
		}
		if strings.Contains(c.name, "copies") {
			linesAt(trace.InStep, "x = x.to(device)", "", 0.8)(s)
		}
		slow(s)
		if v := judge(s, s.Recent).Verdict; !strings.HasPrefix(v.Text, c.want) {
			t.Errorf("%s: %q, want %q", c.name, v.Text, c.want)
		}
	}
}

// little is a small part of the time that workers could save.
var little = map[trace.Cause]int64{trace.CauseTransform: 20}

// did sets what the script's loop did, in hundredths of the time.
func did(k trace.Rank) func(*trace.Snapshot) {
	count := map[string]int64{"steps": 1, "wait_ns": k.Wait, "other_ns": k.Other, "body_ns": k.Body, "backward_ns": k.Backward, "optimizer_ns": k.Optimizer, "core_ns": k.Core, "device_ns": k.Device, "followed_ns": k.Followed, "aside_ns": k.Aside, "aside_wait_ns": k.AsideWait, "time_ns": k.Time}
	var all []func(*trace.Snapshot)
	for name, v := range count {
		all = append(all, gaugeUntil("rank_0_"+name, 0, 0), func(s *trace.Snapshot) {
			g := s.Gauges["rank_0_"+name]
			s.Gauges["rank_0_"+name] = append(g, trace.Point{T: s.Recent[len(s.Recent)-1].Start * 1e6, V: float64(v)})
		})
	}
	return together(all...)
}

// cores makes workers use so many hundredths of a core.
func cores(hundredths int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		for i := range s.Recent {
			st := &s.Recent[i]
			st.Load = (st.End - st.Start) * hundredths / 100
			st.Work.Batch = trace.Split{Core: st.Load}
		}
	}
}

// epochOf makes each half of the steps an epoch; the second has so many times the samples.
func epochOf(times int32) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		n := len(s.Recent) / 2
		for i := range s.Recent {
			st := &s.Recent[i]
			if st.Epoch = int32(i / n); st.Epoch > 0 {
				st.Samples *= times
			}
			if (i+1)%n == 0 {
				st.Flags |= trace.FlagLastOfEpoch
			}
		}
	}
}

// asleep makes workers blocked for all of a batch's time.
func asleep(s *trace.Snapshot) {
	for i := range s.Recent {
		s.Recent[i].Work.Batch = trace.Split{Blocked: s.Recent[i].Load}
	}
}

// readsBesideOthers makes loading sleep and wait for cores, which others have.
func readsBesideOthers(s *trace.Snapshot) {
	gauges(4, 96, 85)(s)
	for i := range s.Recent {
		s.Recent[i].Work.Batch = trace.Split{Core: s.Recent[i].Load / 20, Waiting: s.Recent[i].Load / 4, Blocked: s.Recent[i].Load * 7 / 10}
	}
}

// samples sets how many the data set has.
func samples(n int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) { s.Meta.Samples = n }
}

// cheapLoads makes loading a batch take a tenth of the device's time for it.
func cheapLoads(s *trace.Snapshot) {
	for i := range s.Recent {
		s.Recent[i].Load = s.Recent[i].Busy / 10
	}
}

// barred makes values of a knob unavailable, with a hint that says what would allow
// them.
func barred(name string, most int, hint string) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Meta.Specs = []knob.Spec{{Name: name, Max: most, NoEffect: "it cannot be had", Hint: hint}}
	}
}

// bound makes larger values of a knob unavailable.
func bound(name string, most int, hint string) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Meta.Specs = []knob.Spec{{Name: name, Max: most, Bound: "there is no more", Hint: hint}}
	}
}

// compiled makes looks find the loop in torch.compile for so many ns.
func compiled(ns int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Lines[0].Time, s.Lines[1].Time = ns*6/10, ns*4/10
	}
}

// renewed begins an iterator in each step, over so many samples.
func renewed(samples int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Meta.Samples = samples
		for i := range s.Recent {
			s.Recent[i].Flags |= trace.FlagFirstOfEpoch
		}
	}
}

// starts makes a worker take so many ms to start.
func starts(ms int64) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Spans = append(s.Spans, trace.Span{Start: 1, End: 1 + ms*1e6, Track: trace.Worker(0), Kind: trace.KindStart})
	}
}

// TestLeft: a loop that leaves its DataLoader is told as one without it.
func TestLeft(t *testing.T) {
	s := uniform(60, map[trace.Cause]int64{trace.CauseUnknown: 80}, set("num_workers", "2"))
	together(onTorch("4"), cpuDevice, stepsAt("time.sleep(1)", "", 0.9))(s)
	if got := judge(s, s.Recent); got.Class == ScriptBound {
		t.Errorf("with a DataLoader: %s", got.Text)
	}
	left(s)
	got := judge(s, s.Recent)
	if got.Class != ScriptBound || !strings.Contains(got.Text, "train.py:42") {
		t.Errorf("without one: %s", got.Text)
	}
}

// left puts all steps into a segment of a loop without a DataLoader, after a segment
// with one.
func left(s *trace.Snapshot) {
	s.Segments = append(s.Segments, trace.Segment{Index: 1, ByScript: true})
	for i := range s.Recent {
		s.Recent[i].Segment = 1
	}
	for i := range s.Lines {
		s.Lines[i].Segment = 1
	}
}

// onTorch makes the session one of a training in PyTorch with so many threads.
func onTorch(threads string) func(*trace.Snapshot) {
	return facts(set("torch", "2.15.0"), set(trace.TorchThreads, threads))
}

// facts sets what is known of the host.
func facts(of ...knob.Setting) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) { s.Meta.Host = append(s.Meta.Host, of...) }
}

// TestLead: a knob that may help or harm does not lead where something else takes more time than
// the knob is about.
func TestLead(t *testing.T) {
	o := others{}
	o.add(&Rule{Group: trace.GroupData}, &Finding{Share: 0.4})
	o.add(&Rule{Group: trace.GroupHost}, &Finding{Share: 0.6})
	for _, c := range []struct {
		share, rate float64
		want        int
	}{{0.3, 100, 0}, {0.5, 100, 1}, {0.3, 120, 1}} {
		f := Finding{Value: "4", Share: c.share, Predicted: trace.Prediction{Base: 100, Rate: c.rate, Lo: 80, Hi: 130}}
		if got := f.lead(&o); got != c.want {
			t.Errorf("%+v leads: %d", c, got)
		}
	}
}

// TestSurer: of two knobs that are about equally much time, the one that gains in any case leads.
func TestSurer(t *testing.T) {
	of := func(knob string, share, lo, hi float64) Finding {
		return Finding{Knob: knob, Value: "1", Share: share, Predicted: trace.Prediction{Base: 100, Rate: (lo + hi) / 2, Lo: lo, Hi: hi}}
	}
	plain := Finding{Knob: "c", Value: "1", Share: 0.37}
	for _, c := range []struct {
		name string
		of   []Finding
		want string
	}{
		{"as much", []Finding{of("a", 0.38, 90, 210), of("b", 0.37, 130, 320)}, "b a"},
		{"the third", []Finding{of("a", 0.38, 90, 210), plain, of("b", 0.36, 130, 320)}, "b a c"},
		{"clearly more", []Finding{of("a", 0.38, 90, 210), of("b", 0.30, 130, 320)}, "a b"},
		{"both gain", []Finding{of("a", 0.38, 101, 210), of("b", 0.37, 130, 320)}, "a b"},
		{"both may harm", []Finding{of("a", 0.38, 90, 210), of("b", 0.37, 95, 320)}, "a b"},
		{"not predicted", []Finding{of("a", 0.38, 90, 210), plain}, "a c"},
		{"nothing", nil, ""},
	} {
		surer(c.of, new(others))
		var got []string
		for _, f := range c.of {
			got = append(got, f.Knob)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}
