package command

import (
	"time"

	"dev.gpustall/engine/host"
	"dev.gpustall/engine/trace"
)

// startHostGauges samples the host for a process that is not ours and all that descend
// from it, and what the threads of the one that trains wait for cores. stop ends it.
func startHostGauges(r *trace.Recorder, root, trains int) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer recoverTo(r, "sample the gauges")
		machine := host.NewOf(func() []int { return host.Family(root) })
		defer machine.Close()
		loop := host.NewOf(func() []int { return []int{trains} })
		defer loop.Close()
		before, was := machine.Sample(), loop.Threads()
		tick := time.NewTicker(hostEvery * gaugePeriod)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			now := machine.Sample()
			for _, rate := range host.Rates(before, now) {
				if rate.Known {
					r.Gauge(rate.Gauge, rate.Value)
				}
			}
			before = now
			if m := host.ReadMemory(); m.Limit > 0 {
				r.Gauge(trace.GaugeHostMemory, min(100, 100*float64(m.Held+m.Others)/float64(m.Limit)))
			}
			is := loop.Threads()
			if share, known := is.Starved(was); known {
				r.Gauge(trace.GaugeStarved, 100*share)
			}
			was = is
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
