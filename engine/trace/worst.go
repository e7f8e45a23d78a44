package trace

import (
	"cmp"
	"slices"
)

// MaxWorst is how many of a run's worst batches, and of its worst samples, are kept.
const MaxWorst = 10

// late is from how long a wait on a batch is to blame, in ns: less is a thread waking up.
const late = 100_000

// Worst are the batches that starved the device longest and the samples that took a
// worker longest, in bounded memory however long the run is. Batches that were cached,
// and those of a change of settings, are left out: nobody is to blame for them.
type Worst struct {
	Batches []Step       // by Starved, the worst first
	Samples []SlowSample // by Step.Built.Slowest.Took, the worst first; one a sample

	Loads  Distribution // worker time of a batch, ns
	Pieces Distribution // the slowest piece of a batch, ns

	begun      [NumTracks]int32 // by worker: 1 and the newest epoch that it built a batch of
	generation int64
}

// SlowSample is a sample, in the step in which it took longest.
type SlowSample struct {
	Step  Step
	Seen  int32 // how often it was the slowest of its batch since it is among the worst
	Least int64 // the shortest that it took of those, without waiting for a core, ns
}

// Add counts a step in.
func (w *Worst) Add(s *Step) {
	if s.Flags&(FlagTransition|FlagCeiling) != 0 || s.Load <= 0 {
		return
	}
	w.Loads.Add(s.Load)
	if s.Starved() > late {
		w.Batches = rank(w.Batches, *s, func(a, b *Step) int { return cmp.Compare(b.Starved(), a.Starved()) })
	}
	if s.Built.Slowest.Took > 0 {
		w.Pieces.Add(s.Built.Slowest.Took)
	}
	// What a worker loads first pays for what it has not done before, in a process of its own anew
	// in every epoch: the sample is not to blame.
	if int(s.Built.Worker) >= NumTracks {
		return
	}
	cold := w.begun[s.Built.Worker] != s.Epoch+1
	w.begun[s.Built.Worker] = s.Epoch + 1
	if s.Built.Slowest.OfSample() && !cold {
		w.sample(s)
	}
}

// sample files the slowest sample of a step.
func (w *Worst) sample(s *Step) {
	row := SlowSample{*s, 1, s.Built.Slowest.Took - s.Built.Slowest.Split.Waiting}
	i := slices.IndexFunc(w.Samples, func(o SlowSample) bool { return o.Step.Built.Slowest.Sample == s.Built.Slowest.Sample })
	if i >= 0 {
		row.Seen, row.Least = row.Seen+w.Samples[i].Seen, min(row.Least, w.Samples[i].Least)
		if w.Samples[i].Step.Built.Slowest.Took >= s.Built.Slowest.Took {
			w.Samples[i].Seen, w.Samples[i].Least = row.Seen, row.Least
			return
		}
		w.Samples = slices.Delete(w.Samples, i, i+1)
	}
	w.Samples = rank(w.Samples, row, func(a, b *SlowSample) int {
		return cmp.Compare(b.Step.Built.Slowest.Took, a.Step.Built.Slowest.Took)
	})
}

// rank inserts v into a list in order, of which the first MaxWorst stay. The earlier of
// equals stays before the later.
func rank[T any](list []T, v T, order func(a, b *T) int) []T {
	i := len(list)
	for i > 0 && order(&v, &list[i-1]) < 0 {
		i--
	}
	if i == MaxWorst {
		return list
	}
	if len(list) == MaxWorst {
		list = list[:MaxWorst-1]
	}
	return slices.Insert(list, i, v)
}

// clone may be changed while readers keep w.
func (w *Worst) clone() *Worst {
	c := *w
	c.Batches, c.Samples = slices.Clone(w.Batches), slices.Clone(w.Samples)
	c.Loads, c.Pieces = w.Loads.clone(), w.Pieces.clone()
	return &c
}

// EachSample yields the samples that are named by the worst, some of them twice.
func (w *Worst) EachSample(yield func(sample int32) bool) {
	for i := range w.Batches {
		if p := &w.Batches[i].Built.Slowest; p.OfSample() && !yield(p.Sample) {
			return
		}
	}
	for i := range w.Samples {
		if !yield(w.Samples[i].Step.Built.Slowest.Sample) {
			return
		}
	}
}

// Built is who built a batch, and the piece of work on it that took longest.
type Built struct {
	Worker  TrackID // TrackStep where that is not known
	Slowest Piece
}

// Piece is what a worker spent on one sample in one phase, or, where Sample is -1, on
// the batch as a whole (page-locking, an injected delay).
type Piece struct {
	Sample int32 // its index in the data set
	Kind   Kind  // the phase
	Took   int64 // ns; 0 where nothing was recorded
	Split  Split // of Took; zero where it was not measured
}

// OfSample reports whether p is the work on one sample.
func (p *Piece) OfSample() bool { return p.Took > 0 && p.Sample >= 0 }

// Starved is the time in ns in which the device waited for the step's batch: to be begun,
// loaded, or its turn. What every epoch's start costs is no fault of the batch and not
// in it.
func (s *Step) Starved() (ns int64) {
	for c := range Cause(NumCauses) {
		if c.IsData() && c != CauseStartup {
			ns += s.Stall[c]
		}
	}
	return ns
}
