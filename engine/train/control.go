package train

import (
	"context"
	"sync"
	"sync/atomic"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// control holds what was asked of the run from outside: knobs, a pause, an evaluation.
// Any goroutine may call its methods. The step loop looks at it between two steps.
type control struct {
	wanted     atomic.Pointer[Knobs]
	mu         sync.Mutex // orders changes of wanted, and guards expected
	expected   expectation
	evaluation atomic.Bool
	paused     atomic.Bool
	wake       chan struct{} // wakes a paused step loop; capacity 1
}

// expectation is what was predicted of knobs when they were asked for.
type expectation struct {
	of   Knobs
	says trace.Prediction
}

func (c *control) open(k Knobs) {
	c.wanted.Store(&k)
	c.wake = make(chan struct{}, 1)
}

// with returns the wanted knobs with changes.
func (c *control) with(changes []knob.Setting) (now, k Knobs, err error) {
	now = *c.wanted.Load()
	k = now
	for _, s := range changes {
		if err := k.Set(s.Name, s.Value); err != nil {
			return now, k, err
		}
	}
	return now, k, nil
}

// set asks for changes of knobs, all or none. check may refuse them; predict may be nil.
func (c *control) set(changes []knob.Setting, check func(*Knobs) error, predict func([]knob.Setting) trace.Prediction) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, k, err := c.with(changes)
	if err != nil {
		return err
	}
	if err := check(&k); err != nil {
		return err
	}
	if predict != nil && k != now {
		c.expected = expectation{k, predict(k.List())}
	}
	c.wanted.Store(&k)
	c.nudge()
	return nil
}

// take returns what was predicted for the knobs that take effect.
func (c *control) take(k Knobs) (p trace.Prediction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expected.of == k {
		p, c.expected = c.expected.says, expectation{}
	}
	return p
}

// withdraw takes refused changes back: wanted knobs that still have a value of refused
// return to the value in force. Knobs set in the meantime stay wanted, unless check finds
// them impossible without the refused ones.
func (c *control) withdraw(refused, applied Knobs, check func(Knobs) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := *c.wanted.Load()
	if k == refused {
		k = applied
	}
	was, not, now := applied.List(), refused.List(), k.List()
	for i := range now {
		if not[i] != was[i] && now[i] == not[i] && k.Set(was[i].Name, was[i].Value) != nil {
			k = applied
			break
		}
	}
	if k == refused || check(k) != nil {
		k = applied
	}
	c.wanted.Store(&k)
}

// pause asks the step loop to stop at its next boundary, or to go on.
func (c *control) pause(on bool) {
	c.paused.Store(on)
	c.nudge()
}

// hold waits until the run is to go on.
func (c *control) hold(ctx context.Context) error {
	for c.paused.Load() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wake:
		}
	}
	return nil
}

// nudge wakes the step loop if it is paused.
func (c *control) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
