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

// These are how often the host is sampled beside the user's training, with a screen and
// without one.
const (
	GaugedShown = hostEvery * gaugePeriod
	GaugedAlone = time.Second
)

// Training is the user's training, as gauges see it.
type Training struct {
	Root int                             // the process of the command; its descendants belong to it
	Main func() bridge.Hello             // the process that trains
	GPU  func() (uuid string, used bool) // NVML's name of the GPU, and whether the training uses it
	Did  func() trace.Rank               // what the loop has done so far
}

// trainingGauges samples the host, the GPU, and the run-queue wait of the threads of a training
// that computes on the host.
type trainingGauges struct {
	Training
	recorder *trace.Recorder

	family  []int // the training's processes
	host    *hostWatch
	loop    *host.Sampler // of the process that trains
	gpu     *nvml.Sampler // nil if none is open
	opened  string        // the UUID of the GPU that was opened last
	threads host.Threads  // at the last sample
	rank    trace.Rank    // at the last sample
}

// StartTrainingGauges starts to sample the gauges of the user's training, once every so often.
func StartTrainingGauges(r *trace.Recorder, t Training, every time.Duration) *Task {
	return Go(r, "sample the gauges", func(quit <-chan struct{}) {
		g := &trainingGauges{Training: t, recorder: r, family: host.Family(t.Root)}
		g.host = watchHost(host.NewOf(func() []int { return g.family }))
		defer g.host.Close()
		g.loop = host.NewOf(func() []int { return []int{t.Main().PID} })
		defer g.loop.Close()
		defer func() {
			if g.gpu != nil {
				_ = g.gpu.Close()
			}
		}()
		g.threads = g.loop.Threads()
		timer.Repeat(quit, every, func() bool {
			g.sample()
			return true
		})
	})
}

func (g *trainingGauges) sample() {
	g.family = host.Family(g.Root)
	g.host.record(g.recorder)
	threads := g.loop.Threads()
	uuid, used := g.GPU()
	g.open(uuid)
	recordNVML(g.recorder, g.gpu)
	rank := g.Did()
	if share, known := threads.Starved(g.threads); known && !used {
		lost, counted := withoutCore(share, &g.rank, &rank, g.Main().Threads)
		if !counted { // the loop's time is counted once a second
			return
		}
		g.recorder.Gauge(trace.GaugeStarved, 100*lost)
	}
	g.threads, g.rank = threads, rank
}

// open opens the GPU of that name, unless it was the last one.
func (g *trainingGauges) open(uuid string) {
	if uuid == g.opened {
		return
	}
	g.opened = uuid
	s, err := nvml.OpenUUID(uuid)
	if err != nil {
		g.recorder.Note("warn", err.Error())
		return
	}
	if g.gpu != nil {
		_ = g.gpu.Close()
	}
	g.gpu = s
}

// withoutCore looks at the time in which the loop had a batch. It returns the part of that time in
// which the training's threads were ready and had no core. share is the run-queue wait as a part of
// the time in which any thread could run. That time is short if the threads sleep or wait for other
// processes. Then the share says nothing of the training's time, because a late wake-up delays the
// training only for as long as it lasts. If the loop's time was not counted meanwhile, or not
// split, counted is false.
func withoutCore(share float64, before, now *trace.Rank, threads int) (lost float64, counted bool) {
	body := float64(now.Body - before.Body)
	core, waiting := float64(now.Core-before.Core), float64(now.Waiting-before.Waiting)
	if body <= 0 || now.Core+now.Waiting <= 0 {
		return 0, false
	}
	lost = waiting / body
	if threads > 1 { // while the loop's thread computes it waits for the others
		lost = max(lost, share*(core+waiting)/body)
	}
	return min(1, lost), true
}
