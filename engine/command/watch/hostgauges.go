//go:build linux

package watch

import (
	"time"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/device/nvml"
	"dev.gpustall/engine/torch/bridge"
	"dev.gpustall/engine/trace"
)

// How often the host is sampled for a training of the user's: on the screen, and without one.
const (
	GaugedShown = hostEvery * gaugePeriod
	GaugedAlone = time.Second
)

// StartTrainingGauges samples the host every so often for a process that is not ours and all
// that descend from it, its GPU, and what the threads of the one that trains wait for cores where it
// computes on those; on is NVML's name of the GPU, if it uses one, and did what its loop did so far.
// stop ends it.
func StartTrainingGauges(r *trace.Recorder, root int, hello *bridge.Hello, on func() (uuid string, used bool), did func() trace.Rank, every time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer Recover(r, "sample the gauges")
		family := host.Family(root)
		watched := watchHost(host.NewOf(func() []int { return family }))
		defer watched.Close()
		loop := host.NewOf(func() []int { return []int{hello.PID} })
		defer loop.Close()
		var gpu *nvml.Sampler
		asked := "" // of which GPU
		was, loops := loop.Threads(), trace.Rank{}
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
			watched.record(r)
			is := loop.Threads()
			uuid, used := on()
			if uuid != asked {
				asked = uuid
				s, err := nvml.OpenUUID(uuid)
				if err != nil {
					r.Note("warn", err.Error())
				} else {
					gpu = s
					defer gpu.Close()
				}
			}
			if gpu != nil {
				for _, v := range gpu.Read() {
					r.Gauge(v.Name, v.Value)
				}
			}
			k := did()
			if share, known := is.Starved(was); known && !used {
				lost, counted := withoutCore(share, &loops, &k, hello.Threads)
				if !counted { // it is, once a second
					continue
				}
				r.Gauge(trace.GaugeStarved, 100*lost)
			}
			was, loops = is, k
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// withoutCore is the share of the time with a batch in hand that the training's threads had no
// core. share is that of the time in which any of its threads could run, of which there is little
// where they sleep or wait for other processes: one that is woken late now and then holds up the
// training for that long, and no longer.
// False where the loop's time was not counted meanwhile.
func withoutCore(share float64, before, now *trace.Rank, threads int) (lost float64, counted bool) {
	body := float64(now.Body - before.Body)
	core, waiting := float64(now.Core-before.Core), float64(now.Waiting-before.Waiting)
	if now.Core+now.Waiting <= 0 { // not measured
		return share, true
	}
	if body <= 0 {
		return 0, false
	}
	lost = waiting / body
	if threads > 1 { // the others are waited for while the loop's thread computes
		lost = max(lost, share*(core+waiting)/body)
	}
	return min(1, lost), true
}
