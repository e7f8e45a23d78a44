package advice

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
)

// cores are the host's, and who used them over the judged steps, as far as that was
// measured.
type cores struct {
	all          float64 // that this process may use, by affinity and quota; 0 when that is not known
	ours, others float64 // used, on average
	waiting      float64 // share of the time in which our threads could run: without a core
	throttled    bool    // the cgroup's quota ran out
	known        bool    // who used them
}

// settled is how long after a change of knobs a gauge of the host still tells of the
// time before: it looks back to the sample before, half a second.
const settled = 500e6

// watchCores finds the cores from the host's facts and gauges.
func (c *situation) watchCores(s *trace.Snapshot, from, to int64) {
	cpus := 0.0 // that the gauges are shares of: a quota allows less
	for _, h := range s.Meta.Host {
		switch h.Name {
		case "threads":
			c.cores.all, _ = strconv.ParseFloat(h.Value, 64)
		case "cores":
			if c.cores.all == 0 {
				c.cores.all, _ = strconv.ParseFloat(h.Value, 64)
			}
		case "affinity": // "4 cpus: 0-3"
			n, _, _ := strings.Cut(h.Value, " ")
			cpus, _ = strconv.ParseFloat(n, 64)
		}
	}
	if cpus == 0 {
		cpus = c.cores.all
	}
	if to-from > 3*settled {
		from += settled
	}
	gauge := func(name string) (float64, bool) {
		mean, _, n := s.GaugeOver(name, from, to)
		return mean / 100, n > 0
	}
	ours, known := gauge(trace.GaugeCPUOurs)
	others, both := gauge(trace.GaugeCPUOthers)
	c.cores.known = known && both && cpus > 0
	if !c.cores.known {
		return
	}
	c.cores.ours, c.cores.others = ours*cpus, others*cpus
	c.cores.waiting, _ = gauge(trace.GaugeRunQueue)
	throttled, _ := gauge(trace.GaugeThrottled)
	c.cores.throttled = throttled >= moderate
}

// left is what the others leave of the cores.
func (c *cores) left() float64 { return max(c.all-c.others, 0) }

// busy reports whether no core is free for another thread of ours. How much must be
// idle before one is allows for what the gauges cannot resolve, and for a gain that is
// not worth it.
func (c *cores) busy() bool {
	return c.known && (c.throttled || c.left()-c.ours < min(0.06*c.all, 2))
}

// crowded reports whether other processes use so much of the cores that it matters: a
// half of one, or a tenth of many.
func (c *cores) crowded() bool { return c.known && c.others >= max(0.5, c.all/10) }

// String says who uses the cores.
func (c *cores) String() string {
	return fmt.Sprintf("other processes use ~%s of the %s", figures.Rate(c.others), figures.Counted(int(c.all), "core", "cores"))
}

// work is what loading a batch takes of a worker, on average, in ns.
type work struct {
	core    float64 // on a core
	waiting float64 // ready to run, without a core
	blocked float64 // on storage, a lock, a timer: it needs no core
}

// alone is what it would take with a core for each worker.
func (w work) alone() float64 { return w.core + w.blocked }

// perBatch divides the worker time of a batch as it was measured. Where it was not, reads
// are taken for blocked and the rest for computing, which waits for a core as often as
// our threads do on average.
func (s *situation) perBatch() (w work) {
	if s.b.Steps <= 0 {
		return w
	}
	load := float64(s.b.Load) / float64(s.b.Steps)
	if m := s.b.Work.Batch; m.Total() > 0 {
		scale := load / float64(m.Total())
		return work{core: scale * float64(m.Core), waiting: scale * float64(m.Waiting), blocked: scale * float64(m.Blocked)}
	}
	part := 0.0
	if s.reading() {
		part = 1
	}
	if all := s.read + s.compute; all > 0 {
		part = float64(s.read) / float64(all)
	}
	w.blocked = part * load
	w.waiting = s.cores.waiting * (load - w.blocked)
	w.core = load - w.blocked - w.waiting
	return w
}

// capacity is what host and device could do at their best, in ns of a batch; an
// estimate from what they did.
type capacity struct {
	cpu    float64 // core time that all of this process takes for a batch
	device float64 // that the device computes, its threads never waiting for a core
	cores  *cores
	batch  float64 // samples in one
	shared bool    // the device computes on the same cores
}

// capacity returns false where there is nothing to estimate it from.
func (s *situation) capacity() (c capacity, ok bool) {
	if s.cores.all == 0 || s.b.Load <= 0 || s.b.Busy <= 0 || s.b.Steps == 0 || s.b.Samples == 0 {
		return c, false
	}
	steps := float64(s.b.Steps)
	c = capacity{device: float64(s.b.Busy) / steps * (1 - s.starved), cores: &s.cores, batch: float64(s.b.Samples) / steps, shared: s.hostDevice}
	switch w := s.perBatch(); {
	case s.cores.known:
		c.cpu = max(s.cores.ours*float64(s.b.Active())/steps, w.core)
	default:
		if c.cpu = w.core + w.waiting; s.workers > int(s.cores.all) { // they took turns
			c.cpu *= s.cores.all / float64(s.workers)
		}
		if s.hostDevice {
			c.cpu += c.device * s.cores.all
		}
	}
	return c, true
}

// host is how long a batch takes with all of the given cores computing.
func (c *capacity) host(cores float64) float64 { return c.cpu / max(cores, 0.01) }

// fastest is how long a batch takes at least, with the given cores.
func (c *capacity) fastest(cores float64) float64 { return max(c.device, c.host(cores)) }

// rate is the samples a second, in words, of a batch that takes so long.
func (c *capacity) rate(batch float64) string { return figures.Rate(1e9*c.batch/batch) + " samples/s" }

// missing is how many cores more the device could use.
func (c *capacity) missing() int { return int(math.Ceil(c.cpu/c.device - c.cores.left())) }

// String says what the host can feed, what the device takes, and what is missing.
func (c *capacity) String() string {
	if c.cpu <= 0 {
		return fmt.Sprintf("the device takes %s", c.rate(c.device))
	}
	feeds := fmt.Sprintf("this host can feed at most ~%s with its %s", c.rate(c.host(c.cores.all)), figures.Counted(int(c.cores.all), "core", "cores"))
	if c.cores.crowded() {
		feeds = fmt.Sprintf("%s, at most ~%s with what those leave", feeds, c.rate(c.host(c.cores.left())))
	}
	takes := fmt.Sprintf("the device takes %s", c.rate(c.device))
	if c.shared {
		takes += " when it has the cores to itself"
	}
	if n := c.missing(); n > 0 {
		takes += fmt.Sprintf(": about %s missing", figures.Counted(n, "core is", "cores are"))
	}
	return feeds + "; " + takes
}

// workersFor is how many workers load a batch every so many ns: as many as batches
// take worker time in that, and a fifth on top, because batches are not alike. More
// than the cores can serve are of no use. It may be more than can be had.
func (s *situation) workersFor(batch float64) int {
	w := s.perBatch()
	n := math.Ceil(1.2 * w.alone() / batch)
	if w.core > 0 && s.cores.all > 0 {
		n = min(n, math.Ceil(s.cores.all*w.alone()/w.core-0.25))
	}
	return int(max(1, min(n, math.MaxInt32)))
}
