package lab

import (
	"cmp"
	"fmt"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
)

// Aim is the purpose of an optimization.
type Aim uint8

// The aims.
const (
	Speed Aim = iota
	Memory
)

// Optimization is one change that was tried.
type Optimization struct {
	Name      string // "num_workers 0 -> 4"
	Why       string // why it was tried
	Predicted string // what was predicted of its throughput, in words; empty where nothing was
	Adds      []knob.Setting
	For       Aim
	Among     bool // another one of its stage was faster

	Stage *Stage
	Row   int // in the stage's results; it is compared with row 0
	Kept  bool
}

// row returns what was measured with it; nil where nothing was.
func (o *Optimization) row() *sweep.Result { return o.Stage.row(o.Row) }

// before returns what it is compared with.
func (o *Optimization) before() *sweep.Result { return o.Stage.row(0) }

// change returns what it did to the throughput; an unknown change where it was not measured.
func (o *Optimization) change() *stats.Change {
	if r := o.row(); r != nil {
		return &r.Against.Throughput
	}
	return &stats.Change{}
}

// memory returns what the device held before and after, in bytes; 0 where that is not known.
func (o *Optimization) memory() (before, after int64) {
	a, b := o.before(), o.row()
	if a == nil || b == nil {
		return 0, 0
	}
	return a.Memory, b.Memory
}

// without says why it has no numbers.
func (o *Optimization) without() string {
	if o.Stage.Results == nil {
		return "not possible here: " + cmp.Or(o.Stage.Configs[o.Row].Refused, o.Stage.Skipped)
	}
	return o.Stage.Results.Rows[o.Row].Why()
}

// Outcome says what it did, and whether it was kept.
func (o *Optimization) Outcome() string {
	c := o.change()
	switch {
	case o.row() == nil:
		return units.Line(o.without())
	case o.For == Memory:
		a, b := o.memory()
		return fmt.Sprintf("device memory %s, throughput %v", sizes(a, b), c)
	case o.Kept:
		return fmt.Sprintf("throughput %v: kept", c)
	case o.Among && better(c):
		return fmt.Sprintf("throughput %v: not kept, another was faster", c)
	}
	text := fmt.Sprintf("throughput %v: not kept", c)
	if b := &o.row().Against.Busy; b.Answer == stats.Different && b.Ratio < 1 {
		waits := units.Prose.Percent(o.row().Stats.DataShare())
		text += fmt.Sprintf("; the device itself takes less time for a sample, %v, and waits for data instead (%s of the time)", b, waits) +
			", so it would pay with a faster loader"
	}
	return text
}

// Impact says in a word how much it gains. It rests on the end of the interval that is
// nearest to no change, that is on what is gained at the least, and counts only gains that
// are certain. Memory is planned to the byte and needs no interval.
func (o *Optimization) Impact() string {
	medium, high := advice.Thresholds()
	level := func(gain float64) string {
		switch {
		case gain >= high:
			return "high"
		case gain >= medium:
			return "medium"
		}
		return "low"
	}
	c := o.change()
	switch {
	case o.row() == nil:
		return "none here"
	case o.For == Memory:
		if s := saved(o.memory()); s > 0 {
			return level(s) + " (memory)"
		}
		return "none"
	case c.Answer == stats.Unknown:
		return "not significant yet"
	case c.Answer == stats.Same:
		return "none"
	case c.Ratio < 1:
		return "slower"
	}
	return level(c.Lo - 1)
}

// impacts says what the words of Impact mean, in sentences.
func impacts() []string {
	medium, high := advice.Thresholds()
	return []string{
		fmt.Sprintf("Impact is **high** where at least %s are gained, **medium** from %s and **low** below;",
			units.Prose.Percent(high), units.Prose.Percent(medium)),
		"at least means the lower end of the 95 % interval.",
		fmt.Sprintf("It is **none** where the throughput is the same within %s, and **not significant yet** where the evidence does not tell.",
			units.Prose.Percent(stats.DefaultMargin)),
		"Of what is there to save memory the word speaks of memory, by the same thresholds.",
	}
}
