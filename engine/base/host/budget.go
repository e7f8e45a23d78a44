package host

// Budget limits what measuring costs to a share of the time. What is not used is saved for the next
// measurement.
type Budget struct {
	Share float64
	saved float64 // ns
}

// Earn adds the share of some time, in ns. Savings are never more than two measurements cost,
// however long nothing was measured. Neither is the debt.
func (b *Budget) Earn(time int64, cost float64) {
	b.saved = min(max(b.saved+b.Share*float64(time), -2*cost), 2*cost)
}

// Covers reports whether a measurement that costs so many ns may be made.
func (b *Budget) Covers(cost float64) bool { return b.saved >= cost }

// Spend takes the cost of a measurement, in ns, from the savings.
func (b *Budget) Spend(cost float64) { b.saved -= cost }

// few is how many costs are seen before the first estimate.
const few = 4

// Cost learns how long something takes.
type Cost struct {
	mean float64 // ns
	seen int     // of the first few
}

// See counts one that took so long, in ns. An interrupted one takes far longer than usual. So the
// first estimate is the least of a few, and later one that took more than twice the mean counts as
// twice the mean.
func (c *Cost) See(took int64) {
	v := float64(took)
	if c.seen < few {
		if c.seen++; c.seen == 1 || v < c.mean {
			c.mean = v
		}
		return
	}
	c.mean += (min(v, 2*c.mean) - c.mean) / 16
}

// Of returns how long n of them take, in ns. It is 0 until there is an estimate: if the first
// one was interrupted by another thread, it would suggest to wait minutes for the next.
func (c *Cost) Of(n float64) float64 {
	if c.seen < few {
		return 0
	}
	return n * c.mean
}
