// Package fleet says which rank of a distributed training holds up the others, for how long, and what
// it does meanwhile.
//
// Ranks that exchange gradients end each step together. So the rank that comes to the exchange last
// sets how long the others wait. The steps are aligned by their numbers, and no clock is compared.
package fleet

import (
	"cmp"
	"iter"
	"slices"

	"dev.gpustall/engine/trace"
)

// Member is one rank of a job, and what is known of it.
type Member struct {
	trace.Rank
	Host  string
	Exact bool // its times are a profiler's, so that few steps tell

	// Varies yields the part of the rank's own time that is known step by step, with the step's number.
	// It is nil where only the sums are known.
	Varies iter.Seq2[int32, int64]

	Held   int64 // ns that the other ranks waited for it, all of them together
	Waited int64 // ns that it waited for others
	Last   int64 // steps to which it came last, while others waited
}

// Job is a distributed training.
type Job struct {
	Members []Member // those that cost the others most first
	World   int      // how many ranks it has
	Missing []int    // the ranks that nothing is known of
	Steps   int64    // that were compared
	Lost    int64    // ns that ranks waited for others, all of them together
	Time    int64    // ns that these steps took, of all ranks together
	Apart   bool     // the ranks' step times differ, so they do not wait for each other at each step
}

const (
	// inStep is the largest ratio of the step times of two ranks that exchange gradients in
	// each step.
	inStep = 1.10

	// noise is the share of all ranks' time that even a job that runs well loses to waits for each
	// other.
	noise = 0.05
)

// OfRanks works out who of the ranks of one session waited for whom.
func OfRanks(ranks []trace.Rank) *Job {
	members := make([]Member, len(ranks))
	for i, k := range ranks {
		members[i].Rank = k
	}
	return Of(members, 0)
}

// Of works out who waited for whom. world is how many ranks the job has, or 0 where that is not known.
func Of(members []Member, world int) *Job {
	j := &Job{Members: slices.Clone(members), World: world}
	seen := map[int]bool{}
	shortest, longest := int64(0), int64(0)
	for i := range j.Members {
		m := &j.Members[i]
		seen[m.Rank.Rank] = true
		j.World = max(j.World, m.Rank.Rank+1)
		if longest = max(longest, m.Step()); i == 0 || m.Step() < shortest {
			shortest = m.Step()
		}
	}
	steps := j.shortest()
	for i := range j.Members {
		j.Time += int64(steps) * j.Members[i].Step()
	}
	for rank := range j.World {
		if !seen[rank] {
			j.Missing = append(j.Missing, rank)
		}
	}
	if j.Apart = float64(longest) > inStep*float64(shortest); !j.Apart && len(j.Members) > 1 {
		j.align(steps)
	}
	slices.SortStableFunc(j.Members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(a.Rank.Rank, b.Rank.Rank))
	})
	return j
}

// align goes through the steps of all ranks side by side.
func (j *Job) align(steps int32) {
	all := make([]walk, len(j.Members))
	for i := range j.Members {
		all[i].begin(&j.Members[i])
		defer all[i].stop()
	}
	own := make([]int64, len(all))
	for step := int32(1); step <= steps; step++ { // a first step waits for workers to start
		latest := 0
		for i := range all {
			if own[i] = all[i].at(step); own[i] > own[latest] {
				latest = i
			}
		}
		j.Steps++
		late := false
		for i := range all {
			waits := min(own[latest]-own[i], all[i].left)
			all[i].left -= waits
			j.Members[i].Waited += waits
			j.Members[latest].Held += waits
			j.Lost += waits
			late = late || float64(waits) > noise*float64(j.Members[i].Step())
		}
		if late {
			j.Members[latest].Last++
		}
	}
}

// shortest returns the last step that all ranks have.
func (j *Job) shortest() int32 {
	n := int64(1 << 30)
	for i := range j.Members {
		n = min(n, j.Members[i].Steps)
	}
	return int32(n)
}

// walk goes through the steps of a rank.
type walk struct {
	rest int64 // ns of a step that are its own, on average, besides what varies
	mean int64 // ns that vary, on average, for steps that have no record
	left int64 // ns ns of its exchanges, in which it may have waited
	next func() (int32, int64, bool)
	stop func()
	step int32 // the number of the record that was read last, and ...
	ns   int64 // ... its part that varies
	more bool
}

func (w *walk) begin(m *Member) {
	steps := max(1, m.Steps)
	varies := m.Wait
	if m.Device > 0 || m.Exposed > 0 {
		varies = m.Own()
	}
	w.rest, w.mean, w.left = (m.Own()-varies)/steps, varies/steps, m.Exchange()
	w.stop = func() {}
	if m.Varies != nil {
		w.next, w.stop = iter.Pull2(m.Varies)
		w.step, w.ns, w.more = w.next()
	}
}

// at returns the rank's own time in a step. Steps come in order.
func (w *walk) at(step int32) int64 {
	for w.more && w.step < step {
		w.step, w.ns, w.more = w.next()
	}
	if w.more && w.step == step {
		return w.rest + w.ns
	}
	return w.rest + w.mean
}

// Holder returns the rank that the others wait for most. It is nil where they hardly wait, or wait
// for many in turn.
func (j *Job) Holder() *Member {
	if !j.Uneven() || 2*j.Members[0].Held < j.Lost {
		return nil
	}
	return &j.Members[0]
}

// Uneven reports whether ranks wait for each other enough to matter, whoever they wait
// for.
func (j *Job) Uneven() bool {
	least := int64(len(j.Members)-1) * trace.LeastLate
	if !slices.ContainsFunc(j.Members, func(m Member) bool { return !m.Exact }) {
		least = 0
	}
	return len(j.Members) > 1 && float64(j.Lost) >= noise*float64(j.Time) && j.Lost >= least
}

// Loads reports whether a rank is late because it waits for data, and not because of what its
// script does.
func (j *Job) Loads(m *Member) bool {
	var wait, own int64
	for i := range j.Members {
		o := &j.Members[i]
		if o.Rank.Rank != m.Rank.Rank {
			wait += o.Wait / max(1, o.Steps)
			own += o.Own() / max(1, o.Steps)
		}
	}
	n := int64(max(1, len(j.Members)-1))
	steps := max(1, m.Steps)
	return 2*(m.Wait/steps-wait/n) >= m.Own()/steps-own/n
}
