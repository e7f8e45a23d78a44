package advice

import "dev.gpustall/engine/trace"

var torchCases = []ruleCase{
	{"torch threads", true, nil, "num_workers=2", together(onTorch("4"), cpuDevice, gauge(trace.GaugeStarved, 40)), "",
		"call torch.set_num_threads(2) in the script"},
	{"torch threads", false, nil, "num_workers=2", together(onTorch("2"), cpuDevice, gauge(trace.GaugeStarved, 40)), "", "a host with more cores"},
	{"torch threads", false, nil, "num_workers=2", together(onTorch("4"), cpuDevice, gauge(trace.GaugeStarved, 2)), "", "the loader keeps up"},
	{"torch threads", false, nil, "num_workers=2", together(onTorch("4"), gauge(trace.GaugeStarved, 40)), "", "a host with more cores"},
	{"host", true, wait(trace.CauseDecode), "num_workers=4", together(load(20), onTorch("4")), "", "torchvision.io.decode_jpeg"},
	{"host", true, wait(trace.CauseTransform), "num_workers=4", together(load(20), onTorch("4")), "", "torchvision.transforms.v2"},
	{"host", true, wait(trace.CauseFetch), "num_workers=4", together(load(20), onTorch("4")), "", "__getitems__"},
	{"fork after CUDA", true, wait(trace.CauseFetch), "num_workers=0", together(onTorch("4"), onGPU("fork")), "", "multiprocessing_context='spawn'"},
	{"fork after CUDA", false, wait(trace.CauseFetch), "num_workers=0", together(onTorch("4"), onGPU("spawn")), "num_workers 4", ""},
	{"fork after CUDA", false, wait(trace.CauseFetch), "num_workers=2", together(onTorch("4"), onGPU("fork")), "num_workers 4", ""},
	{"fork after CUDA", false, wait(trace.CauseFetch), "num_workers=0", onTorch("4"), "num_workers 4", ""},
	{"worker memory", true, nil, "num_workers=4", together(onTorch("4"), gauge(trace.GaugeWorkerBytes, 1<<30), gauge(trace.GaugeHostMemory, 97)), "",
		"4 worker processes take ~4.00 GiB of memory of their own, 1.00 GiB each, and 97.0 %"},
	{"worker memory", false, nil, "num_workers=4", together(onTorch("4"), gauge(trace.GaugeWorkerBytes, 50<<20), gauge(trace.GaugeHostMemory, 97)), "", "lower prefetch_factor"},
	{"worker memory", false, nil, "num_workers=4", together(onTorch("4"), gauge(trace.GaugeWorkerBytes, 1<<30), gauge(trace.GaugeHostMemory, 60)), "", "the loader keeps up"},
}

// onGPU has the data set make its batches on the GPU, and workers begin in a way.
func onGPU(begin string) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Meta.Host = append(s.Meta.Host, knob("torch batches", "made on the GPU"), knob("torch workers", "begin by "+begin))
	}
}

// onTorch makes the session one of a training in PyTorch with so many threads.
func onTorch(threads string) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Meta.Host = append(s.Meta.Host, knob("torch", "2.15.0"), knob("torch threads", threads))
	}
}
