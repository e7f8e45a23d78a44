package advice

import (
	"fmt"
	"math"
	"strconv"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
)

// advise names one knob and a value for it, by rules that follow from what was
// measured. It predicts no gain.
func (v *Verdict) advise(c *situation) {
	switch v.Group {
	case trace.GroupData:
		v.adviseLoader(c)
	case trace.GroupCopy:
		switch {
		case c.can("pin_memory"):
			v.try(c, "pin_memory", "on", "page-locked memory is copied at full speed and while the host goes on")
		case c.can("device_transforms"):
			v.try(c, "device_transforms", "on", "uint8 pixels are a quarter of the bytes of float32")
		default:
			v.Advice = "copy less: smaller samples or a narrower type; the loader is not what is late"
		}
	case trace.GroupLaunch:
		batch, known := c.number("batch_size")
		switch {
		case c.can("capture"):
			v.try(c, "capture", "on", "a captured graph is one call where the step now makes many")
		case known && 2*batch <= c.limit("batch_size", 1<<20):
			v.try(c, "batch_size", strconv.Itoa(2*batch), "the same number of launches then does twice the work; the training changes with it")
		default:
			v.Advice = "enqueue less: larger batches or fewer, fused launches"
		}
	case trace.GroupSync:
		v.Advice = "look at results less often: the host waits for the device and then has nothing enqueued"
	case trace.GroupUnknown:
		v.Advice = "look at the timeline: the host was neither loading, copying, enqueuing nor waiting in these gaps"
	case trace.GroupNone:
		v.Advice = "the loader keeps up and no setting of it can gain more than the share lost to data; a faster step must come from the model, its precision or the device"
		if c.flags&trace.FlagCeiling != 0 {
			v.Advice = "this is the ceiling, with cached batches: turn ceiling off to see how near the loader comes"
		}
	}
	if c.flags&trace.FlagInjected != 0 && v.Group == trace.GroupData {
		v.Advice += "; part of this bottleneck is injected, so the other way is to stop injecting it"
	}
}

func (v *Verdict) try(c *situation, knob, value, why string) {
	v.Knob, v.Value = knob, value
	from := c.knob(knob)
	if from != "" {
		from += " -> "
	}
	v.Advice = fmt.Sprintf("try %s %s%s: %s", knob, from, value, why)
}

// adviseLoader picks what would have the next batch ready in time.
func (v *Verdict) adviseLoader(c *situation) {
	workers, known := c.number("num_workers")
	prefetch, prefetched := c.number("prefetch_factor")
	switch {
	case c.flags&trace.FlagCeiling != 0:
		v.Advice = "the batches are cached and the loader is bypassed: turn ceiling off to judge it"
	case !known && c.imported:
		v.Advice = "raise the DataLoader's num_workers: the trace does not tell its value"
		v.Knob = "num_workers"
	case !known:
		v.Advice = "raise num_workers: its value in this session is not known"
		v.Knob = "num_workers"
	case v.Dominant == trace.CauseStartup && workers > 0 && c.can("persistent_workers"):
		v.try(c, "persistent_workers", "on", "workers then live on from epoch to epoch instead of starting again")
	case v.Dominant == trace.CausePrefetch && prefetched && prefetch < c.limit("prefetch_factor", 16):
		v.try(c, "prefetch_factor", strconv.Itoa(min(max(2*prefetch, 2), c.limit("prefetch_factor", 16))),
			"workers stood idle because they were not allowed to load further ahead")
	case v.Dominant == trace.CausePin:
		v.Advice = "page-locking is slow here: keep batch_size and the worker count constant so that slots are locked once, or turn pin_memory off"
	case c.straggler >= 0 && c.knob("in_order") == "on":
		v.try(c, "in_order", "off", fmt.Sprintf("worker %d takes %s the time of the median worker for a batch, and the others wait for it; the order of samples changes", c.straggler, figures.Prose.Ratio(figures.Rough(c.straggles))))
	default:
		v.adviseWorkers(c, workers)
	}
}

// adviseWorkers raises num_workers to what the measured times ask for: worker
// time per batch over device time per batch, when batches are to be built as fast
// as the device uses them up. Work that computes needs a core for each worker;
// work that waits for reads does not. Each worker holds batches in memory, so the
// step is at most fourfold.
func (v *Verdict) adviseWorkers(c *situation, workers int) {
	need := 0
	if c.b.Busy > 0 {
		need = int(min(math.Ceil(float64(c.b.Load)/float64(c.b.Busy)), trace.MaxWorkers))
	}
	most := c.limit("num_workers", trace.MaxWorkers)
	reading := v.Dominant == trace.CauseRead || v.Dominant == trace.CauseWorkers && c.reading()
	if !reading && c.threads > 0 {
		most = min(most, max(c.threads, 1))
	}
	per := ""
	if c.b.Load > 0 && c.b.Steps > 0 {
		per = fmt.Sprintf("a batch takes %s of worker time and %s on the device", figures.Prose.Time(c.b.Load/int64(c.b.Steps)), figures.Prose.Time(c.b.Busy/int64(c.b.Steps)))
	}
	switch {
	case workers < most:
		why := per
		if workers == 0 {
			why = join("without workers nothing is loaded while the device computes", per)
		} else if reading {
			why = join("reads wait rather than compute, so more of them can wait at once", per)
		}
		value := min(max(need, workers+1), most)
		if reading {
			value = min(max(value, 2*workers), most)
		}
		value = min(value, max(4, 4*workers))
		v.try(c, "num_workers", strconv.Itoa(value), why)
	case reading:
		v.Advice = join("num_workers is at its most and reads are still late: put the data on faster storage or into larger files", per)
	case c.can("device_transforms") && v.Dominant != trace.CauseDecode && !c.hostDevice:
		v.try(c, "device_transforms", "on", join(fmt.Sprintf("every one of the %d threads has a worker; this moves work off the host", c.threads), per))
	default:
		v.Advice = join(fmt.Sprintf("num_workers already equals the %d threads of this host: make a sample cheaper (store it decoded or smaller), or use a host with more cores", c.threads), per)
	}
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}
