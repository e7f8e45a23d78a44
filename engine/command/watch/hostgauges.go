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

// How often the host is sampled beside the user's training: with a screen, and without one.
const (
	GaugedShown = hostEvery * gaugePeriod
	GaugedAlone = time.Second
)

// StartTrainingGauges samples the host beside the user's training, once every so often, until
// stop is called: root and all its descendants, its GPU, and the run-queue wait of the threads of
// a training that computes on the host. on returns NVML's name of the GPU, and whether the
// training uses one. did returns what the loop has done so far.
func StartTrainingGauges(r *trace.Recorder, root int, hello *bridge.Hello, on func() (uuid string, used bool), did func() trace.Rank,
	every time.Duration) (stop func()) {
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
		asked := "" // the UUID of the GPU that was opened last
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
				if !counted { // it is counted once a second
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

// withoutCore returns the part of the time with a batch in hand in which the training's threads
// were ready and had no core. share is the run-queue wait as a part of the time in which any
// thread could run. That time is short if the threads sleep or wait for other processes: a thread
// that wakes late now and then delays the training for that long only. counted is false if the
// loop's time was not counted meanwhile.
func withoutCore(share float64, before, now *trace.Rank, threads int) (lost float64, counted bool) {
	body := float64(now.Body - before.Body)
	core, waiting := float64(now.Core-before.Core), float64(now.Waiting-before.Waiting)
	if now.Core+now.Waiting <= 0 { // the kernel does not tell
		return share, true
	}
	if body <= 0 {
		return 0, false
	}
	lost = waiting / body
	if threads > 1 { // while the loop's thread computes it waits for the others
		lost = max(lost, share*(core+waiting)/body)
	}
	return min(1, lost), true
}
