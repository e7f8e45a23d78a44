package predict

import (
	"fmt"
	"strconv"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
)

// Feed says in one sentence whether this machine can feed the device. It says what the machine can
// feed at most, what the device takes, which resource is short, and by how much. Feed is empty
// where that is not known. Reads wait side by side, one for each worker.
func (m *Model) Feed() string {
	c := &m.Capacity
	if !m.known || c.CPU <= 0 || c.Device <= 0 {
		return ""
	}
	if c.hides() != "" {
		return "not known: " + c.balance()
	}
	if m.handsOver() {
		return "more without workers, as handing batches over takes cores: " + c.balance()
	}
	balance := c.balance()
	if c.Cores.Crowded() {
		balance += "; " + c.Cores.String()
	}
	longest, short := m.short()
	if longest > (1+little)*c.Device {
		if short != "" {
			short = ": " + short
		}
		return "no: " + balance + short
	}
	answer := "yes"
	if longest > c.Device {
		answer = "nearly"
	}
	switch how, known := m.how(WorkersFor(c.Device, m.loading, c.Cores.All)); {
	case known:
		answer += ", with " + how
	case how != "":
		answer = how
	}
	if c.Cores.Crowded() && c.needed() > c.gets() {
		answer += ", if others left it the cores"
	}
	return answer + ": " + balance
}

// fed reports whether the device hardly waits for data.
func (m *Model) fed() bool { return m.base.data <= dataError }

// usable returns how many cores the loading can use. What others use is not short where the device is fed all the same.
// A training that sleeps most of the time uses less than its share, so what others left is not all that it gets.
func (m *Model) usable() float64 {
	if m.fed() || m.Capacity.Beside {
		return m.Capacity.Cores.All
	}
	return m.Capacity.gets()
}

// handsOver reports whether the loop is predicted to be faster without workers than with any number
// of them on this host. Workers lose time by handing their batches over.
func (m *Model) handsOver() bool {
	if !m.processes || m.now.workers == 0 {
		return false
	}
	p, ok := m.Predict(knob.Setting{Name: numWorkers, Value: "0"})
	return ok && p.Rate > 1e9*m.Capacity.Batch/m.Capacity.Host(m.Capacity.Cores.All)
}

// how says which settings are predicted to let the loader keep up. known is false where there
// are no such settings. The text then says what does not help, or is empty.
func (m *Model) how(need int) (how string, known bool) {
	if spec := knob.SpecOf(m.specs, numWorkers); spec != nil && spec.Max > 0 {
		need = min(need, spec.Max)
	}
	n := need - m.now.workers
	if m.fed() {
		return "", false
	}
	all := max(need, m.now.workers)
	workers, longer := knob.Setting{Name: numWorkers, Value: strconv.Itoa(all)}, knob.Setting{Name: prefetchFactor, Value: strconv.Itoa(max(m.now.ahead(), LongQueue(all)))}
	more := fmt.Sprintf("about %s more", units.Counted(n, "worker", "workers"))
	switch {
	case n > 0 && m.feeds(workers):
		return more, true
	case m.now.workers > 0 && m.feeds(longer):
		return "a longer queue (prefetch_factor)", true
	case n > 0 && m.feeds(workers, longer):
		return more + " and a longer queue (prefetch_factor)", true
	case n > 0:
		return "it has the cores for it, but with more workers and a longer queue the device would still wait", false
	}
	return "", false
}

// LongQueue returns the largest prefetch_factor that is tried with so many workers. Batches take
// memory, and the simulation takes them one by one.
func LongQueue(workers int) int { return min(16, 256/max(1, workers)) }

// feeds reports whether changes make the device hardly wait for data any more, and gain enough to
// matter.
func (m *Model) feeds(changes ...knob.Setting) bool {
	p, ok := m.Predict(changes...)
	return ok && p.Data <= 2*dataError && p.Rate > (1+little)*m.rate
}

// short returns how long a batch takes the resource that takes longest for it, and says by how much that is short.
func (m *Model) short() (longest float64, text string) {
	c := &m.Capacity
	cores, storage := c.Host(m.usable()), m.stored()
	if w := &m.loading; !m.fed() && w.Blocked > w.Core+w.Waiting {
		cores = c.Host(c.Cores.All) // cores are not short, and workers that take turns with other processes get more than what was left
	}
	switch longest = max(c.Copy, cores, storage); longest {
	case c.Copy:
		return longest, fmt.Sprintf("the link is short, a copy takes x%s as long as computing", units.Rate(c.Copy/c.Device))
	case storage:
		return longest, fmt.Sprintf("the storage is short, it brings ~%s, x%s too few", c.rate(storage), units.Rate(storage/c.Device))
	}
	return longest, c.lacks()
}

// stored returns the shortest time in which the storage serves a batch, in ns. It is 0 where the
// session has not measured how many reads the storage serves side by side.
func (m *Model) stored() float64 {
	if !m.stores {
		return 0
	}
	return m.loading.Blocked * m.alone(likely) / m.disk[1]
}
