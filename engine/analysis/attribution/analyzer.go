package attribution

import (
	"math"
	"slices"
	"sort"

	"dev.gpustall/engine/trace"
)

// Analyzer attributes while the run goes on. It implements trace.Analyzer and trace.Finisher, and
// keeps only what a later step may need. Its result is that of Attribute, if each span that a
// step needs is fed no later than the step.
type Analyzer struct {
	cursor int64  // the end of the last window
	limit  int64  // no window reaches beyond it
	lost   uint16 // FlagLost, if the next window includes the time of lost records

	accounts []*account   // of steps to come, by step
	late     []trace.Span // spans of no step that lie beyond the last window, by Start
	live     []trace.Span // that may still explain idle time, in no order
	builds   map[int32]*build
	lanes    [trace.NumTracks]lane
	turns    []turn // by start; turns that no window can reach are dropped

	freeAccounts []*account
	freeBuilds   []*build
	sweep        sweep
	done         []trace.Step
	stalls       []trace.Span
	tailBusy     int64
}

// account gathers the host's and the device's spans of one step.
type account struct {
	step             int32
	spans            []trace.Span
	wait, copy       int64 // ns
	bytes            int64
	compute, enqueue int64 // end of the last compute, start of the first enqueue; ns
	begun, ready     int64 // start of the first compute, end of the last enqueue and copy; ns
	computed, queued bool
}

// NewAnalyzer returns an analyzer whose first window begins at start, in ns.
func NewAnalyzer(start int64) *Analyzer { return newAnalyzer(start, math.MaxInt64) }

func newAnalyzer(start, limit int64) *Analyzer {
	return &Analyzer{cursor: start, limit: limit, builds: map[int32]*build{}}
}

// Feed takes spans and finished steps in the order in which they were recorded. It returns those
// steps with their accounts filled in, and their stalls as spans of trace.TrackStall. What it
// returns is valid until the next call.
func (a *Analyzer) Feed(spans []trace.Span, steps []trace.Step) (done []trace.Step, stalls []trace.Span) {
	a.done, a.stalls = a.done[:0], a.stalls[:0]
	for i := range spans {
		switch s := &spans[i]; {
		case s.Kind == trace.KindQueue:
			a.sampled(s)
		case s.End > s.Start && int(s.Track) < trace.NumTracks:
			a.take(s)
		}
	}
	for i := range steps {
		a.close(steps[i])
	}
	return a.done, a.stalls
}

// Finish accounts for the time between the last step's compute and end. It returns the
// stalls in that time; their Step is -1.
func (a *Analyzer) Finish(end int64) []trace.Span {
	a.done, a.stalls = a.done[:0], a.stalls[:0]
	tail := trace.Step{Index: -1, Batch: -1}
	a.admit(math.MaxInt32, end)
	if end = min(end, a.limit); end > a.cursor {
		a.window(&tail, nil, end)
	}
	a.tailBusy = tail.Busy
	return a.stalls
}

// take stores one span where its step or its batch finds it.
func (a *Analyzer) take(s *trace.Span) {
	switch s.Kind {
	case trace.KindRead, trace.KindFirstByte, trace.KindDecode, trace.KindTransform, trace.KindFetch, trace.KindCollate, trace.KindPin:
		a.phase(s)
		return
	case trace.KindBlocked, trace.KindStart:
		a.lanes[s.Track].wait(s, a.cursor)
		return
	case trace.KindNext, trace.KindSampler, trace.KindStarved, trace.KindEnqueue, trace.KindSync, trace.KindRebuild, trace.KindTransition,
		trace.KindPause, trace.KindExchange, trace.KindCopy, trace.KindCompute:
	default:
		return
	}
	if s.Step < 0 {
		if s.End > a.cursor {
			i := len(a.late)
			for i > 0 && a.late[i-1].Start > s.Start {
				i--
			}
			a.late = slices.Insert(a.late, i, *s)
		}
		return
	}
	acc := a.account(s.Step)
	switch s.Kind {
	case trace.KindNext, trace.KindSampler:
		acc.wait += s.End - s.Start
	case trace.KindCopy:
		acc.copy += s.End - s.Start
		acc.ready = max(acc.ready, s.End)
		acc.bytes += int64(s.Arg) << 10
	case trace.KindCompute:
		if !acc.computed || s.Start < acc.begun {
			acc.begun = s.Start
		}
		if !acc.computed || s.End > acc.compute {
			acc.compute, acc.computed = s.End, true
		}
	case trace.KindEnqueue:
		if !acc.queued || s.Start < acc.enqueue {
			acc.enqueue, acc.queued = s.Start, true
		}
		acc.ready = max(acc.ready, s.End)
	}
	if s.End > a.cursor {
		acc.spans = append(acc.spans, *s)
	}
}

