package loader

// resize makes or retires slots after a knob change. Called with mu held.
func (l *Loader) resize() {
	for len(l.slots) < l.wantSlots() {
		s := &slot{}
		s.release = func(*Batch) { l.release(s) }
		l.slots = append(l.slots, s)
		l.free.push(s)
	}
	l.trim()
}

func (l *Loader) wantSlots() int { return l.k.InFlight() + l.hold }

// trim retires slots that came free and are too many. Called with mu held.
func (l *Loader) trim() {
	for len(l.slots) > l.wantSlots() && l.free.n > 0 {
		s := l.free.pop()
		for i := range l.slots {
			if l.slots[i] == s {
				last := len(l.slots) - 1
				l.slots[i], l.slots[last] = l.slots[last], nil
				l.slots = l.slots[:last]
				break
			}
		}
		l.scrap = append(l.scrap, s)
	}
}

// sweep frees the memory of retired slots, outside the lock because page-locked
// memory takes the driver long.
func (l *Loader) sweep() {
	for {
		l.mu.Lock()
		n := len(l.scrap)
		if n == 0 {
			l.mu.Unlock()
			return
		}
		s := l.scrap[n-1]
		l.scrap = l.scrap[:n-1]
		l.mu.Unlock()
		l.drop(s)
	}
}

// release is Batch.Release.
func (l *Loader) release(s *slot) {
	l.mu.Lock()
	if s.state != held { // released twice
		l.mu.Unlock()
		return
	}
	l.held--
	s.state = free
	switch {
	case l.closed:
		s.state = gone
		l.mu.Unlock()
		l.drop(s)
		return
	case s.keep:
		s.state = kept
		l.kept.push(s)
	default:
		l.free.push(s)
		l.trim()
	}
	l.wakeWorker()
	l.wakeNext()
	l.mu.Unlock()
}
