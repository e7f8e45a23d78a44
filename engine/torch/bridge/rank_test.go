//go:build linux

package bridge

import (
	"fmt"
	"os"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/attribution"
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

// TestPaused: a pause is no part of a rank's time, or nobody would be late until it is long over.
func TestPaused(t *testing.T) {
	p := newProcess(nil, 1)
	for step := range int32(4) {
		at := int64(step) * 1000
		p.totals.next(&record{Kind: kindNext, Step: step, Start: at, End: at + 100, Flags: flagTrain})
		p.loop(&record{Kind: kindPause, Step: step, Start: at + 200, End: at + 900})
	}
	if got := p.totals.took(); got != 3100-1000-2*700 {
		t.Errorf("the rank took %d ns, want 700", got)
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
	p.steps.body(&record{Kind: kindBody, Step: 1, Start: 100, End: 170}, 0)
	if len(p.steps.talked) != 0 {
		t.Error("an exchange is recorded twice")
	}
}

// TestTalking: where only looks tell of exchanges, the part of the step's time that they found is one, and work follows it.
func TestTalking(t *testing.T) {
	p := newProcess(nil, 1)
	p.lines = &lines{}
	look := func(at trace.Doing, took time.Duration) { p.lines.talking.add(at, took) }
	look(trace.Waiting, time.Second) // in no step
	look(trace.Exchange, 3*time.Millisecond)
	look(trace.InStep, time.Millisecond)
	if got := p.talking(); got < 0.74 || got > 0.76 {
		t.Errorf("a part of %.3f, want 0.75", got)
	}
	recorder, session := trace.NewRecorder(trace.NewClock(), 0), trace.NewSession(trace.Meta{})
	c := trace.NewCollector(recorder, session, attribution.NewAnalyzer(0), nil)
	c.Start()
	p.out.recorder = recorder
	p.steps.body(&record{Kind: kindBody, Step: 1, Start: 100, End: 200}, p.talking())
	if err := c.Stop(trace.Outcome{}); err != nil {
		t.Fatal(err)
	}
	var talks, computes int64
	for _, s := range session.Snapshot(0, 1<<40).Spans {
		switch s.Kind {
		case trace.KindExchange:
			talks += s.End - s.Start
		case trace.KindCompute:
			computes += s.End - s.Start
		}
	}
	if talks < 74 || talks > 75 || talks+computes != 100 {
		t.Errorf("%d ns of exchange and %d of computation, want 74 and 26", talks, computes)
	}
	p.talks = Exchange{Compute: 30}
	if p.talking() != 0 {
		t.Error("what DistributedDataParallel tells counts twice")
	}
}

// TestSucceeded: a session goes on with the process that takes the place of the one that it was about.
func TestSucceeded(t *testing.T) {
	b, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	train := func(pid int, from int64) {
		w := newWriter(t, b.shared, fmt.Sprintf("ring-%d-0", pid), roleLoop, pid, -1)
		p := b.process(pid)
		p.hello, p.known, p.loading = Hello{PID: pid, Rank: 0, World: 2}, true, true
		for step := range int32(3) { // as many as such a ring holds
			at := b.Clock.origin + from + int64(step)*100
			flags := uint16(flagTrain)
			if step == 0 {
				flags |= flagFirst
			}
			w.write(record{Kind: kindNext, Step: step, Batch: step, Start: at, End: at + 40, Flags: flags, Arg: 8, Core: 8 * int64(step+1)})
			w.write(record{Kind: kindBody, Step: step, Batch: step, Start: at + 40, End: at + 100, Flags: flagTrain | flagFinal})
		}
		for range 3 { // some processors need a second look
			b.poll()
		}
	}
	train(1<<22, 1000) // no process has this number
	first := <-b.First()
	r := trace.NewRecorder(b.Clock, 0)
	s := trace.NewSession(trace.Meta{})
	c := trace.NewCollector(r, s, attribution.NewAnalyzer(first.Since), nil)
	b.Record(r)
	c.Start()
	b.pause()
	b.poll()
	train(os.Getpid(), 9000)
	b.Stop()
	if err := c.Stop(trace.Outcome{Status: "finished"}); err != nil {
		t.Fatal(err)
	}
	all := s.Snapshot(0, 1<<62)
	for i := range all.Recent {
		st := &all.Recent[i]
		if st.Index != int32(i) || st.Batch != int32(i) || st.Epoch != int32(i/3) || st.Segment != int32(i/3) || st.Through != 8*int64(i+1) {
			t.Errorf("step %d is %d, of batch %d, epoch %d, segment %d, after %d samples", i, st.Index, st.Batch, st.Epoch, st.Segment, st.Through)
		}
	}
	if ranks := all.Ranks(0, all.Now); len(all.Recent) != 6 || len(ranks) != 1 || ranks[0].Steps != 4 || ranks[0].Time != 400 {
		t.Errorf("%d steps, ranks %+v; want 6, and rank 0 with 4 whole ones in 400 ns", len(all.Recent), ranks)
	}
	if last := all.Segments[len(all.Segments)-1]; len(all.Segments) != 2 || last.Reason != "restart" || last.FirstStep != 3 {
		t.Errorf("%d segments, the last %+v", len(all.Segments), last)
	}
}
