//go:build linux

package bridge

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/base/mask"
	"dev.gpustall/engine/trace"
)

// totals sums up what the loop of a process did, even if the session is about another process. It
// leaves out the first step, which waits for workers to start and does much that happens only
// once.
type totals struct {
	steps       int64
	first, last int64 // ns: when the first and the last batch came
	began       int64 // ns: when the first step was over, and ...
	ended       int64 // ... when the last one was
	gaps        int64 // ns of steps without a record, and of pauses
	pause       int64 // ns, since the last batch came
	newest      int32 // the last step
	second      int32 // the step after the first
	sum         trace.Rank
	unread      int64 // ns of the sum's Body since the usage of the loop's thread was last read

	enqueued [mostUntimed]enqueued // of the last steps, by their index
}

// enqueued is when the loop had given the GPU all of a step's work, in ns.
type enqueued struct {
	step int32
	at   int64
}

// next adds a wait for a batch.
func (t *totals) next(rec *record) {
	if t.steps == 0 {
		t.first, t.began, t.second = rec.End, rec.End, rec.Step+1
	} else {
		if t.steps == 1 {
			t.began = rec.Start
		}
		t.sum.Wait += rec.End - rec.Start
		if rec.Step > t.newest+1 { // the steps before this one have no record, and are in no share
			t.gaps += max(0, rec.Start-max(t.last, t.ended))
		} else if t.steps > 1 {
			t.gaps += t.pause
		}
	}
	t.pause = 0
	t.steps++
	t.last, t.newest = rec.End, rec.Step
}

// wait adds a wait for a further batch of the same step, from another loader.
func (t *totals) wait(rec *record) {
	if t.steps > 1 {
		t.sum.Wait += rec.End - rec.Start
		t.sum.Other += rec.End - rec.Start
		t.last = rec.End
	} else {
		t.first = rec.End
	}
}

// spend adds what the loop did with a batch.
func (t *totals) spend(rec *record) {
	if t.steps == 0 || rec.Step < t.second {
		return
	}
	ns := rec.End - rec.Start
	switch rec.Kind {
	case kindBody:
		t.enqueued[rec.Step%mostUntimed] = enqueued{rec.Step, rec.End}
		t.sum.Body += ns
		t.ended = rec.End
		t.unread += ns
		if split := rec.split(); split.Total() > 0 { // usage is read for few short steps, which stand for those before
			whole := float64(t.unread) / float64(ns)
			t.sum.Core += int64(whole * float64(split.Core))
			t.sum.Waiting += int64(whole * float64(split.Waiting))
			t.unread = 0
		}
	case kindBackward:
		t.sum.Backward += ns * int64(max(1, rec.Arg))
	case kindOptimizer:
		t.sum.Optimizer += ns * int64(max(1, rec.Arg))
	}
}

// exchanged adds ns in which a step only exchanged data.
func (t *totals) exchanged(ns int64, step int32) {
	if t.steps > 0 && step >= t.second {
		t.sum.Exposed += ns
	}
}

// took returns how long all steps with a record took, but the first.
func (t *totals) took() int64 { return max(t.last, t.ended) - t.began - t.gaps }

// behind is how late the GPU may end a step, after the loop has enqueued it, and still count as
// following the loop. It is a part of the step's time on the GPU. On an H100 that part was 1 to 6 %
// where the GPU waited for each launch. It was a third or more where the loop was ahead.
const behind = 0.1

// computed adds the GPU's time of a step.
func (t *totals) computed(rec *record) {
	if t.steps == 0 || rec.Step < t.second {
		return
	}
	ns := rec.End - rec.Start
	t.sum.Device += ns
	if e := t.enqueued[rec.Step%mostUntimed]; e.step == rec.Step && float64(rec.End-e.at) <= behind*float64(ns) {
		t.sum.Followed += ns
	}
}

// aside adds what the loop did while it did not train.
func (t *totals) aside(rec *record) {
	if t.steps == 0 {
		return
	}
	t.sum.Aside += rec.End - rec.Start
	if rec.Kind == kindNext {
		t.sum.AsideWait += rec.End - rec.Start
	}
}

// counts are the ranks that are counted.
type counts struct {
	of     map[int]*counted
	beside bool // a note was made that another process trains

	ends    ends
	starved *process // another rank whose loop stands as it waits for data; nil where none does
}

