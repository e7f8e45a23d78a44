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
}

// onTorch makes the session one of a training in PyTorch with so many threads.
func onTorch(threads string) func(*trace.Snapshot) {
	return func(s *trace.Snapshot) {
		s.Meta.Host = append(s.Meta.Host, knob("torch", "2.15.0"), knob("torch threads", threads))
	}
}
