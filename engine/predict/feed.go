package predict

import (
	"fmt"

	"dev.gpustall/engine/figures"
)

// Feed says whether this machine can feed the device, in one sentence: yes or no, what it can
// feed at most, what the device takes, which resource is short and by how much; empty where
// that is not known. Reads that wait do so side by side, as many as there are workers.
func (m *Model) Feed() string {
	c := &m.Capacity
	if !m.known || c.CPU <= 0 || c.Device <= 0 {
		return ""
	}
	if c.Spun {
		return "not known: " + c.balance()
	}
	if short := m.short(); short != "" {
		return "no: " + c.balance() + ": " + short
	}
	now, need := max(1, m.now.workers), WorkersFor(c.Device, m.loading, c.Cores.All)
	if n := need - now; n > 0 && m.base.data > dataError {
		return fmt.Sprintf("yes, with about %s more: %s", figures.Counted(n, "worker", "workers"), c.balance())
	}
	if max(c.Copy, c.Host(c.Cores.Left()), m.stored()) > c.Device {
		return "just: " + c.balance()
	}
	return "yes: " + c.balance()
}

// short says which resource is short, and by how much: the one that takes longest for a
// batch, if that is longer than the device takes.
func (m *Model) short() string {
	c := &m.Capacity
	cores, storage := c.Host(c.Cores.Left()), m.stored()
	switch longest := max(c.Copy, cores, storage); {
	case longest <= (1+little)*c.Device:
		return ""
	case longest == c.Copy:
		return fmt.Sprintf("the link is short, a copy takes x%s as long as computing", figures.Rate(c.Copy/c.Device))
	case longest == storage:
		return fmt.Sprintf("the storage is short, it brings ~%s, x%s too few", c.rate(storage), figures.Rate(storage/c.Device))
	}
	return c.lacks(max(1, c.Missing()))
}

// stored is how long the storage takes for a batch at least, in ns; 0 where the session has
// not measured how many reads it serves side by side.
func (m *Model) stored() float64 {
	if !m.stores {
		return 0
	}
	return m.loading.Blocked * m.alone(likely) / m.disk[1]
}
