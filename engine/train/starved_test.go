package train

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

type fixedClock int64

func (c fixedClock) Now() int64 { return int64(c) }

// TestWoken: what the step loop waits for is there at some moment. If the loop goes on
// much later, it had no core.
func TestWoken(t *testing.T) {
	const now, late = 10_000_000, int64(host.WakeLatency) + 1
	span := func(k trace.Kind, from, to int64) trace.Span {
		return trace.Span{Start: from, End: to, Step: 7, Batch: 3, Kind: k}
	}
	for name, c := range map[string]struct {
		start, ready int64
		want         []trace.Span
	}{
		"in time":            {5, now - late + 1, []trace.Span{span(trace.KindNext, 5, now)}},
		"late":               {5, now - late, []trace.Span{span(trace.KindNext, 5, now-late), span(trace.KindStarved, now-late, now)}},
		"there all the time": {5, 0, []trace.Span{span(trace.KindStarved, 5, now)}},
		"there and quick":    {now - 9, 0, []trace.Span{span(trace.KindNext, now-9, now)}},
	} {
		l := newTimeline(trace.NewRecorder(fixedClock(now), 16))
		l.woken(trace.Span{Start: c.start, Step: 7, Batch: 3, Kind: trace.KindNext}, c.ready)
		s := trace.NewSession(trace.Meta{})
		col := trace.NewCollector(l.rec, s, nil, nil)
		col.Start()
		if err := col.Stop(trace.Outcome{}); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, s.Snapshot(0, now).Spans, cmpopts.IgnoreFields(trace.Span{}, "Track")); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestStarvedIsCheap: however short the steps are, measuring takes under 1 % of their
// time.
func TestStarvedIsCheap(t *testing.T) {
	var s starved
	s.open()
	if s.meter == nil {
		t.Skip("what threads wait for is not counted here")
	}
	const steps, each, reading = 2000, 100_000, 3000 // ns
	spent, n := 0.0, 0
	for i := range int64(steps) {
		s.begin(fixedClock(i*each+reading), i*each)
		if s.locked {
			n++
			spent += 2 * reading
		}
		s.end()
	}
	if spent > 0.01*steps*each || n == 0 {
		t.Errorf("%d of %d steps are measured, at %.2f %%", n, steps, 100*spent/(steps*each))
	}
}
