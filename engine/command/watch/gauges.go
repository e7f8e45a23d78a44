// Package watch runs what goes on beside a training: gauges, experiments, a watch on the
// session's file, and a search for earlier runs. Each has a goroutine that its owner stops.
package watch

import (
	"time"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/command/machine"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/nvml"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/loader/source"
)

// gaugePeriod is how often gauges are sampled. GPM allows no shorter period than 100 ms.
const gaugePeriod = 250 * time.Millisecond

// hostEvery is how many periods pass between two samples of the host. Such a sample costs more
// than all others together, and counts CPU time in ticks of 10 ms.
const hostEvery = 2

// gauges samples the gauges of a run outside of the hot path: those of the loader, of object
// stores, of the host and of NVML.
type gauges struct {
	recorder *trace.Recorder
	engine   *train.Engine
	device   device.Device
	files    *source.Files

	nvml    *nvml.Sampler // nil if there is no NVIDIA GPU
	host    *hostWatch
	threads starvation
	stores  storeGauges
	skipped int
}

// StartGauges starts to sample the gauges of a run.
func StartGauges(r *trace.Recorder, e *train.Engine, d *machine.Device, files *source.Files) *Task {
	return Go(r, "sample the gauges", func(quit <-chan struct{}) {
		g := &gauges{recorder: r, engine: e, device: d.Device, files: files}
		if d.Index >= 0 {
			s, err := openNVML(d.Device.Info().UUID, d.Index)
			if err != nil {
				r.Note("warn", err.Error())
			} else {
				g.nvml = s
				defer s.Close()
			}
		}
		g.host = watchHost(host.New())
		defer g.host.Close()
		g.threads.sample(g.device)
		n := 0
		timer.Repeat(quit, gaugePeriod, func() bool {
			n++
			g.sample(n)
			return true
		})
		g.count(e.Loader().Skipped)
	})
}

// sample takes the n-th sample.
func (g *gauges) sample(n int) {
	s, r := g.engine.Loader(), g.recorder
	g.count(s.Skipped)
	r.Gauge("queue_ready", float64(s.Ready))
	r.Gauge("queue_cap", float64(s.Capacity))
	r.Gauge("pinned_bytes", float64(s.PinnedBytes))
	machine.RaiseProcessors(s.Workers)
	if n%hostEvery == 0 {
		g.host.record(r)
		if share, known := g.threads.sample(g.device); known {
			r.Gauge(trace.GaugeStarved, 100*share)
		}
	}
	recordNVML(r, g.nvml)
}

// count records the gauges that only grow. It is also called at the end, so that the last counts
// are complete.
func (g *gauges) count(skipped int) {
	if skipped > g.skipped {
		g.skipped = skipped
		g.recorder.Gauge(trace.GaugeSkipped, float64(skipped))
	}
	g.stores.look(g.recorder, g.files)
}

// recordNVML records the gauges of a GPU. s may be nil.
func recordNVML(r *trace.Recorder, s *nvml.Sampler) {
	if s == nil {
		return
	}
	for _, v := range s.Read() {
		r.Gauge(v.Name, v.Value)
	}
}

// hostWatch records what the host does.
type hostWatch struct {
	*host.Sampler
	before host.Sample
}

func watchHost(s *host.Sampler) *hostWatch { return &hostWatch{s, s.Sample()} }

// record records what the host did since the last call.
func (g *hostWatch) record(r *trace.Recorder) {
	now := g.Sample()
	for gauge, rate := range machine.Rates(g.before, now) {
		if rate.Known {
			r.Gauge(gauge, rate.Value)
		}
	}
	g.before = now
	if share, known := g.MemoryUsed(); known {
		r.Gauge(trace.GaugeHostMemory, 100*share)
	}
}

// starvation is how long the threads of a device that computes on the host had run and waited at
// the last sample.
type starvation struct{ core, waiting time.Duration }

// sample returns the part of the time since the last sample in which the threads were ready and
// waited for a core.
func (s *starvation) sample(dev device.Device) (share float64, known bool) {
	d, ok := dev.(device.HostKernels)
	if !ok {
		return 0, false
	}
	core, waiting, ok := d.Starved()
	ran, waited := core-s.core, waiting-s.waiting
	s.core, s.waiting = core, waiting
	if !ok || ran+waited <= 0 {
		return 0, false
	}
	return float64(waited) / float64(ran+waited), true
}

// openNVML opens the GPU by its UUID, because NVML and CUDA number GPUs differently. If the
// driver gives no UUID it opens the GPU by its number.
func openNVML(uuid string, index int) (*nvml.Sampler, error) {
	if uuid == "" {
		return nvml.Open(index)
	}
	return nvml.OpenUUID(uuid)
}
