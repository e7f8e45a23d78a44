package predict

import "math"

// Bounds of the factor by which measured loads are corrected.
const (
	leastFactor, mostFactor = 0.6, 1.7
	closeEnough             = 0.01 // of the step time
)

// calibrate makes the simulation of the settings in force agree with the measured rate. Where the
// device waits for data, it multiplies the loads by one factor. Elsewhere it makes the device idle
// between steps for as long as is missing. The rest is a factor of all times. Beside others, the device takes no longer for a
// step than busy ns, as measured.
func (m *Model) calibrate(data, busy float64) {
	p := &m.plant
	want := 1e9 * m.now.size() / m.rate
	m.calibrateLack()
	// The kernel lets a thread that has slept run sooner than others of its group that always want a core.
	longer := func() float64 { return m.base.busy - p.gap - busy }
	if p.blocked > 0 && m.handing.lack > 0 && longer() > little*busy {
		m.search(&p.prompt, 0, 1, func() bool { return longer() < 0 })
	}
	if over := m.base.step - want; over > 0 && m.handing.lack > 0 { // the loop also waits for a core while it would wait for data anyway
		p.host = max(0, p.host-over)
		if m.base = p.flow(); m.base.step > want { // or for workers that end
			rest := min(m.base.step-want, m.handing.taking/2)
			p.gap, m.handing.taking = max(0, p.gap-rest), m.handing.taking-rest
			m.base = p.flow()
		}
	}
	limited := func() bool { return data >= 0.03 || m.base.step > want && m.base.data >= 0.03 }
	if limited() {
		loads := append([]demand(nil), p.load...)
		late := append([]float64(nil), p.late...)
		for range 4 {
			off := want / m.base.step
			if math.Abs(math.Log(off)) < closeEnough {
				break
			}
			m.fitted = min(mostFactor, max(leastFactor, m.fitted*off))
			for i, d := range loads {
				p.load[i] = demand{d.core * m.fitted, d.blocked * m.fitted}
			}
			for i, ns := range late {
				p.late[i] = ns * m.fitted
			}
			m.base = p.flow()
		}
	} else if missing := want - m.base.step; missing > closeEnough*want {
		p.gap += missing
		m.base = p.flow()
	}
	m.scale = want / m.base.step
}

// unevenness is the share of the cores that idles while as many threads as there are cores want one
// (bad luck, likely, good luck). The kernel keeps a queue for each core. Now and then two threads
// wait in one queue while another is empty (Lozi et al., "The Linux scheduler: a decade of wasted
// cores", EuroSys 2016).
var unevenness = [3]float64{0.25, 0.12, 0}

// mostUneven is the largest unevenness that calibration assumes.
const mostUneven = 0.35

// calibrateLack makes the simulated workers wait for a core as long as the measured ones did.
//
// Where they would wait longer, the cores are used more evenly than assumed, or others want fewer
// cores than they have. Where they would wait less, and some cores were idle, the cores are used
// less evenly. The rest of the waiting passes whenever a thread wakes up, whoever else has the
// cores.
func (m *Model) calibrateLack() {
	p := &m.plant
	want := m.loading.Waiting
	lacks := func() bool { return m.base.lack < want }
	m.uneven = unevenness
	p.uneven = m.uneven[1]
	m.base = p.flow()
	far := 0.01 * m.loading.Core
	if m.base.lack > 1.1*want+far {
		if m.search(&p.uneven, 0, p.uneven, lacks) {
			m.evenly()
		}
		if m.base.lack > 1.1*want+far && p.rivals > 0 {
			m.search(&p.rivals, 0, p.rivals, lacks)
		}
	}
	c := &m.Capacity.Cores
	if idle := c.Left() - c.Ours; want > m.base.lack+far && c.Known && idle > little*c.All {
		if m.search(&p.uneven, p.uneven, mostUneven, lacks) {
			m.evenly()
		}
	}
	if late := want - m.base.lack; late > far {
		p.wake = late
		m.base = p.flow()
	}
	m.grouped = m.inGroups(want)
}

// search halves the range of a quantity until the simulation agrees with the measurement; below
// reports whether the quantity must be larger. It returns whether the simulation depends on it at
// all.
func (m *Model) search(of *float64, least, most float64, below func() bool) bool {
	before := m.base
	for range 4 {
		*of = (least + most) / 2
		if m.base = m.plant.flow(); below() {
			least = *of
		} else {
			most = *of
		}
	}
	return math.Abs(m.base.lack-before.lack) > 0.01*m.loading.Core
}

// evenly uses the calibrated unevenness as if it were measured.
func (m *Model) evenly() {
	of := m.plant.uneven
	m.uneven = [3]float64{1.3 * of, of, 0.7 * of}
}

// inGroups reports whether the kernel may share out the cores between groups of processes. It
// simulates workers that have the cores which others leave, and no rivals on them. The answer is
// yes where those workers wait for a core about as long as was measured, or less.
func (m *Model) inGroups(want float64) bool {
	if m.plant.rivals <= 0.1 || m.portion <= 0 {
		return false
	}
	p := m.plant
	p.cores, p.rivals = m.portion, 0
	lack := p.flow().lack
	return lack < 1.5*want+0.05*m.loading.Core
}
