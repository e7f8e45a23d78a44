package attribution

import (
	"math"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Settling describes a run whose first epochs waited for data clearly more, or less, than the
// epochs since, under the same settings.
type Settling struct {
	Before, Since      Breakdown // of epochs
	First, Until, Last int32     // the first and the last epoch of Before, and the newest epoch
	Step               int32     // the Index of the first step of Since
}

// SettlingOf looks at the epochs of a segment, which must begin with the run. An epoch belongs to
// Before while it is unlike all that follow. It is unlike them if it waits for data at least
// twice or at most half as long as they do. Its share of waiting must also differ from theirs by
// least or more. A single slow epoch later on is not settling. The result is false where no epoch
// is in Before. It is false too where knobs changed after the first epoch, because then the
// change is the reason.
func SettlingOf(s *trace.Snapshot, segment int32, least float64) (x Settling, ok bool) {
	t := s.Tally(segment)
	rest, left := series(t), t.Excluded() // the steps of a segment that are not steady come first
	var epochs []epoch
	var steps int64
	for _, e := range s.Epochs {
		if steps += e.Totals.Steps; e.Segment != segment || steps > t.All.Steps { // it is later than the moment shown
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

// epoch holds what is compared of an epoch.
type epoch struct {
	number int32
	Breakdown
	rate units.Estimate // samples a second, with its interval
}

// wait returns how long a step waits for data on average, in ns.
func (e *epoch) wait() float64 { return float64(e.Data()) / float64(max(1, e.Steps)) }

// manyEpochs is how many other epochs are enough to tell that an epoch differs, without an
// interval. Of 16 equal epochs, a given one is the slowest by chance once in 16 times.
const manyEpochs = 15

// fewEpochs is how many other epochs are enough where these are so alike that the epoch lies far
// outside of them.
const fewEpochs = 3

// unlike reports whether an epoch differs from each of others in two ways. One of the two waits for
// data at least twice as long, by least or more of its time. And their rates differ by more than
// chance explains.
//
// The intervals of the rates tell what chance explains. An epoch may have no interval, because
// it is short or a long run keeps too little of it. Then the number of other epochs tells.
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
		switch { // comparisons with NaN, where there is no interval, are false
		case slow.rate.Hi < fast.rate.Lo:
			sure++
		case slow.rate.Hi >= fast.rate.Lo:
			return false
		}
	}
	return sure > 0 || len(others) >= manyEpochs || e.outside(others)
}

// outside reports whether an epoch's rate lies far outside of the rates of others. It must be twice
// as far away as 95 of 100 such epochs would be, because what makes an epoch slow by chance is
// seldom normally distributed.
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

// cut divides the blocks of a series at step n: before holds only steps before n, since only steps
// from n on. A block with steps of both is in neither.
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
