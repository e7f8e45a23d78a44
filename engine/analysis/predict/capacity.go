package predict

import (
	"fmt"
	"math"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Capacity is what host and device could do at their best, in ns of a batch: an
// estimate from what they did.
type Capacity struct {
	CPU    float64 // core time that all of this process takes for a batch
	Device float64 // that the device computes, its threads never waiting for a core
	Copy   float64 // that its copy to the device takes
	Cores  Cores
	Batch  float64 // samples in one
	Shared bool    // the device computes on the same cores
	Spun   bool    // CPU and Device are of threads that spun while others had no core, and so only the most that they can be

	Segment string // "segment #4", whose steps it rests on, where there are others: with other settings and other neighbours
}

// CapacityOf returns false where there is nothing to estimate it from. starved is the
// share of the time in which the device's threads could run that they had no core, m says
// what the device is, segment what those steps are called (attribution.Among).
func CapacityOf(b *attribution.Breakdown, l *Loading, cores Cores, workers int, starved float64, m *trace.Meta, segment string) (c Capacity, ok bool) {
	if cores.All == 0 || b.Load <= 0 || b.Busy <= 0 || b.Steps == 0 || b.Samples == 0 {
		return c, false
	}
	steps := float64(b.Steps)
	c = Capacity{
		Device: float64(b.Busy) / steps * (1 - starved), Copy: float64(b.Copy) / steps,
		Cores: cores, Batch: float64(b.Samples) / steps, Shared: m.DeviceKind == "cpu", Spun: m.Spins() && starved >= little, Segment: segment,
	}
	switch w := &l.Batch; {
	case cores.Known:
		c.CPU = max(cores.Ours*float64(b.Active())/steps, w.Core)
	default:
		if c.CPU = w.Core + w.Waiting; workers > int(cores.All) { // they took turns
			c.CPU *= cores.All / float64(workers)
		}
		if c.Shared {
			c.CPU += c.Device * cores.All
		}
	}
	return c, true
}

// Host is how long a batch takes with all of the given cores computing.
func (c *Capacity) Host(cores float64) float64 { return c.CPU / max(cores, 0.01) }

// Fastest is how long a batch takes at least, with the given cores.
func (c *Capacity) Fastest(cores float64) float64 { return max(c.Device, c.Host(cores)) }

// rate is the samples a second, in words, of a batch that takes so long.
func (c *Capacity) rate(batch float64) string { return units.Rate(1e9*c.Batch/batch) + " samples/s" }

// Missing is about how many cores more the device could use; an estimate of little more than
// a whole number is not rounded up.
func (c *Capacity) Missing() int { return int(math.Ceil(c.CPU/c.Device - c.Cores.Left() - 0.25)) }

// balance says what the host can feed and what the device takes, and by which steps. What other
// processes left is said where they matter, be it only for whether that is enough.
func (c *Capacity) balance() string {
	in := ""
	if c.Segment != "" {
		in = "in " + c.Segment + " "
	}
	if c.Spun {
		return in + "the training's threads spin on their cores while they wait for one that has none, and so do not show what they would take with the cores to themselves"
	}
	if c.CPU <= 0 {
		return fmt.Sprintf("%sthe device takes %s", in, c.rate(c.Device))
	}
	all, left := c.Host(c.Cores.All), c.Host(c.Cores.Left())
	feeds := fmt.Sprintf("%sthis host can feed at most ~%s with its %s", in, c.rate(all), units.Counted(int(c.Cores.All), "core", "cores"))
	if c.Cores.Crowded() || all <= c.Device && left > c.Device { // no bound: those who take turns with the others get more than what was left
		feeds += fmt.Sprintf(", and other processes left it cores for ~%s", c.rate(left))
	}
	takes := fmt.Sprintf("the device takes %s", c.rate(c.Device))
	if c.Shared {
		takes += " when it has the cores to itself"
	}
	return feeds + "; " + takes
}

// String says what the host can feed, what the device takes, and how many cores are missing.
func (c *Capacity) String() string {
	if n := c.Missing(); c.CPU > 0 && n > 0 && !c.Spun {
		return c.balance() + ": " + c.lacks(n)
	}
	return c.balance()
}

// mostMissing is up to how many times the cores that there are it is said how many are missing: beyond
// that no host has them, and it is the work that is too much.
const mostMissing = 4

// lacks says how many cores are missing.
func (c *Capacity) lacks(n int) string {
	if float64(n) > mostMissing*c.Cores.All {
		return units.Prose.Ratio(units.Rough(c.Host(c.Cores.All)/c.Device)) + " as much"
	}
	return fmt.Sprintf("about %s missing", units.Counted(n, "core is", "cores are"))
}

// WorkersFor is how many workers load a batch every so many ns: as many as batches
// take worker time in that, and a fifth on top, because batches are not alike. More
// than the cores can serve are of no use. It may be more than can be had.
func WorkersFor(batch float64, w Work, cores float64) int {
	n := math.Ceil(1.2 * w.Alone() / batch)
	if w.Core > 0 && cores > 0 {
		n = min(n, math.Ceil(cores*w.Alone()/w.Core-0.25))
	}
	return int(max(1, min(n, math.MaxInt32)))
}
