package advice

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// loader says what the workers and the ready queue did in the steps judged.
type loader struct {
	predict.Loading
	session *session
	time    *deviceTime
	knobs   *inForce
	tried   *history
	host    *host

	workers int              // num_workers
	ready   float64          // the share of the queue that was ready, on average
	queued  bool             // ready is known
	head    attribution.Head // the worker that in_order made the step loop wait for
	headed  bool             // head is known
}

func newLoader(c *situation) loader {
	s := &c.session
	l := loader{session: s, time: &c.time, knobs: &c.knobs, tried: &c.tried, host: &c.host}
	l.Loading = predict.LoadingOf(&c.time.Breakdown, s.Spans, s.from, s.to, &c.host.Cores)
	l.workers, _ = c.knobs.number("num_workers")
	l.ready, l.queued = readyShare(s)
	if c.time.Stall[trace.CauseOrder] > 0 {
		l.head, l.headed = attribution.HeadOf(s.Spans, s.from, s.to)
	}
	return l
}

// judged reports whether the loader was really measured, with known settings, and the device waits
// for it.
func (l *loader) judged() bool {
	_, known := l.knobs.number("num_workers")
	return known && !l.time.ceiling() && l.time.DataShare() >= moderate
}

// starts returns the share of the time that the starts of epochs cost.
func (l *loader) starts() float64 { return max(l.time.Share(trace.CauseStartup), l.time.opening) }

// atStarts reports whether half of the wait for data is at the starts of epochs.
func (l *loader) atStarts() bool { return 2*l.starts() >= l.time.DataShare() }

// times says how long a batch takes a worker and how long it takes the device. The number of
// workers follows from these.
func (l *loader) times() string {
	if l.time.Load <= 0 || l.time.Steps <= 0 {
		return ""
	}
	return fmt.Sprintf("a batch takes %s of worker time and %s on the device", units.Prose.Time(l.time.Load/l.time.Steps), units.Prose.Time(l.time.Busy/l.time.Steps))
}

// hidden returns the share of inline loading that overlaps the device's work.
func (l *loader) hidden() float64 {
	return max(0, 1-float64(l.time.Data())/float64(max(1, l.time.Wait)))
}

// inline says how much of the loading overlaps the device's work where the step loop loads by
// itself.
func (l *loader) inline() string {
	if l.time.Wait <= 0 {
		return "the step loop loads each batch itself"
	}
	if l.hidden() < 0.0005 {
		return "the step loop loads each batch itself, and the device waits meanwhile"
	}
	return fmt.Sprintf("the step loop loads each batch itself, and the device computes during %s of that", units.Prose.Percent(l.hidden()))
}

// computing reports whether cores are what loading lacks: no core is free, and the workers want
// cores. Where the use of cores is not known, three things must hold instead. There are as many
// workers as cores, they do not wait for reads, and they compute for longer than the device.
func (l *loader) computing() bool {
	if !l.host.Known {
		c, known := l.capacity()
		return known && !l.Reading() && l.workers >= l.host.Whole() && c.Host(l.host.All) > c.Device
	}
	w := l.Batch
	return l.host.Busy() && (!l.host.Crowded() || w.Core > w.Blocked)
}

// starved reports whether loading waits for a core longer than for anything else.
func (l *loader) starved() bool { return l.Batch.Waiting > max(l.Batch.Core, l.Batch.Blocked) }

// average compares loader and device over many batches.
func (l *loader) average() string {
	return fmt.Sprintf("on average %s a batch ready every %s, and the device takes %s for one",
		units.Counted(l.workers, "worker has", "workers have"), units.Prose.Time(l.time.Load/l.time.Steps/int64(max(1, l.workers))), units.Prose.Time(l.time.Busy/l.time.Steps))
}

// taking returns the share of the time that the loop spent on taking batches which workers had
// ready.
func (l *loader) taking() float64 {
	if !l.session.pytorch() || l.workers == 0 {
		return 0
	}
	return l.time.Share(trace.CauseDataLoader)
}

// unseen reports whether the workers recorded nothing, because they were started before gpustall was attached.
func (l *loader) unseen() bool {
	return l.session.pytorch() && l.workers > 0 && l.time.Steps > 0 && l.time.Load == 0 && l.taking() > 0
}

// batch says what a batch is made of; empty where that is not known.
func (l *loader) batch() string {
	if of := l.session.fact(trace.BatchOf); of != "" {
		return "a batch is " + of
	}
	return ""
}

// startUp says how long a worker of PyTorch takes to start. It is empty where that is short or not
// known.
func (l *loader) startUp() string {
	if !l.session.pytorch() || l.Start < 10e6 {
		return ""
	}
	text := fmt.Sprintf("each worker is a process that takes ~%s to start, in every epoch", units.Prose.Time(int64(l.Start)))
	if sent := l.session.fact(trace.WorkerSent); sent != "" {
		text += fmt.Sprintf("; %s are pickled and sent to each, one after the other: %s", sent, trace.LighterWorkers("forkserver"))
	}
	return text
}

