package host

// Budget is what measuring may take: a share of the time, saved up from one measurement
// to the next.
type Budget struct {
	Share float64
	saved float64 // ns
}

// Earn adds the share of some time, in ns. What is saved is never more than two
// measurements cost, however long there was nothing to measure, and neither is the debt.
func (b *Budget) Earn(time int64, cost float64) {
	b.saved = min(max(b.saved+b.Share*float64(time), -2*cost), 2*cost)
}

// Covers reports whether a measurement of such a cost, in ns, may be made.
func (b *Budget) Covers(cost float64) bool { return b.saved >= cost }

// Spend takes out what a measurement cost, in ns.
func (b *Budget) Spend(cost float64) { b.saved -= cost }

// few is how many are seen before there is an estimate of what one takes.
const few = 4

// Cost learns what something takes.
type Cost struct {
	mean float64 // ns
	seen int     // of the first few
}

// See counts in that it took so long, in ns. One that was interrupted says little: the
// first estimate is the least of a few, and later more than twice the mean counts as that.
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

// Of is what n of them take, in ns; 0 until the first estimate is made: one that was interrupted
// for a turn of some other thread would say that minutes are to be waited for the next.
func (c *Cost) Of(n float64) float64 {
	if c.seen < few {
		return 0
	}
	return n * c.mean
}
