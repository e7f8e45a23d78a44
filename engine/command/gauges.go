package command

import (
	"fmt"
	"runtime/debug"
	"time"

	"dev.gpustall/engine"
	"dev.gpustall/engine/device/nvml"
	"dev.gpustall/engine/trace"
)

// gaugePeriod is how often gauges are sampled: GPM allows 100 ms at the least.
const gaugePeriod = 250 * time.Millisecond

// gauges samples NVML and the loader's memory, off the hot path.
type gauges struct {
	quit, done chan struct{}
}

func startGauges(r *trace.Recorder, e *engine.Engine, d *opened) *gauges {
	g := &gauges{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(g.done)
		defer recoverTo(r, "sample the gauges")
		var sampler *nvml.Sampler
		if d.index >= 0 {
			s, err := openNVML(d.dev.Info().UUID, d.index)
			if err != nil {
				r.Note("warn", err.Error())
			} else {
				sampler = s
				defer s.Close()
			}
		}
		tick := time.NewTicker(gaugePeriod)
		defer tick.Stop()
		for {
			select {
			case <-g.quit:
				return
			case <-tick.C:
			}
			s := e.Loader()
			r.Gauge("queue_ready", float64(s.Ready))
			r.Gauge("queue_cap", float64(s.Capacity))
			r.Gauge("pinned_bytes", float64(s.PinnedBytes))
			if sampler != nil {
				for _, v := range sampler.Read() {
					r.Gauge(v.Name, v.Value)
				}
			}
		}
	}()
	return g
}

// openNVML asks for the GPU by its UUID, since NVML numbers GPUs otherwise than
// CUDA; a driver that tells none is asked by number.
func openNVML(uuid string, index int) (*nvml.Sampler, error) {
	if uuid == "" {
		return nvml.Open(index)
	}
	return nvml.OpenUUID(uuid)
}

func (g *gauges) stop() {
	close(g.quit)
	<-g.done
}

// recoverTo turns a panic of a side goroutine into a note, so that the training
// goes on and the terminal stays whole.
func recoverTo(r *trace.Recorder, what string) {
	if p := recover(); p != nil {
		r.Note("error", fmt.Sprintf("%s: panic: %v\n%s", what, p, debug.Stack()))
	}
}
