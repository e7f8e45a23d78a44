package loader

// ceiling keeps full batches, which Next serves again and again while the knob is on. The
// caller holds at most hold-1 of them when it calls Next, so one is always free. Batches are
// loaded as usual until hold of them are kept, and for the short batch at the end of an epoch.
// Loader.mu guards it.
type ceiling struct {
	hold    int  // Options.Hold
	batches list // kept, and not the caller's
	claimed int  // slots kept or to be kept
}

func newCeiling(hold int) ceiling { return ceiling{hold: hold, batches: list{which: inState}} }

// serves reports whether the next batch of e is a kept one, so that no worker may load it.
func (c *ceiling) serves(e *epoch, k *Knobs) bool {
	return k.Ceiling && c.claimed >= c.hold && e.full(k.BatchSize)
}

// claim marks s to be kept when its batch, the next one of e, is released, if the ceiling
// needs one more.
func (c *ceiling) claim(s *slot, e *epoch, k *Knobs) {
	if s.keep = k.Ceiling && c.claimed < c.hold && e.full(k.BatchSize); s.keep {
		c.claimed++
	}
}

// unclaim makes s a slot that is not kept.
func (c *ceiling) unclaim(s *slot) {
	if s.keep {
		s.keep = false
		c.claimed--
	}
}

// put keeps the batch of s.
func (c *ceiling) put(s *slot) {
	s.state = kept
	c.batches.push(s)
}

// forget frees the kept slots.
func (c *ceiling) forget(t *slots) {
	for _, s := range t.all {
		s.keep = false
	}
	c.claimed = 0
	for s := c.batches.pop(); s != nil; s = c.batches.pop() {
		t.put(s)
	}
}
