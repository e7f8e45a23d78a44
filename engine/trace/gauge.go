package trace

import (
	"fmt"
	"math"
	"strings"

	"dev.gpustall/engine/base/knob"
)

// Gauges of the host, sampled about twice a second. One that cannot be measured on a
// machine is not in the session. Shares are in percent, as NVML's are.
const (
	// Of the time of the cores that this process may run on; together 100.
	GaugeCPUOurs   = "host_cpu_ours"
	GaugeCPUOthers = "host_cpu_others"
	GaugeCPUIdle   = "host_idle"

	GaugeRunQueue  = "host_runq"      // of the time in which our threads could run: waiting for a core
	GaugeStarved   = "device_runq"    // the same of the cpu device's threads
	GaugeThrottled = "host_throttled" // of the periods of the cgroup's CPU quota: those in which it ran out

	// Of the time: at least one task of the host waited for it.
	GaugePressureCPU    = "host_pressure_cpu"
	GaugePressureIO     = "host_pressure_io"
	GaugePressureMemory = "host_pressure_memory"

	GaugeHostMemory = "host_memory" // percent of the memory that this process may have: taken, by it and by others

	GaugeMajorFaults = "host_major_faults" // pages a second that this process waited for a disk for
	GaugeDiskRead    = "host_disk_read"    // bytes/s that the host's disks read
	GaugeDiskOurs    = "host_disk_ours"    // bytes/s read from storage for this process
)

// What NVIDIA's driver says lowers the GPU's clock, 0 or 100 (nvmlClocksEventReasons).
const (
	GaugeHot         = "nvml_hot"
	GaugePowerCapped = "nvml_power_capped"
)

// What earlier runs of the same training reached, in samples a second, how many there
// were, and what other processes used of the cores meanwhile, in percent. Recorded once.
const (
	GaugePastRuns   = "past_runs"
	GaugePastMedian = "past_median"
	GaugePastLow    = "past_low"
	GaugePastHigh   = "past_high"
	GaugePastOthers = "past_others" // only where all of them know it
)

// GaugeWorkerBytes is the memory that a worker process of PyTorch's shares with no other, in
// bytes: the mean of some.
const GaugeWorkerBytes = "torch_worker_bytes"

// WorkerStart is the fact of a host that says how workers of PyTorch's begin: fork, spawn or forkserver.
const WorkerStart = "torch worker start"

// WorkersYield is the fact of a session whose iterable data set does not see to it that each worker
// yields a part.
const WorkersYield = "torch workers yield"

// LoaderArguments is the fact of a session that has what a script gives its DataLoader and is no
// knob, as it is written.
const LoaderArguments = "torch loader"

// SampleIs is the fact of a session that counts batches as samples, as nothing tells how many are in one.
const SampleIs = "torch sample"

// BatchOf is the fact of what a batch is made of: "2 tensors, 38.5 MiB in all".
const BatchOf = "torch batch"

// BatchIn reads that fact: how many tensors a batch has, and about how many bytes; 0 where nobody told.
func BatchIn(host []knob.Setting) (tensors, bytes float64) {
	unit := ""
	_, _ = fmt.Sscanf(strings.NewReplacer(",", "", "tensors", "tensor").Replace(knob.ValueOf(host, BatchOf)), "%g tensor %g %s", &tensors, &bytes, &unit)
	return tensors, bytes * math.Pow(1024, float64(max(0, strings.Index("BKMGTPE", (unit + "B")[:1]))))
}

// LighterWorkers is how workers that begin by one of these come to have less memory of their own.
//
// Measured with PyTorch 2.15.0 on Python 3.14.10, beside a data set of 200 MB: one that is forked has
// 10 MB of its own, and of Python's objects half at the end of an epoch in random order; of a fork
// server's 210 to 260 MB, of spawned ones 500 to 550; where the data set is a tensor, 10 and 300 MB.
func LighterWorkers(start string) string {
	switch start {
	case "spawn":
		return "keep what the data set holds in tensors, which workers share in /dev/shm, as each is sent a copy of all else, or begin them by forkserver and call multiprocessing.set_forkserver_preload(['torch']), as PyTorch takes ~300 MB of each that is spawned"
	case "forkserver":
		return "keep what the data set holds in tensors, which workers share in /dev/shm, as each is sent a copy of all else"
	}
	return "keep what the data set holds in arrays (NumPy, tensors) in place of lists and dicts, which each worker copies as it reads them"
}

// GaugeLockWaiting is how many worker processes of PyTorch's waited for a lock that processes
// share, on average. It is sampled where there are two workers or more.
const GaugeLockWaiting = "torch_lock_waiting"

// GaugeWorkerThreads is how many cores threads of worker processes of PyTorch's used that are not
// their main ones, nor the busiest of the others, which may be the one that sends batches.
const GaugeWorkerThreads = "torch_worker_threads"

// GaugeSkipped is how many samples were left out of their batches since the start, because
// they could not be loaded. Recorded when there are more.
const GaugeSkipped = "samples_skipped"

// What was asked of object stores since the start. Recorded when it is more.
const (
	GaugeStoreRequests = "store_requests" // attempts included
	GaugeStoreRetries  = "store_retries"  // requests that were made again
	GaugeStoreRead     = "store_read"     // bytes that came
	GaugeStoreCached   = "store_cached"   // bytes that came from the cache instead
)

// Gauge is a gauge's newest value; false where it has none.
func (s *Snapshot) Gauge(gauge string) (v float64, ok bool) {
	points := s.Gauges[gauge]
	if len(points) == 0 {
		return 0, false
	}
	return points[len(points)-1].V, true
}

// Latest is a gauge's newest value; 0 where it has none.
func (s *Snapshot) Latest(gauge string) float64 {
	v, _ := s.Gauge(gauge)
	return v
}

// Skipped is how many samples were left out of their batches.
func (s *Snapshot) Skipped() int64 {
	return max(s.Outcome.Skipped, int64(s.Latest(GaugeSkipped))) // gauges are not always read
}

// skippedPrefix begins the notes of samples that were left out.
const skippedPrefix = "skipped: "

// NoteSkipped is the text of a note about a sample that was left out, by its error.
func NoteSkipped(why string) string { return skippedPrefix + why }

// SkippedNotes are the notes about samples that were left out, without what each begins
// with. Each sample is named once, and not all are.
func (s *Snapshot) SkippedNotes() []Note {
	var out []Note
	for _, n := range s.Notes {
		if n.Level == LevelSkipped {
			n.Text = strings.TrimPrefix(n.Text, skippedPrefix)
			out = append(out, n)
		}
	}
	return out
}

// GaugeOver is the mean and the largest of a gauge's samples from one moment to
// another, and how many they were.
func (s *Snapshot) GaugeOver(name string, from, to int64) (mean, top float64, n int) {
	top = math.Inf(-1)
	for _, p := range s.Gauges[name] {
		if p.T >= from && p.T <= to {
			mean, top, n = mean+p.V, max(top, p.V), n+1
		}
	}
	return mean / float64(max(n, 1)), top, n
}

// GaugeDuringSteps is GaugeOver while steps ran, but for the first fifth of that:
// NVML's utilisation looks back up to a second, into the preparations.
func (s *Snapshot) GaugeDuringSteps(name string) (mean, top float64, n int) {
	if s.Total.Steps == 0 {
		return 0, math.Inf(-1), 0
	}
	to := s.Last.End
	return s.GaugeOver(name, s.First.Start+(to-s.First.Start)/5, to)
}
