package attribution

import (
	"math"
	"slices"

	"dev.gpustall/engine/trace"
)

// naive is the definition, instant by instant: the oracle of the tests. It is
// slow and keeps everything.
type naive struct {
	spans []trace.Span
}

func newNaive(spans []trace.Span) *naive {
	n := &naive{}
	for _, s := range spans {
		if s.End > s.Start || s.Kind == trace.KindQueue {
			n.spans = append(n.spans, s)
		}
	}
	return n
}

func (n *naive) filter(f func(s trace.Span) bool) []trace.Span {
	var out []trace.Span
	for _, s := range n.spans {
		if f(s) {
			out = append(out, s)
		}
	}
	return out
}

// attribute returns the steps and, for every instant of [from, to), its cause, or
// -1 where the device is busy.
func (n *naive) attribute(steps []trace.Step, from, to int64) (done []trace.Step, instants []int) {
	cursor := from
	for _, s := range steps {
		end := cursor
		for _, sp := range n.spans {
			if sp.Kind == trace.KindCompute && sp.Step == s.Index {
				end = max(end, min(sp.End, to))
			}
			if sp.Step == s.Index {
				switch sp.Kind {
				case trace.KindNext, trace.KindSampler:
					s.Wait += sp.End - sp.Start
				case trace.KindCopy:
					s.Copy += sp.End - sp.Start
				}
			}
			if sp.Batch == s.Batch && sp.Batch >= 0 && sp.Kind >= trace.KindRead && sp.Kind <= trace.KindPin {
				s.Load += sp.End - sp.Start
			}
		}
		s.Start, s.End = cursor, end
		for t := cursor; t < end; t++ {
			c := n.at(t, cursor, s.Index, s.Index, s.Flags&trace.FlagTransition != 0)
			instants = append(instants, c)
			if c < 0 {
				s.Busy++
			} else {
				s.Stall[c]++
			}
		}
		done = append(done, s)
		cursor = end
	}
	for t := cursor; t < to; t++ {
		instants = append(instants, n.at(t, cursor, math.MaxInt32, -1, false))
	}
	return done, instants
}

// at classifies one instant of the window of step that begins at from; spans of
// steps up to upTo count.
func (n *naive) at(t, from int64, upTo, step int32, transition bool) int {
	covers := func(kinds ...trace.Kind) []trace.Span {
		return n.filter(func(s trace.Span) bool {
			return slices.Contains(kinds, s.Kind) && s.Start <= t && t < s.End && s.Step <= upTo
		})
	}
	if len(covers(trace.KindCompute)) > 0 {
		return -1
	}
	if len(covers(trace.KindPause)) > 0 {
		return int(trace.CausePaused)
	}
	if len(covers(trace.KindSampler)) > 0 {
		return int(trace.CauseSampler)
	}
	if next := covers(trace.KindNext); len(next) > 0 {
		last := slices.MaxFunc(next, func(a, b trace.Span) int {
			if a.Start != b.Start {
				return int(a.Start - b.Start)
			}
			return int(a.Batch) - int(b.Batch)
		})
		if n.heldUp(t, last.Batch) {
			return int(trace.CauseOrder)
		}
		return int(n.data(t, last.Batch))
	}
	for _, c := range []struct {
		kinds []trace.Kind
		cause trace.Cause
	}{
		{[]trace.Kind{trace.KindStarved}, trace.CauseHost},
		{[]trace.Kind{trace.KindCopy}, trace.CauseCopy},
		{[]trace.Kind{trace.KindEnqueue}, trace.CauseLaunch},
		{[]trace.Kind{trace.KindSync}, trace.CauseSync},
		{[]trace.Kind{trace.KindTransition, trace.KindRebuild}, trace.CauseTransition},
	} {
		if len(covers(c.kinds...)) > 0 {
			return int(c.cause)
		}
	}
	if step >= 0 {
		due := n.filter(func(s trace.Span) bool { return s.Kind == trace.KindCopy && s.Step == step && t < s.Start })
		sent := n.filter(func(s trace.Span) bool { return s.Kind == trace.KindEnqueue && s.Step == step && s.Start <= t })
		if len(due) > 0 && len(sent) > 0 {
			return int(trace.CauseCopy)
		}
	}
	if step >= 0 && n.launched(t, from, step) {
		return int(trace.CauseLaunch)
	}
	if transition {
		return int(trace.CauseTransition)
	}
	return int(trace.CauseUnknown)
}

