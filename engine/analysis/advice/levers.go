package advice

import (
	"strconv"

	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// levers says what the loader's knobs can still change.
type levers struct {
	time   *deviceTime
	knobs  *inForce
	tried  *history
	host   *host
	loader *loader
	script *script
}

// morePrefetch returns the prefetch_factor to try. It returns false where the factor is already
// the largest, or not known.
func (l *levers) morePrefetch() (factor int, ok bool) {
	n, known := l.knobs.number("prefetch_factor")
	most := l.knobs.limit("prefetch_factor", 16)
	return min(max(2*n, 2), most), known && n < most
}

// ordered reports whether turning in_order off may help. It does not help where batches are late
// because cores are short, whatever their order.
func (l *levers) ordered() bool {
	return l.knobs.value("in_order") == "on" && !l.tried.refused("in_order", "off") && !l.loader.computing()
}

// loads returns the share of the time lost to loading itself, which more or fewer workers
// change. It leaves out the sampler, which runs in the loop, and the cost of epochs' starts.
func (l *levers) loads() float64 {
	share := l.time.DataShare() - l.time.Share(trace.CauseStartup) - l.time.Share(trace.CausePin) - l.time.Share(trace.CauseSampler) - l.loader.taking()
	if _, ok := l.morePrefetch(); ok {
		share -= l.time.Share(trace.CausePrefetch)
	}
	if l.ordered() {
		share -= l.time.Share(trace.CauseOrder)
	}
	if l.time.opensMost() {
		share = min(share, l.time.DataShare()-l.time.opening)
	}
	return share
}

// moreWorkers returns the number of workers to try. Where more cannot help, the result is
// at most the current number.
func (l *levers) moreWorkers() int {
	most := l.knobs.limit("num_workers", trace.MaxWorkers)
	now := l.loader.workers
	if spec := knob.SpecOf(l.knobs.specs, "num_workers"); spec != nil && spec.Bound != "" && now >= most {
		most = trace.MaxWorkers // then what would allow more is told
	}
	if now == 0 && l.loader.hidden() >= 0.1 {
		now = 1 // loading inline overlaps the device's work as one worker's would
	}
	value := max(1, 2*now)
	if n, known := l.enough(); known && n > now {
		value = n
	}
	if l.loader.computing() {
		if (!l.host.Crowded() || l.host.Grouped() && l.host.Grown(l.host.All) < 1+moderate) && l.loader.workers > 0 {
			return l.loader.workers
		}
		full := l.host.Whole()
		if !l.host.device || l.script.blocked() >= mostly { // else the device's own threads would share the cores with more workers
			w := l.loader.Batch
			runnable := (w.Core + w.Waiting) / (w.Core + w.Waiting + w.Blocked)
			full = max(full, min(2*now, int(2*l.host.All/runnable)))
		}
		most = min(most, full)
		if l.host.Crowded() && !l.host.Grouped() { // the kernel shares cores thread by thread, so two threads get more turns than one
			value = max(value, 2)
		}
	} else if !l.host.Known && l.host.All > 0 && !l.loader.Reading() {
		most = min(most, l.host.Whole())
	}
	value = min(value, most, max(8, 4*l.loader.workers))
	for !l.loader.computing() && value > l.loader.workers && l.tried.refused("num_workers", strconv.Itoa(value)) {
		value = (value + l.loader.workers) / 2
	}
	return value
}

// enough returns how many workers load as fast as the device computes or, if the cores are
// slower, as fast as those allow. known is false where that cannot be told.
func (l *levers) enough() (workers int, known bool) {
	c, known := l.loader.capacity()
	if !known {
		return 0, false
	}
	return predict.WorkersFor(c.Fastest(l.host.All), l.loader.Batch, l.host.All), true
}

// winnable returns the share of the time that a loader which is never late would win, as far as the
// cores allow. It is 1 where that is not known.
func (l *levers) winnable() float64 {
	c, known := l.loader.capacity()
	if !known {
		return 1
	}
	return 1 - c.Fastest(l.host.All)*float64(l.time.Steps)/float64(l.time.Active())
}

// longerQueue returns the prefetch_factor beyond which a longer queue is predicted to gain little
// more. It is 0 where it gains little at all.
func (l *levers) longerQueue() (factor int) {
	now, _ := l.knobs.number("prefetch_factor")
	best := 1.
	for n := 2 * now; now > 0 && n <= min(predict.LongQueue(l.loader.workers), l.knobs.limit("prefetch_factor", 16)); n *= 2 {
		p, ok := l.knobs.predict(knob.Setting{Name: "prefetch_factor", Value: strconv.Itoa(n)})
		if g := predict.Gain(p).Value; ok && g >= (1+moderate)*best {
			factor, best = n, g
		}
	}
	return factor
}

// keepsUp reports whether the workers build batches as fast as the device takes them,
// on average.
func (l *levers) keepsUp() bool {
	n, known := l.enough()
	return known && l.loader.workers >= n && !l.loader.computing() && l.time.Load <= l.time.Busy*int64(l.loader.workers)
}
