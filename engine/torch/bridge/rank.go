//go:build linux

package bridge

import "dev.gpustall/engine/trace"

// totals are what is kept of each process's loop, whoever the session is about.
type totals struct {
	steps       int64
	wait        int64 // ns, for data
	first, last int64 // ns: the first batch was asked for, the last came
}

func (t *totals) next(rec *record) {
	if t.steps == 0 {
		t.first = rec.End // the first wait is for the workers to start
	} else {
		t.wait += rec.End - rec.Start
	}
	t.steps++
	t.last = rec.End
}

// count records how each rank of a distributed training does.
func (b *Bridge) count() {
	for _, p := range b.processes {
		t := &p.totals
		if p.known && p.hello.World > 1 && t.steps > 1 {
			b.recorder.Rank(trace.Rank{Rank: p.hello.Rank, Steps: t.steps - 1, Wait: t.wait, Time: t.last - t.first})
		}
	}
}
