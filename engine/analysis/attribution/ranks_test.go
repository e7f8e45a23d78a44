package attribution

import (
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

func TestSlowestRank(t *testing.T) {
	rank := func(wait, time int64) trace.Rank { return trace.Rank{Steps: 1000, Wait: wait * 1e8, Time: time * 1e8} }
	loop := func(own, backward int64) trace.Rank {
		return trace.Rank{Steps: 1000, Time: 70e8, Body: (own + backward) * 1e8, Backward: backward * 1e8}
	}
	waiting := func(wait int64, k trace.Rank) trace.Rank { k.Wait = wait * 1e8; return k }
	for _, c := range []struct {
		ranks []trace.Rank
		at    int
		why   string
	}{
		{nil, -1, ""},
		{[]trace.Rank{rank(50, 100)}, -1, ""},
		{[]trace.Rank{rank(50, 100), rank(5, 100)}, 0, "waits for data 50.0 % of the time, and the others 5.0 %"},
		{[]trace.Rank{rank(5, 100), rank(50, 101), rank(15, 100)}, 1, "the others 5.0 % to 15.0 %"},
		{[]trace.Rank{{Steps: 39, Wait: 3e8, Time: 13e8}, {Steps: 39, Wait: 1e8, Time: 13e8}}, -1, ""}, // a short run
		{[]trace.Rank{rank(50, 100), rank(47, 100)}, -1, ""},
		{[]trace.Rank{rank(5, 100), rank(5, 105)}, -1, ""},
		{[]trace.Rank{rank(50, 100), rank(5, 200)}, 1, "a step takes it 20.0 ms, and the others 10.0 ms"},
		{[]trace.Rank{loop(60, 10), loop(20, 50), loop(22, 48)}, 0, "it takes 6.00 ms of a step outside of backward passes, and the others 2.00 ms to 2.20 ms"},
		{[]trace.Rank{loop(25, 45), loop(20, 50)}, -1, ""},
		{[]trace.Rank{waiting(0, loop(60, 10)), waiting(8, loop(12, 50)), waiting(1, loop(19, 50))}, 0, "it takes 6.00 ms of a step outside of backward passes"},
		{[]trace.Rank{waiting(40, loop(20, 10)), waiting(2, loop(18, 50))}, 0, "waits for data 57.1 % of the time, and the others 2.9 %"},
	} {
		if at, why := SlowestRank(c.ranks); at != c.at || !strings.Contains(why, c.why) || (why == "") != (at < 0) {
			t.Errorf("%v: %d, %q; want %d, %q", c.ranks, at, why, c.at, c.why)
		}
	}
}