// cheaper says how a sample can be made cheaper to load.
func (l *loader) cheaper() string {
	if !l.session.pytorch() {
		return "make a sample cheaper (store it decoded or smaller)"
	}
	switch decode, transform := l.Part(trace.KindDecode), l.Part(trace.KindTransform); {
	case l.Part(trace.KindCollate) >= mostly:
		return "make a batch cheaper to put together and hand over (a narrower type such as uint8, converted in the loop; smaller samples; fewer tensors; or a collate_fn that does less)"
	case decode >= transform && decode >= 0.3:
		return "make a sample cheaper (store it smaller or decoded, or decode it with torchvision.io.decode_jpeg in place of PIL)"
	case transform >= 0.3:
		return "make a sample cheaper (torchvision.transforms.v2 on uint8 tensors in place of PIL images, a resize before anything else, or the transform on the GPU)"
	}
	return "make a sample cheaper (store it decoded or smaller, or give the data set __getitems__, which loads a batch at once)"
}

// readyShare measures how full the ready queue was on average, 0 to 1. It uses the queue's
// samples or, where the spans of that time are gone, the gauges. known is false where there
// is neither.
func readyShare(s *session) (share float64, known bool) {
	var sum float64
	n := 0
	for i := range s.Spans {
		if q := &s.Spans[i]; q.Kind == trace.KindQueue && q.Flags > 0 && q.Start >= s.from && q.Start <= s.to {
			sum += min(1, float64(q.Arg)/float64(q.Flags))
			n++
		}
	}
	if n == 0 {
		ready, capacity := s.Gauges["queue_ready"], s.Gauges["queue_cap"]
		for i := range min(len(ready), len(capacity)) {
			if t := ready[i].T; t >= s.from && t <= s.to && capacity[i].V > 0 {
				sum += min(1, ready[i].V/capacity[i].V)
				n++
			}
		}
	}
	return sum / float64(max(1, n)), n > 0
}

// queue names the state of the ready queue: full from 80 %, empty under 20 %. Without workers there
// is no queue, and the wait for data tells the state. A queue whose batches wait for their turn is
// neither full nor empty.
func (l *loader) queue() string {
	inline := l.knobs.value("num_workers") == "0"
	switch {
	case l.time.ceiling(), l.session.imported(): // a trace has neither the queue nor what workers did
		return ""
	case l.queued && !inline && l.ready >= 0.2 && l.time.Share(trace.CauseOrder) >= moderate:
		return ""
	case l.queued && !inline && l.ready >= 0.8:
		return QueueDevice
	case l.queued && !inline && l.ready >= 0.2, l.time.DataShare() < moderate:
		return ""
	case 2*l.time.Share(trace.CauseSampler) >= l.time.DataShare(): // the loop itself is late
		return ""
	}
	if words := queues[l.bound()]; words != "" {
		return words
	}
	if l.Reading() {
		return QueueIO
	}
	if l.time.Load == 0 { // nothing is known of the loader
		return ""
	}
	return QueueCPU
}

// capacity returns what host and device could do at best; false where there is nothing to
// estimate it from.
func (l *loader) capacity() (predict.Capacity, bool) {
	return predict.CapacityOf(&l.time.Breakdown, &l.Loading, l.host.Cores, l.workers, l.host.starved, &l.session.Meta, attribution.Among(l.session.Snapshot, l.tried.rows, l.time.segment))
}

// bound returns what loading is bound by while the device waits for it. Where that was not
// measured, it is what loading is bound by in general.
func (l *loader) bound() trace.Bound {
	if bound := l.time.Held.All().Bound(); bound != trace.BoundUnknown {
		return bound
	}
	return l.time.Work.Batch.Bound()
}

// workersUse returns how many cores the loader's workers use, on average.
func (l *loader) workersUse() float64 {
	if l.workers == 0 {
		return 0
	}
	return l.Batch.Core * float64(l.time.Steps) / float64(max(1, l.time.Active()))
}

// slowestWorker returns the worker with the longest batches, how long these take, and the median
// over the workers, in ns. The median is 0 where there are too few workers.
func (l *loader) slowestWorker() (worker trace.TrackID, its, others float64) {
	var load, batches [trace.NumTracks]int64
	for i := range l.session.Recent {
		st := &l.session.Recent[i]
		if st.Segment == l.time.segment && st.Start >= l.session.from && st.End <= l.session.to && st.Built.Worker >= trace.TrackWorker0 && int(st.Built.Worker) < trace.NumTracks {
			load[st.Built.Worker] += st.Load
			batches[st.Built.Worker]++
		}
	}
	var means []float64
	for t := range load {
		if batches[t] < 3 {
			continue
		}
		mean := float64(load[t]) / float64(batches[t])
		means = append(means, mean)
		if mean > its {
			worker, its = trace.TrackID(t), mean
		}
	}
	if len(means) < 3 {
		return worker, its, 0
	}
	slices.Sort(means)
	return worker, its, means[(len(means)-1)/2]
}
