package attribution

import (
	"cmp"
	"slices"

	"dev.gpustall/engine/trace"
)

// class is what can go on at an instant. Of several, the first in this order decides.
type class uint8

const (
	classExchange class = iota // within the compute of a step
	classCompute
	classPause
	classSampler
	classNext
	classStarved
	classCopy
	classLaunch
	classSync
	classTransition
	classCopyDue   // the copy is enqueued and has not begun
	classLaunchDue // the compute is enqueued and has not begun
	numClasses
)

func classOf(k trace.Kind) class {
	switch k {
	case trace.KindExchange:
		return classExchange
	case trace.KindCompute:
		return classCompute
	case trace.KindPause:
		return classPause
	case trace.KindSampler:
		return classSampler
	case trace.KindNext:
		return classNext
	case trace.KindStarved:
		return classStarved
	case trace.KindCopy:
		return classCopy
	case trace.KindEnqueue:
		return classLaunch
	case trace.KindSync:
		return classSync
	}
	return classTransition // KindTransition, KindRebuild
}

// edge is where a span begins (+1) or ends (-1) to count.
type edge struct {
	t     int64
	class class
	delta int8
	span  int32 // index into live
}

// launchLatency is how long a device may take, in ns, to begin what is enqueued on it. A launch
// through the driver takes some microseconds. So do the stream's tasks between two steps, such as
// copying the loss back. A longer gap has another cause. Tests change this variable.
var launchLatency int64 = 100_000

// sweep is memory for one pass over a window.
type sweep struct {
	edges []edge
	nexts []int32 // KindNext spans that are open, as indices into live
}

// window charges every instant of [cursor, end) and moves the cursor. acc is the
// step's account, or nil.
func (a *Analyzer) window(s *trace.Step, acc *account, end int64) {
	s.Start, s.End = a.cursor, end
	begin := len(a.stalls)
	a.edges(s.Index, acc, end)

	w := &a.sweep
	w.nexts = w.nexts[:0]
	var holds [numClasses]int
	t := a.cursor
	for i := 0; t < end; {
		for ; i < len(w.edges) && w.edges[i].t <= t; i++ {
			e := w.edges[i]
			holds[e.class] += int(e.delta)
			if e.class == classNext {
				w.toggle(e)
			}
		}
		until := end
		if i < len(w.edges) {
			until = w.edges[i].t
		}
		c := class(0)
		for c < numClasses && holds[c] == 0 {
			c++
		}
		switch c {
		case classCompute:
			s.Busy += until - t
		case classNext:
			a.data(t, until, a.awaited())
		default:
			cause := trace.CauseUnknown
			switch {
			case c < numClasses:
				cause = classCause[c]
			case s.Flags&trace.FlagTransition != 0:
				cause = trace.CauseTransition
			}
			a.charge(t, until, s.Batch, cause)
		}
		t = until
	}
	for i := begin; i < len(a.stalls); i++ {
		st := &a.stalls[i]
		st.Step, st.Flags = s.Index, s.Flags
		s.Stall[st.Arg] += st.End - st.Start
	}
	a.cursor = end
}

var classCause = [numClasses]trace.Cause{
	classExchange:   trace.CauseCommunication,
	classPause:      trace.CausePaused,
	classSampler:    trace.CauseSampler,
	classStarved:    trace.CauseHost,
	classCopy:       trace.CauseCopy,
	classLaunch:     trace.CauseLaunch,
	classSync:       trace.CauseSync,
	classTransition: trace.CauseTransition,
	classCopyDue:    trace.CauseCopy,
	classLaunchDue:  trace.CauseLaunch,
}

// edges collects where the live spans begin and end in [cursor, end), in order of time.
func (a *Analyzer) edges(step int32, acc *account, end int64) {
	w := &a.sweep
	w.edges = w.edges[:0]
	add := func(from, to int64, c class, i int) {
		from, to = max(from, a.cursor), min(to, end)
		if from < to {
			w.edges = append(w.edges, edge{from, c, +1, int32(i)}, edge{to, c, -1, int32(i)})
		}
	}
	for i := range a.live {
		s := &a.live[i]
		add(s.Start, s.End, classOf(s.Kind), i)
		if s.Kind == trace.KindCopy && s.Step == step && acc != nil && acc.queued {
			add(acc.enqueue, s.Start, classCopyDue, i)
		}
	}
	if acc != nil && acc.queued && acc.computed {
		ready := max(acc.ready, a.cursor)
		add(ready, min(acc.begun, ready+launchLatency), classLaunchDue, -1)
	}
	slices.SortFunc(w.edges, func(a, b edge) int { return cmp.Compare(a.t, b.t) })
}

// toggle opens or closes a KindNext span.
func (w *sweep) toggle(e edge) {
	if e.delta > 0 {
		w.nexts = append(w.nexts, e.span)
		return
	}
	i := slices.Index(w.nexts, e.span)
	w.nexts = slices.Delete(w.nexts, i, i+1)
}

// awaited returns the batch of the KindNext span that began last.
func (a *Analyzer) awaited() int32 {
	best := &a.live[a.sweep.nexts[0]]
	for _, i := range a.sweep.nexts[1:] {
		if s := &a.live[i]; s.Start > best.Start || s.Start == best.Start && s.Batch > best.Batch {
			best = s
		}
	}
	return best.Batch
}

// charge records a stall. It extends the previous stall if that has the same cause and ends where
// this one begins.
func (a *Analyzer) charge(from, to int64, batch int32, c trace.Cause) {
	if n := len(a.stalls); n > 0 {
		if l := &a.stalls[n-1]; l.End == from && l.Arg == uint32(c) && l.Batch == batch && from != a.cursor {
			l.End = to
			return
		}
	}
	a.stalls = append(a.stalls, trace.Span{
		Start: from, End: to, Batch: batch,
		Kind: trace.KindStall, Track: trace.TrackStall, Arg: uint32(c),
	})
}
