package trace

import (
	"cmp"
	"slices"
)

// MaxWorst is how many of a run's worst batches, and of its worst samples, are kept.
const MaxWorst = 10

// late is the shortest wait for a batch that counts against the batch, in ns. A shorter one is a
// thread waking up.
const late = 100_000

// Worst are the batches that starved the device longest and the samples that took a worker longest.
// Its memory is bounded, however long the run is. Cached batches and those of a transition are left
// out, since neither worker nor sample made them late.
type Worst struct {
	Batches []Step       // by Starved, the worst first
	Samples []SlowSample // by Step.Built.Slowest.Took, the worst first; each sample once

	Loads  Distribution // worker time of a batch, ns
	Pieces Distribution // the slowest piece of a batch, ns

	begun      [NumTracks]int32 // by worker: one more than the newest epoch that it built a batch of
	generation int64
}

// SlowSample is a sample, in the step in which it took longest.
type SlowSample struct {
	Step  Step
	Seen  int32 // how often it was the slowest of its batch, since it came among the worst
	Least int64 // the shortest that it took then, without waits for a core, in ns
}

// Add counts a step.
func (w *Worst) Add(s *Step) {
	if s.Flags&(FlagTransition|FlagCeiling|FlagLost) != 0 || s.Load <= 0 {
		return
	}
	w.Loads.Add(s.Load)
	if s.Starved() > late {
		w.Batches = rank(w.Batches, *s, func(a, b *Step) int { return cmp.Compare(b.Starved(), a.Starved()) })
	}
	if s.Built.Slowest.Took > 0 {
		w.Pieces.Add(s.Built.Slowest.Took)
	}
	// A worker's first batch pays for its warm-up; a worker process that starts anew in every epoch
	// pays each time. The sample is not to blame for that.
	if int(s.Built.Worker) >= NumTracks {
		return
	}
	cold := w.begun[s.Built.Worker] != s.Epoch+1
	w.begun[s.Built.Worker] = s.Epoch + 1
	if s.Built.Slowest.OfSample() && !cold {
		w.sample(s)
	}
}

// sample adds the slowest sample of a step.
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

// rank inserts v into an ordered list, of which it keeps the first MaxWorst. Of two equals the
// earlier one stays in front.
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

// clone returns a copy that may be changed while readers keep w.
func (w *Worst) clone() *Worst {
	c := *w
	c.Batches, c.Samples = slices.Clone(w.Batches), slices.Clone(w.Samples)
	c.Loads, c.Pieces = w.Loads.clone(), w.Pieces.clone()
	return &c
}

// EachSample yields the samples that w names, some of them twice.
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

// Piece is what a worker spent on one sample in one phase. Where Sample is -1 it is what the worker
// spent on the whole batch (page-locking, an injected delay).
type Piece struct {
	Sample int32 // its index in the data set
	Kind   Kind  // the phase
	Took   int64 // ns; 0 where nothing was recorded
	Split  Split // of Took; zero where it was not measured
}

// OfSample reports whether p is the work on one sample.
func (p *Piece) OfSample() bool { return p.Took > 0 && p.Sample >= 0 }

// Starved returns the time in ns in which the device waited for the step's batch: to be begun, to be
// loaded, or for its turn. It leaves out the start of an epoch and the sampler, which are not the batch's
// fault.
func (s *Step) Starved() (ns int64) {
	for c := range Cause(NumCauses) {
		if c.IsData() && c != CauseStartup && c != CauseSampler {
			ns += s.Stall[c]
		}
	}
	return ns
}
