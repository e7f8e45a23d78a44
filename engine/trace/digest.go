package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

const (
	// MaxRows is how many segments and how many epochs a session keeps in memory. When there are
	// more, the first FirstRows and the newest stay, because people look at how a run began and at
	// what it does now.
	MaxRows   = 1000
	FirstRows = 100
)

// Digest sums up all steps of a session in bounded memory. It is added up as steps arrive and
// stored in the file, so that nobody needs to read all steps again.
type Digest struct {
	Total      Totals
	Flags      uint16 // those that any step has
	First      Step   // the run's first step
	Last       Step   // and its last so far
	Learning   int64  // steps that computed a loss
	Diverged   int64  // of them, those whose loss is not a number
	DivergedAt int32  // the Index of the first of those

	Tallies []*Tally // one a segment that has steps, in order of Segment
	Epochs  []*Epoch // in the order in which they were run
	History History
	Worst   *Worst // nil before there is a step

	generation int64
}

// Epoch adds up the steps of one epoch, as far as it was run.
type Epoch struct {
	Epoch    int32
	Segment  int32 // -1 when the knobs changed within it
	Totals   Totals
	Injected int64 // steps with an injected bottleneck
	Ceiling  int64 // steps on cached batches
	Diverged int64 // steps with a loss that is not a number
	Complete bool  // it was run to its last batch

	Loss, Hits     float64 // sums over the samples
	LossOf, HitsOf int64   // how many samples those are of

	generation int64
}

// Digested returns the digest of steps.
func Digested(steps []Step) *Digest {
	d := new(Digest)
	for i := range steps {
		d.Add(&steps[i])
	}
	return d
}

// Add counts a step. Steps come in the order of Index. Where the training begins with s, it is the first.
func (d *Digest) Add(s *Step) {
	if s.Flags&FlagBegins != 0 {
		*d = Digest{generation: d.generation}
	}
	missed, samples := d.missed(s)
	if d.Total.Steps == 0 {
		d.First = *s
	}
	d.Last = *s
	d.Total.Add(s)
	d.Total.miss(missed, samples)
	d.Flags |= s.Flags
	if s.Correct >= 0 {
		d.Learning++
	}
	if s.Diverged() {
		if d.Diverged++; d.Diverged == 1 {
			d.DivergedAt = s.Index
		}
	}
	t := d.tally(s.Segment)
	t.Add(s)
	t.All.miss(missed, samples)
	d.History.add(s, missed, samples)
	d.worst().Add(s)
	e := d.epoch(s)
	e.add(s)
	e.Totals.miss(missed, samples)
	if e.Complete && e.Segment == s.Segment {
		t.Epochs++
		t.EpochTime += e.Totals.Active()
	}
}

// missed returns how many steps without a record lie between the last step and s, and their samples.
func (d *Digest) missed(s *Step) (steps, samples int64) {
	last := Step{Index: -1}
	if d.Total.Steps > 0 {
		last = d.Last
	}
	return s.missed(&last)
}

// missed returns how many steps without a record lie between last and s, and their samples.
func (s *Step) missed(last *Step) (steps, samples int64) {
	if s.Through == 0 || s.Flags&FlagBegins != 0 {
		return 0, 0
	}
	if steps = int64(s.Index) - int64(last.Index) - 1; steps <= 0 {
		return 0, 0
	}
	return steps, max(0, s.Through-last.Through-int64(s.Samples))
}

// Tally returns the tally of a segment; it is empty when the segment has no steps.
func (d *Digest) Tally(segment int32) *Tally {
	if i, ok := d.find(segment); ok {
		return d.Tallies[i]
	}
	return &Tally{Segment: segment}
}

func (d *Digest) find(segment int32) (int, bool) {
	return slices.BinarySearchFunc(d.Tallies, segment, func(t *Tally, s int32) int { return cmp.Compare(t.Segment, s) })
}

