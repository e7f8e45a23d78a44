package predict

import (
	"math"
	"slices"
)

// Bounds of the factor by which measured loads are corrected.
const (
	leastFactor, mostFactor = 0.6, 1.7
	closeEnough             = 0.01 // of the step time
)

// calibrate makes the simulation of the settings in force agree with the measured rate.
// Where the device waits for data the loads are corrected, by one factor; else the device
// is idle between steps for as long as is missing. What is left is a factor of all times.
func (m *Model) calibrate(data float64) {
	p := &m.plant
	want := 1e9 * float64(m.now.batch) / m.rate
	m.base = p.flow()
	m.calibrateLack()
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
		p.gap = missing
		m.base = p.flow()
	}
	m.scale = want / m.base.step
}

// calibrateLack makes the simulated workers wait for a core as long as the measured ones
// did. Where they would wait longer, others do not want as many cores as they have; where
// they would not wait as long, what is missing passes whenever a thread wakes up, whoever
// else there is.
func (m *Model) calibrateLack() {
	p := &m.plant
	want := m.loading.Waiting
	if m.base.lack > 1.1*want+0.01*m.loading.Core && p.rivals > 0 {
		least, most := 0.0, p.rivals
		for range 4 {
			p.rivals = (least + most) / 2
			if m.base = p.flow(); m.base.lack > want {
				most = p.rivals
			} else {
				least = p.rivals
			}
		}
	}
	if late := want - m.base.lack; late > 0.01*m.loading.Alone() {
		p.load = slices.Clone(p.load)
		for i := range p.load {
			p.load[i].blocked += late
		}
		m.base = p.flow()
	}
}
