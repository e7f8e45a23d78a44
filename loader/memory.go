package loader

// Memory is what a loader takes of the host's memory.
type Memory struct {
	Slots   int   // how many batches it has room for
	Slot    int64 // bytes of one
	Workers int64 // bytes of the samples that all workers have at hand
}

// Batches are the bytes of all slots.
func (m Memory) Batches() int64 { return int64(m.Slots) * m.Slot }

// Memory is what a loader with these knobs, whose caller holds so many batches
// (Options.Hold), takes for a data set. Of what the data set keeps it counts what a stream does. It does not count a
// decoder's own memory; that of one image is small beside a batch of them.
func (k Knobs) Memory(info Info, hold int) Memory {
	n := min(k.BatchSize, info.Samples)
	m := Memory{Slots: k.slots(hold), Slot: int64(NewLayout(info, n, k.DeviceTransforms).Size)}
	sample := info.sample()
	each := chunk(n, k.ReadsInFlight, sample) * sample
	if info.Bytes == 0 { // samples of sizes that only show when they are read
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

// slots is how many batches there is room for.
func (k Knobs) slots(hold int) int { return k.InFlight() + max(hold, 1) }
