package trace

import "slices"

// Totals adds up steps: Wall = Busy + all of Stall.
type Totals struct {
	Steps, Samples     int64
	Lost               int64            // of Steps, those without a record: they count, and are in no share
	Wall, Busy, Paused int64            // ns
	Stall              [NumCauses]int64 // ns
	Wait               int64            // ns the step loop was blocked in Loader.Next (data wait)
	Load               int64            // ns of worker time spent on the batches (data loading time)
	Copy               int64            // ns of host-to-device copies, hidden or not
	Bytes              int64            // copied to the device
	Work               Work             // what workers did in their time, as far as it was measured
	Held               Phases           // the same for the stalls charged to phases of awaited batches
}

// Add counts a step.
func (t *Totals) Add(s *Step) {
	t.Steps++
	t.Samples += int64(s.Samples)
	t.Wall += s.End - s.Start
	t.Busy += s.Busy
	t.Paused += s.Stall[CausePaused]
	for c, ns := range s.Stall {
		t.Stall[c] += ns
	}
	t.Wait += s.Wait
	t.Load += s.Load
	t.Copy += s.Copy
	t.Bytes += s.Bytes
	if s.Work.Measured() {
		t.Work.Add(&s.Work)
		held := s.held()
		t.Held.add(&held)
	}
}

// AddAll adds steps that follow each other, and counts those without a record between them.
func (t *Totals) AddAll(steps []Step) {
	for i := range steps {
		if t.Add(&steps[i]); i > 0 {
			t.miss(steps[i].missed(&steps[i-1]))
		}
	}
}

// miss counts steps without a record.
func (t *Totals) miss(steps, samples int64) {
	t.Steps += steps
	t.Samples += samples
	t.Lost += steps
}

// Plus counts the steps of other totals.
func (t *Totals) Plus(o *Totals) {
	t.Steps += o.Steps
	t.Lost += o.Lost
	t.Samples += o.Samples
	t.Wall += o.Wall
	t.Busy += o.Busy
	t.Paused += o.Paused
	for c, ns := range o.Stall {
		t.Stall[c] += ns
	}
	t.Wait += o.Wait
	t.Load += o.Load
	t.Copy += o.Copy
	t.Bytes += o.Bytes
	t.Work.Add(&o.Work)
	t.Held.add(&o.Held)
}

// Active returns the wall time less the pauses, in ns.
func (t *Totals) Active() int64 { return t.Wall - t.Paused }

// Active returns the step's wall time less the pauses in it, in ns.
func (s *Step) Active() int64 { return s.End - s.Start - s.Stall[CausePaused] }

// Tally is what is kept for ever of the steps of one segment. Its memory is bounded, however many
// they are.
//
// Steady steps are those that represent the segment's knobs. Left out are the steps of a transition,
// steps whose records were lost, and a leading first step of an epoch, which waits for its batch.
type Tally struct {
	Segment     int32
	First, Last int32  // Index of its first and last step
	Start, End  int64  // ns, of those
	Flags       uint16 // of any step
	SteadyFlags uint16 // of any steady step
	All, Steady Totals
	Timed       Totals // of all steps whose ops were timed one by one
	Transition  int64  // ns of compute idle in the steps of transitions
	From, To    int64  // ns, from the start of the first steady step to the end of the last
	Epochs      int64  // run in full under these knobs alone
	EpochTime   int64  // ns of them together, without pauses

	Plain, Probed Distribution // active times of the steady steps: of those not timed, and of those timed
	Blocks        Blocks       // of the steady steps

	generation int64 // of the digest that may change it
}

// Count makes the tally of steps that are all of one segment.
func Count(steps []Step) *Tally {
	t := new(Tally)
	for i := range steps {
		t.Add(&steps[i])
	}
	return t
}

// Add counts a step. Steps come in the order of Index.
func (t *Tally) Add(s *Step) {
	transition := s.Flags&FlagTransition != 0
	steady := !transition && s.Flags&FlagLost == 0 && (t.All.Steps > 0 || s.Flags&FlagFirstOfEpoch == 0)
	if t.All.Steps == 0 {
		t.Segment, t.First, t.Start = s.Segment, s.Index, s.Start
	}
	t.Last, t.End = s.Index, s.End
	t.Flags |= s.Flags
	t.All.Add(s)
	timed := s.Flags&FlagTimed != 0
	if timed {
		t.Timed.Add(s)
	}
	if transition {
		t.Transition += s.Active() - s.Busy
	}
	if !steady {
		return
	}
	if t.Steady.Steps == 0 {
		t.From = s.Start
	}
	t.To = s.End
	t.SteadyFlags |= s.Flags
	t.Steady.Add(s)
	if timed {
		t.Probed.Add(s.Active())
	} else {
		t.Plain.Add(s.Active())
	}
	active := s.Active()
	t.Blocks.Add(Block{Steps: 1, Samples: int64(s.Samples), Active: active, Busy: s.Busy, Squares: float64(active) * float64(active)})
}

// Excluded returns the number of steps that are not steady.
func (t *Tally) Excluded() int64 { return t.All.Steps - t.Steady.Steps }

// Quantile returns the quantile q of the steady steps' active times, in ns; 0 when there are none.
func (t *Tally) Quantile(q float64) int64 { return Quantile(q, &t.Plain, &t.Probed) }

// clone returns a copy that may be changed while readers keep t.
func (t *Tally) clone() *Tally {
	c := *t
	c.Plain, c.Probed = t.Plain.clone(), t.Probed.clone()
	c.Blocks.list = slices.Clone(t.Blocks.list)
	return &c
}

// MaxBlocks is the largest number of blocks in a series.
const MaxBlocks = 512

// Block is a run of consecutive steady steps.
type Block struct {
	Steps, Samples int64
	Active, Busy   int64   // ns
	Squares        float64 // sum of the squares of the steps' active ns: it tells how much single steps vary
}

func (b *Block) add(o *Block) {
	b.Steps += o.Steps
	b.Samples += o.Samples
	b.Active += o.Active
	b.Busy += o.Busy
	b.Squares += o.Squares
}

// Blocks is a series of blocks of equal length in steps; only the last may be shorter. At first a
// block is one step. Whenever there would be more than MaxBlocks, each two neighbours become one.
type Blocks struct {
	length int64 // steps in a block; 0 is 1
	list   []Block
}

// Add appends b, which must not be longer than a block of the series.
func (s *Blocks) Add(b Block) {
	n := len(s.list)
	if n > 0 && s.list[n-1].Steps < s.length {
		s.list[n-1].add(&b)
		return
	}
	if n == MaxBlocks {
		for i := range n / 2 {
			s.list[i] = s.list[2*i]
			s.list[i].add(&s.list[2*i+1])
		}
		s.list = s.list[:n/2]
		s.length = 2 * max(s.length, 1)
	}
	if n == cap(s.list) { // append would leave room for more than MaxBlocks
		s.list = append(make([]Block, 0, min(2*n+8, MaxBlocks)), s.list...)
	}
	s.list = append(s.list, b)
}

// List returns the blocks. Do not write to them.
func (s *Blocks) List() []Block { return s.list[:len(s.list):len(s.list)] }
