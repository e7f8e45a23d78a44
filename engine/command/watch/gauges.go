// Package watch is what goes on beside a training: gauges, experiments, a watch on the session's
// file, and a search for earlier runs. Each has a goroutine that its owner stops.
package watch

import (
	"time"

	"dev.gpustall/engine/base/host"
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

// Gauges samples NVML, the loader's memory and the host, beside the hot path.
type Gauges struct {
	quit, done chan struct{}
}

// StartGauges starts the sampling. The caller must call Stop.
func StartGauges(r *trace.Recorder, e *train.Engine, d *machine.Device, files *source.Files) *Gauges {
	g := &Gauges{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(g.done)
		defer Recover(r, "sample the gauges")
		var sampler *nvml.Sampler
		if d.Index >= 0 {
			s, err := openNVML(d.Device.Info().UUID, d.Index)
			if err != nil {
				r.Note("warn", err.Error())
			} else {
				sampler = s
				defer s.Close()
			}
		}
		watched := watchHost(host.New())
		defer watched.Close()
		var threads starvation
		threads.sample(d.Device)
		tick := time.NewTicker(gaugePeriod)
		defer tick.Stop()
		skipped := 0
		var stores storeGauges
		for n := 1; ; n++ {
			ended := false
			select {
			case <-g.quit:
				ended = true
			case <-tick.C:
			}
			s := e.Loader()
			if s.Skipped > skipped {
				skipped = s.Skipped
				r.Gauge(trace.GaugeSkipped, float64(skipped))
			}
			stores.look(r, files)
			if ended {
				return
			}
			r.Gauge("queue_ready", float64(s.Ready))
			r.Gauge("queue_cap", float64(s.Capacity))
			r.Gauge("pinned_bytes", float64(s.PinnedBytes))
			machine.RaiseProcessors(s.Workers)
			if n%hostEvery == 0 {
				watched.record(r)
				if share, known := threads.sample(d.Device); known {
					r.Gauge(trace.GaugeStarved, 100*share)
				}
			}
			if sampler != nil {
				for _, v := range sampler.Read() {
					r.Gauge(v.Name, v.Value)
				}
			}
		}
	}()
	return g
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

func (g *Gauges) Stop() {
	close(g.quit)
	<-g.done
}
