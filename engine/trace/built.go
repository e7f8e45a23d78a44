package trace

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
