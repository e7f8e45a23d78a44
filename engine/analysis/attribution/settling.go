package attribution

import (
	"math"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Settling is a run whose first epochs waited for data clearly more, or less, than those since,
// under the same settings.
type Settling struct {
	Before, Since      Breakdown // of epochs
	First, Until, Last int32     // epochs: the first and the last of Before, and the newest
	Step               int32     // the Index of the first step since
}

// SettlingOf looks at the epochs of a segment from the run's first on, and leaves them behind
// while each is unlike all that follow: it waits for data twice as long or half as long, and its
// share of waiting lies at least so much beside theirs. An epoch that is slow by itself, later, is not settling. False where none was left
// behind, and where the knobs changed after the first: what came then is their doing.
func SettlingOf(s *trace.Snapshot, segment int32, least float64) (x Settling, ok bool) {
	t := s.Tally(segment)
	rest, left := series(t), t.Excluded() // steps that are not steady begin the segment
	var epochs []epoch
	var steps int64
	for _, e := range s.Epochs {
		if steps += e.Totals.Steps; e.Segment != segment || steps > t.All.Steps { // later than the moment shown
			break
		}
		here, later := cut(rest, int(e.Totals.Steps-left))
		m := stats.Measure(here)
		epochs = append(epochs, epoch{e.Epoch, Breakdown{e.Totals}, m.Rate()})
		rest, left = later, 0
		if n := len(epochs); n > 2 && !e.Complete { // it has only begun
			epochs = epochs[:n-1]
			break
		}
	}
	n := 0
	for n+1 < len(epochs) && epochs[n].unlike(epochs[n+1:], least) {
		n++
	}
	if n == 0 {
		return x, false
	}
	x.First, x.Until, x.Last = epochs[0].number, epochs[n-1].number, epochs[len(epochs)-1].number
	for i := range epochs {
		if i < n {
			x.Before.Plus(&epochs[i].Totals)
		} else {
			x.Since.Plus(&epochs[i].Totals)
		}
	}
	x.Step = s.First.Index + int32(x.Before.Steps)
	return x, true
}

// epoch is what tells one from others.
type epoch struct {
	number int32
	Breakdown
	rate units.Estimate // samples a second, with its interval
}

// wait is how long a step waits for data, in ns.
func (e *epoch) wait() float64 { return float64(e.Data()) / float64(max(1, e.Steps)) }

// manyEpochs is how many others tell without an interval that an epoch is unlike them: the first
// of so many and one is the slowest by chance once in so many.
const manyEpochs = 15

// fewEpochs is how many others tell it if they are so much alike that it lies far outside.
const fewEpochs = 3

// unlike reports whether an epoch waits for data at least twice as long as each of others, or
// they as it does, which is at least so much more of the time, and is slower, or faster, beyond
// what may be chance: by the intervals of their rates or, where a long run keeps too little of an
// epoch for those, and where epochs are short, because there are many.
func (e *epoch) unlike(others []epoch, least float64) bool {
	way := math.Copysign(1, e.DataShare()-others[0].DataShare())
	sure := 0
	for i := range others {
		o := &others[i]
		slow, fast := e, o
		if way < 0 {
			slow, fast = o, e
		}
		if slow.DataShare()-fast.DataShare() < least || slow.wait() < 2*fast.wait() {
			return false
		}
		switch { // NaN where there is no interval
		case slow.rate.Hi < fast.rate.Lo:
			sure++
		case slow.rate.Hi >= fast.rate.Lo:
			return false
		}
	}
	return sure > 0 || len(others) >= manyEpochs || e.outside(others)
}

// outside reports whether an epoch's rate lies twice as far from that of others as 95 of 100 like
// them would: what makes an epoch slow by chance is seldom normal.
func (e *epoch) outside(others []epoch) bool {
	if len(others) < fewEpochs {
		return false
	}
	var logs []float64
	for i := range others {
		logs = append(logs, math.Log(others[i].SamplesPerSecond()))
	}
	lo, hi := stats.Next(logs)
	return math.Abs(math.Log(e.SamplesPerSecond())-(lo+hi)/2) > hi-lo
}

// cut are the blocks of a series that hold no step but of its first n, and those that hold none
// of them.
func cut(s stats.Series, n int) (before, since stats.Series) {
	before, since = first(s, n), s
	for i := range s.Blocks {
		if n <= 0 {
			since.Blocks = s.Blocks[i:]
			return before, since
		}
		n -= s.Blocks[i].Steps
	}
	since.Blocks = nil
	return before, since
}