// counted is how a rank is counted, by one process after another where it begins anew.
type counted struct {
	by     *process
	before trace.Rank // what earlier processes did
	now    trace.Rank
	talked int64 // ns that the process had exchanged data before it was counted first
}

// of returns what the rank did so far, where p has it now.
func (c *counted) of(p *process, talked int64, known bool) trace.Rank {
	if c.by != p {
		if c.by != nil && lives(c.by.pid) { // two processes have the same rank: the first one counts
			return c.now
		}
		c.by, c.before, c.talked = p, c.now, talked
	}
	t := &p.totals
	c.now = t.sum
	c.now.Rank, c.now.Steps, c.now.Time = max(0, p.hello.Rank), t.steps-1, t.took()
	if known { // it also grows where a rank waits for no other, and so is known
		c.now.Talks = min(talked-c.talked, max(0, c.now.Body-c.now.Backward)) + c.now.Steps
	}
	c.now.Add(&c.before)
	return c.now
}

// count records the totals of each rank. It notes once that a process trains that is not a rank.
func (b *Bridge) count() {
	newest, seated := map[int]*process{}, map[seat]*process{} // after an elastic restart, others have the ranks
	for _, p := range b.processes {
		if p.known && p.seat == (seat{}) && p.hello.World >= 1 {
			p.seat = seatOf(&p.hello)
		}
		if p.known && p.loading && (p.hello.World > 1 || p.hello.World == 1 && b.counts.ends.any()) {
			b.counts.ends.follow(max(0, p.hello.Rank), p.pid, p.seat)
		}
		if !p.known || p.totals.steps <= 1 {
			continue
		}
		if old := newest[p.hello.Rank]; old == nil || old.totals.last < p.totals.last {
			newest[p.hello.Rank] = p
		}
		if old := seated[p.seat]; old == nil || old.totals.last < p.totals.last {
			seated[p.seat] = p
		}
	}
	newest[b.main.hello.Rank], seated[b.main.seat] = b.main, b.main
	var here []int
	for _, p := range b.processes {
		if !p.known || p.totals.steps <= 1 || p.hello.World > 1 && newest[p.hello.Rank] != p || (p.seat != seat{}) && seated[p.seat] != p {
			continue
		}
		if p == b.main || p.hello.World > 1 {
			c := b.counts.of[p.hello.Rank]
			if c == nil {
				if b.counts.of == nil {
					b.counts.of = map[int]*counted{}
				}
				c = &counted{}
				b.counts.of[p.hello.Rank] = c
			}
			talked, known := b.lines.talkedOf(p.pid)
			k := c.of(p, talked, known)
			here = append(here, k.Rank)
			b.recorder.Rank(k)
			if p == b.main {
				b.view.count(k)
			}
		} else if !b.counts.beside {
			b.counts.beside = true
			b.recorder.Note("warn", fmt.Sprintf("%s trains too and is in no figure here: the session is of %s, the first that trained; watch the other with a gpustall torch of its own", p.hello.who(), b.main.hello.who()))
		}
	}
	b.view.own(here)
}

// lateAfter is how much longer than the session's own rank another one of this machine takes for its own part of a step before it is
// looked at.
const lateAfter = 1.1

// late returns the rank of this machine, beside the session's own, for which the others wait most; nil where they wait for none.
func (c *counts) late(main *process, all map[int]*process) (late *process) {
	if c.starved != nil {
		return c.starved
	}
	each := func(p *process) float64 {
		c := c.of[p.hello.Rank]
		if c == nil || c.by != p || c.now.Steps == 0 {
			return 0
		}
		return float64(c.now.Own()) / float64(c.now.Steps)
	}
	most := lateAfter * each(main)
	for _, p := range all {
		if own := each(p); p != main && p.hello.World > 1 && own > most && lives(p.pid) {
			late, most = p, own
		}
	}
	return late
}

// who names a process in words.
func (h *Hello) who() string {
	if len(h.Argv) == 0 || h.Argv[0] == "" {
		return fmt.Sprintf("process %d", h.PID)
	}
	return fmt.Sprintf("process %d (%s)", h.PID, strings.Join(mask.Args(h.Argv), " "))
}
