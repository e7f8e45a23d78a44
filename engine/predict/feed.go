package predict

import (
	"fmt"

	"dev.gpustall/engine/figures"
)

// Feed says whether this machine can feed the device, in one sentence: what it can feed at
// most, what the device takes, which resource is short and by how much; empty where that
// is not known. Reads that wait do so side by side, as many as there are workers.
func (m *Model) Feed() string {
	c := &m.Capacity
	if !m.known || c.CPU <= 0 || c.Device <= 0 {
		return ""
	}
	fastest := c.Host(c.Cores.Left())
	feeds := fmt.Sprintf("this host can feed at most ~%s with the ~%s cores that are left to it", c.rate(fastest), figures.Rate(c.Cores.Left()))
	if !c.Cores.Crowded() {
		fastest = c.Host(c.Cores.All)
		feeds = fmt.Sprintf("this host can feed at most ~%s with its %s", c.rate(fastest), figures.Counted(int(c.Cores.All), "core", "cores"))
	}
	takes := fmt.Sprintf("the device takes %s", c.rate(c.Device))
	if c.Shared {
		takes += " when it has the cores to itself"
	}
	return feeds + "; " + takes + ": " + m.short(fastest)
}

// short says which resource is short, and by how much. fastest is how long a batch takes
// at least with the cores there are, in ns.
func (m *Model) short(fastest float64) string {
	c := &m.Capacity
	if c.Copy > c.Device && c.Copy > fastest {
		return fmt.Sprintf("the link is short, a copy takes x%s as long as computing", figures.Rate(c.Copy/c.Device))
	}
	if n := c.Missing(); n > 0 && fastest > c.Device {
		return fmt.Sprintf("about %s missing", figures.Counted(n, "core is", "cores are"))
	}
	now, need := max(1, m.now.workers), WorkersFor(c.Device, m.loading, c.Cores.All)
	if n := need - now; n > 0 && m.base.data > dataError {
		return fmt.Sprintf("enough, with about %s more", figures.Counted(n, "worker", "workers"))
	}
	return "enough"
}
