package advice

import (
	"fmt"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// hostRules are about what the system lets this process have: CPU time, memory, and a GPU
// at its full clock.
var hostRules = []Rule{
	{Name: "quota", Check: quota},
	{Name: "swap", Check: swap},
	{Name: "memory limit", Check: memoryLimit},
	{Name: "hot", Check: hot},
}

// quota is for a container whose CPU quota runs out while threads want to run. It uses the kernel's
// count of periods (nr_throttled over nr_periods in cpu.stat).
func quota(s *situation) (f Finding, ok bool) {
	throttled, _ := s.session.gauge(trace.GaugeThrottled)
	f = Finding{
		Remedy:   "loader settings won't help: raise the container's CPU quota (docker --cpus, Kubernetes limits.cpu), or make a sample cheaper",
		Evidence: fmt.Sprintf("the quota ran out in %s of its periods", units.Prose.Percent(throttled/100)),
		Share:    max(s.levers.loads(), s.host.lostToHost()),
	}
	if limit := s.session.fact(trace.CPUQuota); limit != "" {
		f.Evidence = join(f.Evidence, limit)
	}
	return f, s.host.Throttled && f.Share >= moderate
}

// faultsOfSwap is how many pages a second this process must wait for before it counts as short of
// memory. A program that starts waits for some pages of its file too.
const faultsOfSwap = 20

// swap is for memory that was moved to a disk. Major faults may also come from a mapped file,
// unless tasks wait for memory too.
func swap(s *situation) (f Finding, ok bool) {
	faults, known := s.session.gauge(trace.GaugeMajorFaults)
	pressure, told := s.session.gauge(trace.GaugePressureMemory)
	f = Finding{
		Remedy: "give the run more memory, or have it need less (batch_size, num_workers, prefetch_factor)",
		Evidence: fmt.Sprintf("%s pages a second had to come back from a disk, and tasks waited for memory %s of the time",
			units.Rate(faults), units.Prose.Percent(pressure/100)),
		Share: min(1, pressure/100),
	}
	return f, known && told && faults >= faultsOfSwap && f.Share >= moderate
}

// memoryShort is the share of this process's allowed memory from which memory counts as short.
// Above it the kernel reclaims what it can, and then ends the process.
const memoryShort = 0.95

// memoryLimit is for a run that the kernel may soon end because of its memory.
func memoryLimit(s *situation) (f Finding, ok bool) {
	top, known := s.session.highest(trace.GaugeHostMemory)
	f = Finding{
		Remedy:   "lower prefetch_factor, num_workers or batch_size, or raise the limit of memory, before the kernel ends the run",
		Evidence: fmt.Sprintf("%s of the memory that this process may have is taken", units.Prose.Percent(top/100)),
	}
	if limit := s.session.fact("memory limit"); limit != "" {
		f.Evidence += " (" + limit + ")"
	}
	if pressure, known := s.session.gauge(trace.GaugePressureMemory); known && pressure/100 >= moderate {
		f.Share = pressure / 100
		f.Evidence = join(f.Evidence, fmt.Sprintf("tasks wait for memory %s of the time", units.Prose.Percent(f.Share)))
	}
	_, swaps := swap(s)
	_, copies := workerMemory(s)
	return f, known && top/100 >= memoryShort && !swaps && !copies
}

// hot is for a GPU whose clock the driver lowers because of heat.
func hot(s *situation) (f Finding, ok bool) {
	share, known := s.session.gauge(trace.GaugeHot)
	f = Finding{
		Remedy:   "cool the GPU: look at its fans, its neighbours and the room",
		Evidence: fmt.Sprintf("the driver lowers the GPU's clock because of heat in %s of the samples%s", units.Prose.Percent(share/100), s.session.warmth()),
	}
	return f, known && share/100 >= moderate
}
