package loader

import (
	"fmt"

	"dev.gpustall/engine/base/errs"
)

// Position is how far a loader has come: after what Next has returned and before all else. A
// loader that starts at a position delivers the rest of the epoch and then the epochs after it.
// The order is the same, and with the same batch_size the batches are too. The position does
// not contain the seed and the data, which the caller keeps.
type Position struct {
	Samples int  `json:"samples"`         // of the data set; a position in another data set means nothing
	Epoch   int  `json:"epoch"`           // from 0
	Place   int  `json:"place"`           // in the epoch's order: the samples before it were cut into batches ...
	Again   []At `json:"again,omitempty"` // ... of which these were not delivered, and go first

	// How the epoch is shuffled. Later changes of the knobs do not change this.
	Shuffle bool `json:"shuffle"`
	Mixed   int  `json:"mixed,omitempty"` // samples that are mixed at a time, if they lie in shards
}

// At is the place of a batch in the epoch's order.
type At struct {
	From int `json:"from"`
	To   int `json:"to"` // after its last sample
}

// Position returns how far the loader has come. Between two calls of Next it is exact. During a
// call, the batch of that call may be before it or after it.
func (l *Loader) Position() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, e := l.schedule.position(&l.knobs)
	if e != nil {
		p.Again = append(l.queue.undelivered(p.Epoch), e.again...)
	}
	return p
}

// check refuses a position in another data set, or a damaged one.
func (p *Position) check(info Info) error {
	refuse := func(reason string) error {
		return errs.New("go on in", info.Name, reason, "name the data with which the run began, or begin a new run")
	}
	if p.Samples != info.Samples {
		return refuse(fmt.Sprintf("it has %d samples, and the run that is to go on had %d", info.Samples, p.Samples))
	}
	bad := p.Epoch < 0 || p.Place < 0 || p.Place > p.Samples || p.Mixed < 0
	last := 0
	for _, a := range p.Again {
		bad = bad || a.From < last || a.To <= a.From || a.To > p.Place
		last = a.To
	}
	if bad {
		return refuse("the position in it is damaged")
	}
	return nil
}

// Delivered counts the samples of the epoch before the position.
func (p *Position) Delivered() int {
	n := p.Place
	for _, a := range p.Again {
		n -= a.To - a.From
	}
	return n
}

// resume makes e the epoch that p is in. Called with mu held.
func (e *epoch) resume(p *Position) {
	e.pos, e.again = p.Place, append([]At(nil), p.Again...)
	e.before = p.Delivered() > 0
	e.finish(0, false)
}

// passed returns the samples of an epoch's order that were delivered before the position.
func (p *Position) passed(order []int32) []int32 {
	out := make([]int32, 0, p.Delivered())
	from := 0
	for _, a := range p.Again {
		out = append(out, order[from:a.From]...)
		from = a.To
	}
	return append(out, order[from:p.Place]...)
}
