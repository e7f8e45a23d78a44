package prepared

import "dev.gpustall/engine/device"

// maxSteps bounds the prepared steps that are kept. They are those of the full batch
// and of the epoch's short last one, the same for evaluations, and those of the
// previous knobs.
const maxSteps = 6

// cache holds the prepared steps, and releases the least recently used ones. It belongs
// to Steps.
type cache struct {
	dev   device.Device
	steps []*Step
	turn  int // counts lookups, to know which step was used last
}

// find returns the step of a batch, or nil when it has to be built.
func (c *cache) find(key Key) *Step {
	for _, s := range c.steps {
		if s.key == key {
			s.used = c.turn
			return s
		}
	}
	return nil
}

// add keeps a step.
func (c *cache) add(s *Step) {
	s.used = c.turn
	c.steps = append(c.steps, s)
}

// makeRoom releases the least recently used step when the cache is full.
func (c *cache) makeRoom() {
	if len(c.steps) < maxSteps {
		return
	}
	old := 0
	for i, s := range c.steps {
		if s.used < c.steps[old].used {
			old = i
		}
	}
	c.steps[old].release(c.dev)
	c.steps = append(c.steps[:old], c.steps[old+1:]...)
}

// clear releases all steps.
func (c *cache) clear() {
	for _, s := range c.steps {
		s.release(c.dev)
	}
	clear(c.steps)
	c.steps = c.steps[:0]
}

// metrics lists the buffers that the steps of a network write their metrics to.
func (c *cache) metrics() (all []device.Buffer) {
	for _, s := range c.steps {
		for i := range s.slots {
			all = append(all, s.slots[i].plan.Metrics)
		}
	}
	return all
}

// capture turns the replay as a graph on or off for all steps.
func (c *cache) capture(on bool) error {
	for _, s := range c.steps {
		if err := s.capture(c.dev, on); err != nil {
			return err
		}
	}
	return nil
}