// account finds or makes the account of a step.
func (a *Analyzer) account(step int32) *account {
	i := len(a.accounts)
	for i > 0 && a.accounts[i-1].step > step {
		i--
	}
	if i > 0 && a.accounts[i-1].step == step {
		return a.accounts[i-1]
	}
	var acc *account
	if n := len(a.freeAccounts); n > 0 {
		acc, a.freeAccounts = a.freeAccounts[n-1], a.freeAccounts[:n-1]
		*acc = account{spans: acc.spans[:0]}
	} else {
		acc = new(account)
	}
	acc.step, acc.ready = step, math.MinInt64
	a.accounts = slices.Insert(a.accounts, i, acc)
	return acc
}

// close completes a step, whose window ends with its last compute.
func (a *Analyzer) close(s trace.Step) {
	acc := a.admit(s.Index, math.MinInt64)
	end := a.cursor
	if acc != nil && acc.computed {
		end = max(end, min(acc.compute, a.limit))
	} else if s.Flags&trace.FlagLost != 0 { // the records of the step may be lost, but its end is known
		end = max(end, min(s.End, a.limit))
	}
	a.admit(math.MinInt32, end)
	a.lost |= s.Flags & trace.FlagLost
	s.Flags |= a.lost
	if end > a.cursor { // else the time of the lost records falls into the next window
		a.lost = 0
	}
	a.window(&s, acc, end)
	if acc != nil {
		s.Wait, s.Copy = acc.wait, acc.copy
		if s.Bytes == 0 {
			s.Bytes = acc.bytes
		}
	}
	if b := a.builds[s.Batch]; b != nil && s.Load == 0 {
		s.Load = b.load
	}
	a.done = append(a.done, s)
	a.forget(s.Batch)
}

// admit makes spans candidates for the next window: the spans of steps up to step, and the spans of
// no step that start before end. It returns the account of step.
func (a *Analyzer) admit(step int32, end int64) (own *account) {
	n := 0
	for ; n < len(a.accounts) && a.accounts[n].step <= step; n++ {
		acc := a.accounts[n]
		a.live = append(a.live, acc.spans...)
		if acc.step == step {
			own = acc
		}
		a.freeAccounts = append(a.freeAccounts, acc) // own is read before the account is used again
	}
	a.accounts = slices.Delete(a.accounts, 0, n)
	n = 0
	for ; n < len(a.late) && a.late[n].Start < end; n++ {
		a.live = append(a.live, a.late[n])
	}
	a.late = slices.Delete(a.late, 0, n)
	return own
}

// forget drops what no later window needs.
func (a *Analyzer) forget(batch int32) {
	n := sort.Search(len(a.turns), func(i int) bool { return a.turns[i].start > a.cursor })
	a.turns = slices.Delete(a.turns, 0, max(0, n-1)) // the last one before the cursor is still in force
	a.live = slices.DeleteFunc(a.live, func(s trace.Span) bool { return s.End <= a.cursor })
	for i := range a.live {
		if a.live[i].Kind == trace.KindNext && a.live[i].Batch == batch {
			return
		}
	}
	a.drop(batch)
	if len(a.builds) > 2*maxBuilds { // batches that were built but never trained on
		for seq := range a.builds {
			if seq < batch-maxBuilds {
				a.drop(seq)
			}
		}
	}
}

func (a *Analyzer) drop(batch int32) {
	if b := a.builds[batch]; b != nil {
		delete(a.builds, batch)
		b.batch = -1 // lanes may still point to it
		a.freeBuilds = append(a.freeBuilds, b)
	}
}
