package predict

import (
	"cmp"
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/trace"
)

// Work is what loading a batch takes of a worker on average, in ns.
type Work struct {
	Core    float64 // on a core
	Waiting float64 // ready to run, without a core
	Blocked float64 // on storage, a lock, a timer: it needs no core
}

// Alone returns how long a batch would take if each worker had a core.
func (w Work) Alone() float64 { return w.Core + w.Blocked }

// Loading is what the workers did over some steps.
type Loading struct {
	Batch Work // of a batch

	Read    int64   // ns in spans of reads, and ...
	Compute int64   // ... in those of all other phases
	Start   float64 // ns that a worker takes to start, on average, and ...
	Begin   float64 // ... until all workers of an epoch have their first batches to load

	phases [trace.KindPin + 1]int64 // ns of the phases' spans, without what is injected
	slowed int64                    // ns of reads with injected waiting
	begins float64                  // ns of all starts of workers
	b      *attribution.Breakdown
}

// LoadingOf measures loading in the steps of b, with the spans of the same time [from, to].
func LoadingOf(b *attribution.Breakdown, spans []trace.Span, from, to int64, cores *Cores) Loading {
	l := Loading{b: b}
	var starts []trace.Span
	for i := range spans {
		s := &spans[i]
		if s.End <= s.Start || s.Start >= to || s.End <= from || int(s.Track) >= trace.NumTracks {
			continue
		}
		switch s.Kind {
		case trace.KindRead, trace.KindFirstByte:
			l.Read += s.End - s.Start
		case trace.KindDecode, trace.KindTransform, trace.KindFetch, trace.KindCollate, trace.KindPin:
			l.Compute += s.End - s.Start
		case trace.KindStart:
			starts = append(starts, *s)
			continue
		default:
			continue
		}
		if s.Flags&trace.FlagInjected == 0 { // injected time does not belong to the phase
			for k, part := range s.Phases(s.End - s.Start) {
				l.phases[k] += part
			}
		} else if s.Kind == trace.KindRead || s.Kind == trace.KindFirstByte {
			l.slowed += s.End - s.Start
		}
	}
	l.starts(starts)
	l.split(cores)
	return l
}

// taskSoon is how soon after its start a worker waits for its first task: later it is another worker that starts.
const taskSoon = 10e6

// starts measures how long workers take to start. Each has a span of its own start, and one of its wait for the first task.
func (l *Loading) starts(spans []trace.Span) {
	slices.SortFunc(spans, func(a, b trace.Span) int { return cmp.Compare(a.Start, b.Start) })
	var own, begun, workers, epochs, from, to int64
	ended := map[trace.TrackID]int64{}
	for _, s := range spans {
		if at, ok := ended[s.Track]; !ok || s.Start > at+taskSoon {
			own, workers = own+s.End-s.Start, workers+1
		}
		ended[s.Track] = s.End
		if epochs == 0 || s.Start > to+taskSoon {
			begun, epochs, from, to = begun+to-from, epochs+1, s.Start, s.Start
		}
		to = max(to, s.End)
	}
	l.begins = float64(own)
	l.Start, l.Begin = float64(own)/float64(max(1, workers)), float64(begun+to-from)/float64(max(1, epochs))
}

// split divides the worker time of a batch as it was measured. Where it was not measured, reads
// count as blocked and the rest as computing. Computing then waits for a core as often as our
// threads do on average.
func (l *Loading) split(cores *Cores) {
	if l.b.Steps <= 0 {
		return
	}
	load := float64(l.b.Load) / float64(l.b.Steps)
	if m := l.b.Work.Batch; m.Total() > 0 {
		scale := load / float64(m.Total())
		l.Batch = Work{Core: scale * float64(m.Core), Waiting: scale * float64(m.Waiting), Blocked: scale * float64(m.Blocked)}
		return
	}
	part := 0.0
	if l.Reading() {
		part = 1
	}
	if all := l.Read + l.Compute; all > 0 {
		part = float64(l.Read) / float64(all)
	}
	w := &l.Batch
	w.Blocked = part * load
	w.Waiting = cores.Waiting * (load - w.Blocked)
	w.Core = load - w.Blocked - w.Waiting
}

// Reading reports whether loading mostly waits for reads rather than computes. It uses the measured
// split or, where there is none, the names of the phases.
func (l *Loading) Reading() bool {
	if w := l.b.Work.Batch; w.Total() > 0 {
		return w.Bound() == trace.BoundIO
	}
	if l.Read+l.Compute > 0 {
		return l.Read > l.Compute
	}
	s := &l.b.Stall
	return s[trace.CauseRead]+s[trace.CauseFirstByte] > s[trace.CauseDecode]+s[trace.CauseTransform]+s[trace.CauseCollate]+s[trace.CausePin]
}

// injected returns the share of the reads' time that is injected waiting.
func (l *Loading) injected() float64 { return float64(l.slowed) / float64(max(1, l.Read)) }

// Part returns the share of the workers' time that a phase takes. It uses the spans or, where
// they are gone, what the step loop waited for.
func (l *Loading) Part(k trace.Kind) float64 {
	if all := l.Read + l.Compute; all > 0 {
		return float64(l.phases[k]) / float64(all)
	}
	var all int64
	for k := trace.KindRead; k.IsPhase(); k++ {
		cause, _ := k.Cause()
		all += l.b.Stall[cause]
	}
	cause, _ := k.Cause()
	return float64(l.b.Stall[cause]) / float64(max(all, 1))
}
