package prepared

// A change of knobs goes through these stages: decide what changes, add up the memory,
// take that memory or refuse, put the change in force. Until the memory is certain, the
// old steps stay and what is in flight runs on.

// change is what new knobs change about the prepared steps.
type change struct {
	to      Knobs
	inForce inForce
	full    Key  // the key of the full batch
	rebuild bool // none of the prepared steps serves the full batch
	need    need // with rebuild
}

// Apply puts knobs in force and prepares the step of their full batch, so that what
// does not fit is refused now. After a refusal, here or elsewhere, Revert goes back to
// the previous knobs. Parameters stay as they are.
func (s *Steps) Apply(k Knobs) error {
	s.before = s.inForce
	c := s.decide(k)
	err := s.addUp(&c)
	if err == nil {
		err = s.take(&c)
	}
	if err == nil {
		err = s.put(&c)
	}
	return err
}

// Revert goes back to what was in force before the latest Apply. Steps are built
// again when batches ask for them.
func (s *Steps) Revert() error {
	s.tuning.use(s.before.basis.tuned)
	s.setBasis(s.before.basis)
	return s.recapture(s.before.capture)
}

// Broken reports whether an Apply that failed left the device of no further use.
func (s *Steps) Broken() bool { return s.budget.broken }

// decide returns what knobs change.
func (s *Steps) decide(k Knobs) change {
	c := change{to: k, inForce: inForce{s.est.basis(k), k.Capture}, full: s.est.trainKeys(k)[0]}
	c.rebuild = c.inForce.basis != s.basis || s.cache.find(c.full) == nil
	return c
}

// addUp adds up the memory that the change needs, and refuses it where the host has too
// little. What kernels need depends on their variants, which are switched here.
func (s *Steps) addUp(c *change) (err error) {
	if err := s.host.check(c.to); err != nil || !c.rebuild {
		return err
	}
	s.tuning.use(c.inForce.basis.tuned)
	c.need, err = s.est.need(c.to)
	return err
}

// take takes the change's memory from the device, or refuses it.
func (s *Steps) take(c *change) error {
	if !c.rebuild {
		return nil
	}
	return s.budget.take(c.to, &c.need, s.basis)
}

// put puts the change in force once the device has finished what is in flight.
func (s *Steps) put(c *change) error {
	if !c.rebuild {
		return s.recapture(c.inForce.capture)
	}
	if err := s.cfg.Quiesce(); err != nil {
		return err
	}
	s.setBasis(c.inForce.basis)
	if err := s.recapture(c.inForce.capture); err != nil {
		return err
	}
	if err := s.buffers.fill(&c.need); err != nil {
		return err
	}
	if s.cache.find(c.full) == nil {
		if _, err := s.build(c.full); err != nil {
			return err
		}
	}
	s.tuning.warn(&c.need)
	return nil
}

// setBasis releases the steps of another basis.
func (s *Steps) setBasis(b basis) {
	if b != s.basis {
		s.cache.clear()
		s.basis = b
	}
}

// recapture turns capture on or off, also for the steps that are already prepared.
func (s *Steps) recapture(on bool) error {
	if on == s.capture {
		return nil
	}
	if err := s.cfg.Quiesce(); err != nil {
		return err
	}
	s.capture = on
	return s.cache.capture(on)
}
