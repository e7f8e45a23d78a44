package trace

// Split is what a thread did in some time, in ns. It computed on a core, was ready to run and
// waited for one, or was blocked (on storage, the network, a lock, a timer).
type Split struct{ Core, Waiting, Blocked int64 }

// Total returns the time that was split.
func (s Split) Total() int64 { return s.Core + s.Waiting + s.Blocked }

// Add adds o to s.
func (s *Split) Add(o Split) {
	s.Core += o.Core
	s.Waiting += o.Waiting
	s.Blocked += o.Blocked
}

// Of divides ns in the proportions of s; zero where s is zero.
func (s Split) Of(ns int64) Split {
	if s.Total() <= 0 {
		return Split{}
	}
	total := float64(s.Total())
	core := int64(float64(ns) * float64(s.Core) / total)
	waiting := int64(float64(ns) * float64(s.Waiting) / total)
	return Split{core, waiting, max(0, ns-core-waiting)}
}

// NumPhases is the number of phases of loading, KindRead to KindPin.
const NumPhases = int(KindPin-KindRead) + 1

// Phases is the split time of each phase of loading.
type Phases [NumPhases]Split

// Of returns the time of one phase.
func (p *Phases) Of(k Kind) *Split { return &p[k-KindRead] }

// IsPhase reports whether k is a phase of loading.
func (k Kind) IsPhase() bool { return k >= KindRead && k <= KindPin }

// All returns the time of all phases together.
func (p *Phases) All() (sum Split) {
	for i := range p {
		sum.Add(p[i])
	}
	return sum
}

func (p *Phases) add(o *Phases) {
	for i := range p {
		p[i].Add(o[i])
	}
}

// Work is worker time as far as it was split. Whole batches are split as often as that costs next
// to nothing, and some of them phase by phase. It is zero where nothing was measured.
type Work struct {
	Batch  Split  // of batches, whether split at their ends only or phase by phase
	Phases Phases // of batches that were split phase by phase
}

// Add adds o to w.
func (w *Work) Add(o *Work) {
	w.Batch.Add(o.Batch)
	w.Phases.add(&o.Phases)
}

// Measured reports whether any of the work was split.
func (w *Work) Measured() bool { return w.Batch != Split{} }

// held divides the step's waits for phases of its batch: as those phases were split or, where they
// were not measured one by one, as the whole batch was.
func (s *Step) held() (p Phases) {
	if !s.Work.Measured() {
		return p
	}
	for k := KindRead; k.IsPhase(); k++ {
		c, _ := k.Cause()
		if s.Stall[c] == 0 {
			continue
		}
		like := *s.Work.Phases.Of(k)
		if like.Total() == 0 {
			like = s.Work.Batch
		}
		*p.Of(k) = like.Of(s.Stall[c])
	}
	return p
}

// Bound is what limits the speed of work.
type Bound uint8

// What work may be bound by.
const (
	BoundUnknown Bound = iota // it was not measured
	BoundCPU                  // it computes
	BoundCores                // it could compute, and has no core
	BoundIO                   // it is blocked
	numBounds
)

// BoundInfo is what is said of work with a bound.
type BoundInfo struct {
	Name  string // of the work
	Which string // behind the name of a phase, as a relative clause
}

var bounds = [numBounds]BoundInfo{
	BoundCPU:   {"CPU-bound", "which is mostly computing"},
	BoundCores: {"CPU-starved", "which is CPU-starved"},
	BoundIO:    {"blocked", "which mostly waits for storage, a lock or a timer"},
}

// Info returns the row of b.
func (b Bound) Info() *BoundInfo { return &bounds[min(b, numBounds-1)] }

// Bound says what the work was bound by. It is I/O when most of the time was blocked. Else it is
// cores when a third or more of the time in which it could compute went by without one.
func (s Split) Bound() Bound {
	switch {
	case s.Total() <= 0:
		return BoundUnknown
	case s.Blocked > s.Core+s.Waiting:
		return BoundIO
	case 2*s.Waiting >= s.Core:
		return BoundCores
	}
	return BoundCPU
}
