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
	GaugeCPUGroup  = "host_cpu_group" // the part of others' that shares cores with this process by the thread

	GaugeRunQueue  = "host_runq"      // waiting for a core, of the time in which our threads could run
	GaugeStarved   = "device_runq"    // the same, of the cpu device's threads
	GaugeThrottled = "host_throttled" // periods in which the cgroup's CPU quota ran out, of all

	// The share of the time in which at least one task of the host waited for it.
	GaugePressureCPU    = "host_pressure_cpu"
	GaugePressureIO     = "host_pressure_io"
	GaugePressureMemory = "host_pressure_memory"

	GaugeHostMemory = "host_memory" // percent of the memory that this process may have: what it and others take

	GaugeMajorFaults = "host_major_faults" // pages a second that this process had to wait for a disk for
	GaugeDiskRead    = "host_disk_read"    // bytes/s that the host's disks read
	GaugeDiskOurs    = "host_disk_ours"    // bytes/s read from storage for this process
)

// GaugeKernels is the share of the time, in percent, in which the GPU ran at least one kernel, as
// NVML samples it.
const GaugeKernels = "nvml_util"

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

// GaugeWorkerBytes is the memory that a worker process of PyTorch shares with no other process, in
// bytes: the mean of some workers.
const GaugeWorkerBytes = "torch_worker_bytes"

// WorkerStart is a fact of the host: how PyTorch starts workers (fork, spawn or forkserver).
const WorkerStart = "torch worker start"

// WorkerSent is a fact of a session: how much is pickled and sent to each worker as it begins, "34.0 MiB".
const WorkerSent = "torch worker sent"

// CPUQuota is a fact of the host: how many cores' time the cgroup allows, as in Quota. It is missing where all is allowed.
const CPUQuota, Quota = "cpu quota", "the cgroup allows the time of %g cores"

// CoresShared is a fact of the host: how the kernel shares out its cores (host.SharedOut).
const CoresShared = "cores shared"

// WorkersYield is a fact of a session whose iterable data set does not divide its samples among the
// workers.
const WorkersYield = "torch workers yield"

// LoaderArguments is a fact of a session: the arguments of the script's DataLoader that are no
// knobs, as they are written.
const LoaderArguments = "torch loader"

// SampleIs is a fact of a session that counts a batch as one sample, because nothing tells how many
// samples are in it.
const SampleIs = "torch sample"

// SampleIsStep is that fact where the loop takes its batches from no DataLoader, and its steps are those of
// its optimizer.
const SampleIsStep = "a step"

// LoopWaits is a fact of a session in which nothing tells what the loop waits for: it has no DataLoader,
// and does not say by gpustall.data() what makes a batch. Only its backward passes and its optimizers' steps are
// known then.
const LoopWaits = "torch waits"

// Alone reports whether that fact holds.
func (m *Meta) Alone() bool { return knob.ValueOf(m.Host, LoopWaits) != "" }

// BatchOf is a fact of a session: what a batch is made of, "2 tensors, 38.5 MiB in all".
const BatchOf = "torch batch"

// BatchIn reads BatchOf: how many tensors a batch has, and about how many bytes. Both are 0 where
// the fact is missing.
func BatchIn(host []knob.Setting) (tensors, bytes float64) {
	unit := ""
	_, _ = fmt.Sscanf(strings.NewReplacer(",", "", "tensors", "tensor").Replace(knob.ValueOf(host, BatchOf)), "%g tensor %g %s", &tensors, &bytes, &unit)
	return tensors, bytes * math.Pow(1024, float64(max(0, strings.Index("BKMGTPE", (unit + "B")[:1]))))
}

// LighterWorkers says how workers that are started in one of these ways can have less memory of
// their own.
//
// Measured with PyTorch 2.15.0 on Python 3.14.10, beside a data set of 200 MB. A forked worker has
// 10 MB of its own. At the end of an epoch in random order it also has half of the Python objects.
// A worker of a fork server has 210 to 260 MB, a spawned one 500 to 550 MB. Where the data set is a
// tensor these are 10 and 300 MB.
func LighterWorkers(start string) string {
	switch start {
	case "spawn":
		return "keep what the data set holds in tensors, which workers share in /dev/shm, as each is sent a copy of all else, or begin them by forkserver and call multiprocessing.set_forkserver_preload(['torch']), as PyTorch takes ~300 MB of each that is spawned"
	case "forkserver":
		return "keep what the data set holds in tensors, which workers share in /dev/shm, as each is sent a copy of all else"
	}
	return "keep what the data set holds in arrays (NumPy, tensors) in place of lists and dicts, which each worker copies as it reads them"
}

// GaugeLockWaiting is how many worker processes of PyTorch wait for a lock that processes share, on
// average. It is sampled where there are two workers or more.
const GaugeLockWaiting = "torch_lock_waiting"

// GaugeWorkerThreads is how many cores the extra threads of PyTorch's worker processes use. It
// leaves out a worker's main thread and the busiest of its other threads, which may be the one that
// sends batches.
const GaugeWorkerThreads = "torch_worker_threads"

// GaugeSkipped is how many samples were left out of their batches since the start because they
// could not be loaded. It is recorded when it grows.
const GaugeSkipped = "samples_skipped"

// What was asked of object stores since the start. Recorded when it is more.
const (
	GaugeStoreRequests = "store_requests" // attempts included
	GaugeStoreRetries  = "store_retries"  // requests that were made again
	GaugeStoreRead     = "store_read"     // bytes that came
	GaugeStoreCached   = "store_cached"   // bytes that came from the cache instead
)

// Gauge returns a gauge's newest value; false where it has none.
func (s *Snapshot) Gauge(gauge string) (v float64, ok bool) {
	points := s.Gauges[gauge]
	if len(points) == 0 {
		return 0, false
	}
	return points[len(points)-1].V, true
}

// Latest returns a gauge's newest value; 0 where it has none.
func (s *Snapshot) Latest(gauge string) float64 {
	v, _ := s.Gauge(gauge)
	return v
}

// Skipped returns how many samples were left out of their batches.
func (s *Snapshot) Skipped() int64 {
	return max(s.Outcome.Skipped, int64(s.Latest(GaugeSkipped))) // gauges are not always read
}

// skippedPrefix begins the text of a note about a sample that was left out.
const skippedPrefix = "skipped: "

// NoteSkipped returns the text of a note about a sample that was left out with this error.
func NoteSkipped(why string) string { return skippedPrefix + why }

// SkippedNotes returns the notes about samples that were left out, without their prefix. Each
// sample has one note at most, and not all samples have one.
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

// GaugeOver returns the mean and the largest of a gauge's samples between two moments, and their
// number.
func (s *Snapshot) GaugeOver(name string, from, to int64) (mean, top float64, n int) {
	top = math.Inf(-1)
	for _, p := range s.Gauges[name] {
		if p.T >= from && p.T <= to {
			mean, top, n = mean+p.V, max(top, p.V), n+1
		}
	}
	return mean / float64(max(n, 1)), top, n
}

// GaugeDuringSteps is GaugeOver over the time of the steps without its first fifth: NVML's
// utilisation looks back up to a second, which would reach into the preparations.
func (s *Snapshot) GaugeDuringSteps(name string) (mean, top float64, n int) {
	if s.Total.Steps == 0 {
		return 0, math.Inf(-1), 0
	}
	to := s.Last.End
	return s.GaugeOver(name, s.First.Start+(to-s.First.Start)/5, to)
}
