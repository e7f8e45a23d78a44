//go:build linux

package bridge

import (
	"fmt"
	"testing"

	"dev.gpustall/engine/trace"
)

// TestFollowed: the GPU followed the loop if it ends a step about when the loop has enqueued it. If
// it ends the step far later, the loop was ahead.
func TestFollowed(t *testing.T) {
	var sums totals
	next := func(step int32, at int64) {
		sums.next(&record{Kind: kindNext, Step: step, Start: at - 1, End: at, Flags: flagTrain})
	}
	run := func(step int32, at, enqueued, device int64) {
		next(step, at)
		sums.spend(&record{Kind: kindBody, Step: step, Start: at, End: at + enqueued, Flags: flagTrain})
		sums.computed(&record{Kind: kindDevice, Step: step, Start: at, End: at + device, Flags: flagTrain})
	}
	run(0, 0, 900, 900) // the first step counts in nothing
	run(1, 1000, 100, 105)
	run(2, 2000, 100, 400)
	if k := sums.sum; k.Device != 505 || k.Followed != 105 {
		t.Errorf("of %d ns on the GPU it followed the loop in %d, want 505 and 105", k.Device, k.Followed)
	}
}

// TestAnnounced: a session is about rank 0, about the first rank on this machine, or about the only rank that a
// gpustall of its own watches.
func TestAnnounced(t *testing.T) {
	type rank struct{ rank, local int }
	for _, c := range []struct {
		ranks  []rank
		want   int // the rank; -2 where none is announced yet
		ending int // the same, once the training has ended
	}{
		{[]rank{{-1, -1}}, -1, -1},
		{[]rank{{1, -1}, {0, -1}}, 0, 0},
		{[]rank{{5, 1}, {4, 0}}, 4, 4},
		{[]rank{{1, -1}}, -2, 1},
		{[]rank{{3, 3}, {2, 2}}, -2, 2},
	} {
		for _, ending := range []bool{false, true} {
			b, err := Open()
			if err != nil {
				t.Fatal(err)
			}
			b.ending = ending
			for i, r := range c.ranks {
				pid := 1000 + i
				newWriter(t, b.shared, fmt.Sprintf("ring-%d-0", pid), roleLoop, pid, -1).write(record{Kind: kindNext, Start: 1, End: 2, Flags: flagTrain})
				p := b.process(pid)
				p.hello, p.known, p.loading = Hello{PID: pid, Rank: r.rank, Local: r.local}, true, true
			}
			for range 3 { // some processors need a second look
				b.poll()
			}
			got := -2
			select {
			case s := <-b.First():
				got = s.Hello.Rank
			default:
			}
			if want := map[bool]int{false: c.want, true: c.ending}[ending]; got != want {
				t.Errorf("%v, ending %v: rank %d, want %d", c.ranks, ending, got, want)
			}
			_ = b.Close()
		}
	}
}

// TestExchanged: what a backward pass took longer than it computes is an exchange, within the step's computation.
func TestExchanged(t *testing.T) {
	p := newProcess(nil, 1)
	p.talks = Exchange{Compute: 30}
	for step := range int32(2) { // the first one counts in nothing
		p.totals.next(&record{Kind: kindNext, Step: step, Start: 0, End: 100, Flags: flagTrain})
		p.exchanged(trace.Span{Start: 110, End: 160, Step: step, Kind: trace.KindBackward})
	}
	if k := p.totals.sum; k.Exposed != 20 || k.Exchange() != 20 {
		t.Errorf("%d ns of exchange, want 20", k.Exposed)
	}
	if got := p.steps.talked[0]; got.Kind != trace.KindExchange || got.Start != 140 || got.End != 160 {
		t.Errorf("the exchange is %+v", got)
	}
	p.steps.body(&record{Kind: kindBody, Step: 1, Start: 100, End: 170})
	if len(p.steps.talked) != 0 {
		t.Error("an exchange is recorded twice")
	}
}