// view returns the digest for a reader, who shares its rows. Before d changes such a row it copies
// it, once after each view, however many steps arrive.
func (d *Digest) view() Digest {
	d.generation++
	return *d
}

// tally returns the tally of a segment, to be changed.
func (d *Digest) tally(segment int32) *Tally {
	i, found := d.find(segment)
	if found && d.Tallies[i].generation == d.generation {
		return d.Tallies[i]
	}
	d.Tallies = slices.Clone(d.Tallies)
	if found {
		d.Tallies[i] = d.Tallies[i].clone()
	} else {
		d.Tallies = slices.Insert(d.Tallies, i, &Tally{Segment: segment})
	}
	t := d.Tallies[i]
	t.generation = d.generation
	d.Tallies = forget(d.Tallies)
	return t
}

// worst returns the worst batches and samples, to be changed.
func (d *Digest) worst() *Worst {
	switch {
	case d.Worst == nil:
		d.Worst = &Worst{generation: d.generation}
	case d.Worst.generation != d.generation:
		d.Worst = d.Worst.clone()
		d.Worst.generation = d.generation
	}
	return d.Worst
}

// epoch returns the row of a step's epoch, to be changed.
func (d *Digest) epoch(s *Step) *Epoch {
	n := len(d.Epochs)
	same := n > 0 && d.Epochs[n-1].Epoch == s.Epoch
	if same && d.Epochs[n-1].generation == d.generation {
		return d.Epochs[n-1]
	}
	e := &Epoch{Epoch: s.Epoch, Segment: s.Segment}
	d.Epochs = slices.Clone(d.Epochs)
	if same {
		*e = *d.Epochs[n-1]
		d.Epochs[n-1] = e
	} else {
		d.Epochs = forget(append(d.Epochs, e))
	}
	e.generation = d.generation
	return e
}

// forget drops a row when there are too many. It changes rows, which must be the caller's own.
func forget[T any](rows []T) []T {
	if len(rows) > MaxRows {
		return slices.Delete(rows, FirstRows, len(rows)-MaxRows+FirstRows)
	}
	return rows
}

func (e *Epoch) add(s *Step) {
	e.Totals.Add(s)
	if s.Flags&FlagInjected != 0 {
		e.Injected++
	}
	if s.Flags&FlagCeiling != 0 {
		e.Ceiling++
	}
	if s.Diverged() {
		e.Diverged++
	}
	if s.Segment != e.Segment {
		e.Segment = -1
	}
	e.Complete = s.Flags&FlagLastOfEpoch != 0
	// A loss of NaN counts where the step has arithmetic: a loss that diverged must show.
	if l := float64(s.Loss); s.Correct >= 0 || !math.IsNaN(l) {
		e.Loss += l * float64(s.Samples)
		e.LossOf += int64(s.Samples)
	}
	if s.Correct >= 0 {
		e.Hits += float64(s.Correct)
		e.HitsOf += int64(s.Samples)
	}
}

// addNotes returns have followed by more. When there are too many, the first FirstRows and the
// newest stay, and a note between them says that others were forgotten.
func addNotes(have, more []Note) []Note {
	notes := append(have, more...)
	if len(notes) <= MaxRows {
		return notes
	}
	first, newest := notes[:FirstRows], notes[len(notes)-MaxRows+FirstRows+1:]
	return slices.Concat(first, []Note{forgotten(first[FirstRows-1].T, "notes")}, newest)
}

// forgotten returns the note that says that some rows are no longer in memory.
func forgotten(t int64, rows string) Note {
	return Note{t, "info", fmt.Sprintf("there are more than %d %s: only the first %d and the newest are shown", MaxRows, rows, FirstRows)}
}

// lacksSegments reports whether segments after the first FirstRows were forgotten.
func lacksSegments(kept []Segment) bool {
	return len(kept) == MaxRows && kept[FirstRows].Index > kept[FirstRows-1].Index+1
}
