//go:build linux

package bridge

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/knob"
)

// Pending returns the changes that were asked for and that the training was not asked for yet.
func (c *Control) Pending() []knob.Setting {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending()
}

func (c *Control) pending() (changes []knob.Setting) {
	if c.wanted == c.asked {
		return nil
	}
	now := KnobTable.List(c.asked)
	for i, k := range KnobTable.List(c.wanted) {
		if k != now[i] {
			changes = append(changes, k)
		}
	}
	return changes
}

// Withdraw gives up the changes that are pending.
func (c *Control) Withdraw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = c.asked
}

// Try begins to find out whether all ranks of this machine can make changes: Answers has what each of them says. The
// error is the reason why none can.
func (c *Control) Try(changes []knob.Setting) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, err := c.with(c.asked, changes)
	if err != nil {
		return err
	}
	if k.Workers > c.asked.Workers && c.script.Workers <= 1 {
		c.trials++
		atomic.AddUint64(c.word(wordSequence), 1)
		atomic.StoreUint64(c.word(wordTried), uint64(k.Workers))
		atomic.StoreUint64(c.word(wordTrials), c.trials)
		atomic.AddUint64(c.word(wordSequence), 1)
	}
	return nil
}

// late is how long after changes were agreed on a rank makes them that has not come to their step.
const late = 10 * time.Second

// ApplyAt asks the training for changes, from a step on.
func (c *Control) ApplyAt(changes []knob.Setting, step int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pending := c.pending()
	k, err := c.with(c.asked, changes)
	if err != nil {
		return err
	}
	if c.Predict != nil && k != c.asked && k != c.wanted {
		c.expects[k] = c.Predict(KnobTable.List(k))
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	c.write(k, step, now.Nano()+late.Nanoseconds())
	if c.wanted, err = c.with(k, pending); err != nil {
		c.wanted = k
	}
	return nil
}

// Together has changes agreed on, which agree is told of, instead of asked of the training at once. nil: they are asked
// of it.
func (c *Control) Together(agree func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agree = agree
}

// together reports whether changes are agreed on.
func (c *Control) together() bool {
	if c == nil { // of a bridge without a training
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agree != nil
}

// tried is the number of the last trial.
func (c *Control) tried() uint64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trials
}

// Answers are what the ranks on this machine say to changes, as of the last reading of the rings.
func (b *Bridge) Answers() []Answer {
	trials := b.Control.tried() // one may have been asked for since
	b.view.mu.Lock()
	defer b.view.mu.Unlock()
	all := slices.Clone(b.view.answers)
	for i := range all {
		all[i].Ready = all[i].tried >= trials
	}
	return all
}

// answer updates what Answers returns.
func (b *Bridge) answer() {
	if !b.Control.together() {
		return
	}
	var all []Answer
	for _, p := range b.processes {
		t := &p.totals
		if !p.known || !p.loading || t.steps == 0 || !lives(p.pid) {
			continue
		}
		k := knobsOf(&p.loader)
		k.take(p.force)
		a := Answer{Rank: max(0, p.hello.Rank), Step: t.newest, Every: (t.last - t.first) / max(1, t.steps-1), tried: p.tried,
			Knobs: KnobTable.List(k), Since: p.since, Most: -1}
		if p.loader.Why != "" || !p.loader.Live && p.loader.Knobs["num_workers"] > 0 {
			a.tried = math.MaxUint64 // no worker is tried there
		}
		a.Step += int32((b.Clock.Now() - t.last) / max(1e6, a.Every)) // what it has begun since
		if p.most != nil {
			a.Most, a.Why = p.most.Knobs["num_workers"], p.most.Reason
		}
		all = append(all, a)
	}
	b.view.mu.Lock()
	b.view.answers = all
	b.view.mu.Unlock()
}
