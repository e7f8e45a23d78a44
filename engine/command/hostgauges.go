//go:build linux

package command

import (
	"time"

	"dev.gpustall/engine/device/nvml"
	"dev.gpustall/engine/host"
	"dev.gpustall/engine/timer"
	"dev.gpustall/engine/torch/bridge"
	"dev.gpustall/engine/trace"
)

// gaugedAlone is how often the host is sampled while nobody looks.
const gaugedAlone = time.Second

// startHostGauges samples the host every so often for a process that is not ours and all
// that descend from it, and what the threads of the one that trains wait for cores. stop
// ends it.
func startHostGauges(r *trace.Recorder, root int, hello *bridge.Hello, every time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer recoverTo(r, "sample the gauges")
		family := host.Family(root)
		machine := watchHost(host.NewOf(func() []int { return family }))
		defer machine.Close()
		loop := host.NewOf(func() []int { return []int{hello.PID} })
		defer loop.Close()
		var gpu *nvml.Sampler
		if hello.CUDA != "" && !hello.Stand && hello.UUID != "" {
			s, err := nvml.OpenUUID(hello.UUID)
			if err != nil {
				r.Note("warn", err.Error())
			} else {
				gpu = s
				defer gpu.Close()
			}
		}
		was := loop.Threads()
		due := time.NewTimer(timer.Left(every))
		defer due.Stop()
		for {
			select {
			case <-quit:
				return
			case <-due.C:
			}
			due.Reset(timer.Left(every))
			family = host.Family(root)
			machine.record(r)
			is := loop.Threads()
			if share, known := is.Starved(was); known {
				r.Gauge(trace.GaugeStarved, 100*share)
			}
			was = is
			if gpu != nil {
				for _, v := range gpu.Read() {
					r.Gauge(v.Name, v.Value)
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