// launched reports whether the step could have begun at t or shortly before.
func (n *naive) launched(t, from int64, step int32) bool {
	of := func(kinds ...trace.Kind) []trace.Span {
		return n.filter(func(s trace.Span) bool { return s.Step == step && slices.Contains(kinds, s.Kind) })
	}
	if len(of(trace.KindEnqueue)) == 0 || len(of(trace.KindCompute)) == 0 {
		return false
	}
	ready := from
	for _, s := range of(trace.KindEnqueue, trace.KindCopy) {
		ready = max(ready, s.End)
	}
	for _, s := range of(trace.KindCompute) {
		if s.Start <= t {
			return false
		}
	}
	return t >= ready && t < ready+launchLatency
}

// heldUp reports whether the latest sample of the queue names the batch.
func (n *naive) heldUp(t int64, batch int32) bool {
	latest, names := int64(math.MinInt64), int32(-1)
	for _, s := range n.spans {
		if s.Kind == trace.KindQueue && s.Start <= t && s.Start >= latest {
			latest, names = s.Start, s.Batch
		}
	}
	return batch >= 0 && names == batch
}

func (n *naive) data(t int64, batch int32) trace.Cause {
	phases := n.filter(func(s trace.Span) bool {
		return s.Kind >= trace.KindRead && s.Kind <= trace.KindPin && s.Batch == batch && batch >= 0
	})
	if len(phases) == 0 {
		if batch < 0 {
			return trace.CauseDataLoader
		}
		return trace.CauseWorkers
	}
	order := func(a, b trace.Span) int {
		return comparePhases(phase{start: a.Start, kind: a.Kind, track: a.Track}, phase{start: b.Start, kind: b.Kind, track: b.Track})
	}
	slices.SortFunc(phases, order)
	cause := map[trace.Kind]trace.Cause{
		trace.KindRead: trace.CauseRead, trace.KindDecode: trace.CauseDecode, trace.KindTransform: trace.CauseTransform,
		trace.KindFirstByte: trace.CauseFirstByte, trace.KindFetch: trace.CauseFetch, trace.KindCollate: trace.CauseCollate, trace.KindPin: trace.CausePin,
	}
	first := phases[0]
	if t >= first.Start {
		entered := slices.DeleteFunc(phases, func(s trace.Span) bool { return s.Start > t })
		return cause[entered[len(entered)-1].Kind]
	}
	if first.Track == trace.TrackInline {
		return cause[first.Kind]
	}
	best := trace.CauseWorkers
	born := int64(math.MaxInt64)
	for _, s := range n.spans {
		if s.Track != first.Track {
			continue
		}
		switch s.Kind {
		case trace.KindRead, trace.KindFirstByte, trace.KindDecode, trace.KindTransform, trace.KindFetch, trace.KindCollate, trace.KindPin:
			born = min(born, s.Start)
		case trace.KindStart, trace.KindBlocked:
			born = min(born, s.Start)
			if s.Start > t || t >= s.End {
				continue
			}
			blocked := s.Kind == trace.KindBlocked && (trace.BlockReason(s.Arg) == trace.BlockPrefetch || trace.BlockReason(s.Arg) == trace.BlockSlot)
			if !blocked {
				best = trace.CauseStartup
			} else if best != trace.CauseStartup {
				best = trace.CausePrefetch
			}
		}
	}
	if t < born {
		return trace.CauseStartup
	}
	return best
}
