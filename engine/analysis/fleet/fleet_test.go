package fleet

import (
	"iter"
	"slices"
	"testing"

	"dev.gpustall/engine/trace"
)

const cs = int64(1e7) // a hundredth of a second, in ns

// steps makes what varies of a rank's steps, from the second on.
func steps(waits ...int64) iter.Seq2[int32, int64] {
	return func(yield func(int32, int64) bool) {
		for i, w := range waits {
			if !yield(int32(i+1), w*cs) {
				return
			}
		}
	}
}

// rank makes a rank whose steps take 1 s each: it waits for data and computes, and has the rest in
// backward passes.
func rank(n int, wait, script int64, steps int64) trace.Rank {
	return trace.Rank{
		Rank: n, Steps: steps, Time: steps * 100 * cs, Wait: steps * wait * cs, Body: steps * (100 - wait) * cs,
		Backward: steps * (100 - wait - script) * cs,
	}
}

func TestOf(t *testing.T) {
	device := func(k trace.Rank, device int64) trace.Rank {
		k.Backward, k.Device = k.Steps*cs, k.Steps*device*cs // the host only enqueues the backward pass
		return k
	}
	aside := rank(0, 2, 10, 10)
	aside.Aside = 300 * cs
	slow := rank(1, 2, 10, 10)
	slow.Time *= 2
	unknown := func(k trace.Rank) trace.Rank { k.Backward = 0; return k }
	for name, c := range map[string]struct {
		members []Member
		world   int
		holder  int // -1: none
		loads   bool
		held    int64   // cs, by the holder
		waited  []int64 // cs, by rank
		missing []int
		apart   bool
	}{
		"nobody is late":                     {members: []Member{{Rank: rank(0, 2, 10, 10)}, {Rank: rank(1, 2, 10, 10)}}, holder: -1, waited: []int64{0, 0}},
		"one waits for data":                 {members: []Member{{Rank: rank(0, 2, 10, 10)}, {Rank: rank(1, 62, 10, 10)}, {Rank: rank(2, 2, 10, 10)}}, holder: 1, loads: true, held: 1200, waited: []int64{600, 0, 600}},
		"one's script is slow":               {members: []Member{{Rank: rank(0, 2, 10, 10)}, {Rank: rank(1, 2, 50, 10)}}, holder: 1, held: 400, waited: []int64{400, 0}},
		"one evaluates alone":                {members: []Member{{Rank: aside}, {Rank: rank(1, 2, 10, 10)}}, holder: 0, held: 300, waited: []int64{0, 300}},
		"a difference that is noise":         {members: []Member{{Rank: rank(0, 2, 10, 10)}, {Rank: rank(1, 6, 10, 10)}}, holder: -1, waited: []int64{40, 0}},
		"a difference in a short run":        {members: []Member{{Rank: rank(0, 2, 10, 1)}, {Rank: rank(1, 40, 10, 1)}}, holder: -1, waited: []int64{38, 0}},
		"on GPUs by what the device lacks":   {members: []Member{{Rank: device(rank(0, 2, 10, 10), 95)}, {Rank: device(rank(1, 50, 10, 10), 40)}}, holder: 1, loads: true, held: 550, waited: []int64{550, 0}},
		"passes that PyTorch does not tell":  {members: []Member{{Rank: unknown(rank(0, 2, 10, 10))}, {Rank: unknown(rank(1, 62, 10, 10))}}, holder: 1, loads: true, held: 600, waited: []int64{600, 0}},
		"ranks that nothing is known of":     {members: []Member{{Rank: rank(1, 2, 10, 10)}, {Rank: rank(3, 62, 10, 10)}}, world: 6, holder: 3, loads: true, held: 600, waited: []int64{600, 0}, missing: []int{0, 2, 4, 5}},
		"ranks that do not wait for another": {members: []Member{{Rank: rank(0, 2, 10, 10)}, {Rank: slow}}, holder: -1, apart: true, waited: []int64{0, 0}},
		"one rank alone":                     {members: []Member{{Rank: rank(0, 62, 10, 10)}}, holder: -1, waited: []int64{0}},
		// On average both wait 30 cs for data. At each step one of them waits 60 cs, and the
		// other waits for it.
		"two in turn": {members: []Member{
			{Rank: rank(0, 30, 10, 4), Varies: steps(60, 0, 60, 0)},
			{Rank: rank(1, 30, 10, 4), Varies: steps(0, 60, 0, 60)},
			{Rank: rank(2, 30, 10, 4), Varies: steps(0, 0, 0, 0)},
		}, holder: 0, loads: true, held: 240, waited: []int64{120, 120, 240}},
		// Both alternate by 60 cs, but the four backward passes of each took 20 cs: gradients are not exchanged in each step.
		"no longer than the passes took": {members: []Member{
			{Rank: rank(0, 30, 50, 4), Varies: steps(60, 0, 60, 0)}, {Rank: rank(1, 30, 50, 4), Varies: steps(0, 60, 0, 60)},
		}, holder: 0, loads: true, held: 80, waited: []int64{80, 80}},
		"a step without a record counts as the others": {members: []Member{
			{Rank: rank(0, 10, 10, 4), Varies: steps(10)}, {Rank: rank(1, 40, 10, 4), Varies: steps(40, 40, 40, 40)},
		}, holder: 1, loads: true, held: 120, waited: []int64{120, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			j := Of(c.members, c.world)
			if j.Apart != c.apart || !slices.Equal(j.Missing, c.missing) {
				t.Errorf("apart %v, missing %v", j.Apart, j.Missing)
			}
			var waited []int64
			for _, m := range c.members {
				at := slices.IndexFunc(j.Members, func(o Member) bool { return o.Rank.Rank == m.Rank.Rank })
				waited = append(waited, j.Members[at].Waited/cs)
			}
			if !slices.Equal(waited, c.waited) {
				t.Errorf("waited %v cs, not %v", waited, c.waited)
			}
			h := j.Holder()
			switch {
			case h == nil:
				if c.holder >= 0 {
					t.Errorf("nobody holds the others up, not rank %d", c.holder)
				}
			case h.Rank.Rank != c.holder || h.Held != c.held*cs || j.Loads(h) != c.loads:
				t.Errorf("rank %d holds up the others for %d cs (by data: %v), not rank %d for %d cs", h.Rank.Rank, h.Held/cs, j.Loads(h), c.holder, c.held)
			}
		})
	}
}
