package loader

// Memory is how much of the host's memory a loader needs.
type Memory struct {
	Slots   int   // how many batches it has room for
	Slot    int64 // bytes of one
	Workers int64 // bytes of the samples that all workers are working on
}

// Batches returns the bytes of all slots.
func (m Memory) Batches() int64 { return int64(m.Slots) * m.Slot }

// Memory returns what a loader with these knobs needs for a data set, if its caller holds so
// many batches (Options.Hold). It counts what a stream keeps, but nothing else that a data set
// keeps. It does not count a decoder's own memory, which is small for one image, compared with
// a batch.
func (k Knobs) Memory(info Info, hold int) Memory {
	n := min(k.BatchSize, info.Samples)
	m := Memory{Slots: k.slots(hold), Slot: int64(NewLayout(info, n, k.DeviceTransforms).Size)}
	sample := info.sample()
	each := chunk(n, k.ReadsInFlight, sample) * sample
	if info.Bytes == 0 { // the sizes of samples are known only after reading
		each = max(each, chunkBytes)
	}
	m.Workers = int64(max(1, k.NumWorkers)) * int64(each)
	if info.Stream {
		mixed := 0
		if k.Shuffle {
			mixed = min(k.Mixed(), info.Samples)
		}
		m.Workers += info.Bytes/int64(info.Samples)*int64(mixed) + takenBytes + int64(max(1, k.ReadsInFlight)+1)*info.Ahead + info.Unpacking
	}
	return m
}

// slots returns how many batches there is room for.
func (k Knobs) slots(hold int) int { return k.InFlight() + max(hold, 1) }
