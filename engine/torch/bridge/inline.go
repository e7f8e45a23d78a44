//go:build linux

package bridge

// inline is how the loop itself loads its batches, if it does. Of batches that take next to no time,
// only some have records. The waits for the others are taken to divide like the last wait with a
// record.
type inline struct {
	ring  *ring
	batch record // the newest kindBatch
	// Parts of the last wait for a batch with a record: before the batch, until it is put together, and all
	// of it. They are 0 until there is one.
	front, fetch, wall float64
}

// loaded takes the record of a batch that the loop loaded.
func (i *inline) loaded(r *ring, rec *record) {
	if r.role == roleInline {
		i.ring, i.batch = r, *rec
	}
}

// learn takes the wait for the newest batch.
func (i *inline) learn(rec *record) {
	b, wall := &i.batch, float64(rec.End-rec.Start)
	if i.ring == nil || b.Iteration != rec.Iteration || b.batchID() != rec.batchID() || b.Start < rec.Start || b.End > rec.End || wall <= 0 {
		return
	}
	i.front, i.fetch, i.wall = float64(b.Start-rec.Start)/wall, float64(b.Offset)/wall, float64(b.End-b.Start)/wall
}

// alike makes the record of a batch that the loop loaded in this wait and wrote no record of. ok is
// false if the loop has loaded no batch of this passage that has a record.
func (i *inline) alike(rec *record) (made record, ok bool) {
	if i.wall == 0 || i.batch.Iteration != rec.Iteration {
		return made, false
	}
	wall := float64(rec.End - rec.Start)
	made = *rec
	made.Kind, made.Step, made.Sample, made.Arg, made.Flags, made.Core, made.Waiting = kindBatch, -1, -1, 0, 0, -1, -1
	made.Start += int64(i.front * wall)
	made.End = made.Start + int64(i.wall*wall)
	made.Offset = uint32(min(i.fetch*wall, 1<<32-1))
	return made, true
}
