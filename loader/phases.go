package loader

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"dev.gpustall/engine/trace"
)

// load fills the slot with its batch. Any error names the sample.
func (w *worker) load(ctx context.Context, s *slot) (err error) {
	w.split.begin()
	w.phases.begin(w, s.Seq)
	start := w.phases.last
	w.op = "prepare"
	w.index.Store(-1)
	defer func() {
		if p := recover(); p != nil {
			w.scratch = w.scratch[:0] // in an unknown state
			err = w.failure(s, fmt.Errorf("panic: %v", p), debug.Stack())
		}
		took := w.clock.Now() - start
		s.Load += took
		s.Built = trace.Built{Worker: w.lane, Slowest: w.phases.slowest}
		w.split.end(took, &s.Work, &s.Built.Slowest.Split)
	}()
	if err := w.prepare(s); err != nil {
		return err
	}
	if err := w.fill(ctx, s); err != nil {
		return w.failure(s, err, nil)
	}
	return nil
}

// prepare gives the slot memory that fits, and the indices of its samples.
func (w *worker) prepare(s *slot) error {
	if need := w.in.layout(s.size, s.Device).Size; !w.memory.fits(s, need) {
		kind := trace.KindStart
		if w.memory.locks(s) {
			kind = trace.KindPin
		}
		err := w.memory.fit(s, need)
		w.phases.lap(kind)
		w.phases.end(kind)
		if err != nil {
			return err
		}
	}
	s.N = len(s.order)
	s.skipped = s.skipped[:0]
	s.packed = 0
	at := w.in.layout(s.N, s.Device)
	s.Host, s.LabelsOff, s.AugOff, s.Pinned = s.mem[:at.Size], at.Labels, at.Aug, s.locked
	s.begin = at.Samples
	s.Flags = 0
	s.Samples = append(s.Samples[:0], s.order...)
	return nil
}

// fill takes the samples through the phases, a chunk at a time, and writes them
// straight into the slot.
func (w *worker) fill(ctx context.Context, s *slot) error {
	if d := s.inject.delay(w.id); d > 0 {
		w.op = "delay"
		w.phases.flags = trace.FlagInjected
		err := w.sleep(ctx, w.clock, d)
		w.phases.lap(trace.KindRead)
		w.phases.end(trace.KindRead)
		s.Flags |= trace.FlagInjected
		if err != nil {
			return err
		}
	}
	all := s.N
	for i := 0; i < s.N; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := w.loadChunk(ctx, s, i)
		if err != nil && !w.skip(ctx, s, err) {
			return err
		}
		i += n
	}
	if s.N < all {
		s.shrink(w.in.info, all)
	}
	w.collate(s)
	return nil
}

// ahead is how many samples in advance the system is told of a sample. With clips of 150 kB in
// small files on a local disk, a worker reads 1.3 times as many with 1, 2.0 times with 4 and
// 2.2 times with 8. The system limits how far it reads ahead within a file.
const ahead = 8

// announce tells the system, before the sample at row is read, about the sample that comes
// ahead samples later. At the start of a batch it also tells about those between.
func (w *worker) announce(s *slot, row int) {
	if w.in.announced == nil {
		return
	}
	from := row + ahead
	if row == 0 && s.reads <= 1 { // several samples are being read already
		from = 1
	}
	for ; from <= row+ahead && from < s.N; from++ {
		w.in.announced.Announce(int(s.Samples[from]))
	}
}

// read fetches the samples of a chunk, which start at row of the batch, and returns how many it
// has read. It stops early once they exceed chunkBytes.
func (w *worker) read(ctx context.Context, s *slot, c []Sample, row int) (n int, err error) {
	w.op = "read"
	w.phases.inject(s, s.inject.Read)
	defer w.phases.end(trace.KindRead)
	if s.reads > 1 && len(c) > 1 {
		return w.readMany(ctx, s, c, row)
	}
	for j := range c {
		w.index.Store(int64(c[j].Index))
		w.announce(s, row+j)
		if err = w.in.dataset.Read(ctx, &c[j]); err != nil {
			return 0, err
		}
		w.phases.sample = c[j].FirstByte
		if d := s.inject.Read; d > 0 {
			if err = w.sleep(ctx, w.clock, d); err != nil {
				return 0, err
			}
		}
		w.phases.lap(trace.KindRead)
		if n += len(c[j].Raw); n >= chunkBytes {
			return j + 1, nil
		}
	}
	return len(c), nil
}

// decode decodes the samples of a chunk. It stops early once they exceed chunkBytes. The other
// samples are read again with the next chunk, which is smaller.
func (w *worker) decode(s *slot, c []Sample) (n int, err error) {
	w.op = "decode"
	w.phases.flags = 0
	defer w.phases.end(trace.KindDecode)
	for j := range c {
		w.index.Store(int64(c[j].Index))
		c[j].Expect(w.in.cropper, w.in.rng(s.Epoch, c[j].Index))
		c[j].planar = w.in.planar != nil && !s.Device && s.inject.CPU == 0
		if err := w.in.dataset.Decode(&c[j]); err != nil {
			return 0, err
		}
		w.phases.lap(trace.KindDecode)
		if n += len(c[j].Pixels); n >= chunkBytes {
			return j + 1, nil
		}
	}
	return len(c), nil
}

// transform writes the samples c, which start at row of the batch, into the slot.
func (w *worker) transform(ctx context.Context, s *slot, c []Sample, row int) error {
	w.op = "transform"
	w.phases.inject(s, s.inject.CPU)
	defer w.phases.end(trace.KindTransform)
	at := w.in.layout(s.N, s.Device)
	if planes(c) {
		w.together(s, c, row, at.Sample)
		return nil
	}
	for j := range c {
		sample := &c[j]
		w.index.Store(int64(sample.Index))
		w.labels[row+j] = sample.Label
		w.rng = w.in.rng(s.Epoch, sample.Index)
		switch {
		case at.Packed:
			from := s.begin + s.packed
			record := ints(s.Host[s.AugOff+(row+j)*4*at.Record:])[:at.Record]
			n := w.in.transform.Device(sample, &w.rng, s.Host[from:from+at.Sample], record)
			record[3] = int32(s.packed / packing)
			end := from + n
			n = (n + packing - 1) / packing * packing
			clear(s.Host[end : from+n])
			s.packed += n
		case s.Device:
			record := ints(s.Host[s.AugOff+(row+j)*4*at.Record:])[:at.Record]
			w.in.transform.Device(sample, &w.rng, s.Host[(row+j)*at.Sample:(row+j+1)*at.Sample], record)
		default:
			w.in.transform.Host(sample, &w.rng, floats(s.Host[(row+j)*at.Sample:(row+j+1)*at.Sample]))
		}
		if d := s.inject.CPU; d > 0 {
			if err := w.spin(ctx, d); err != nil {
				return err
			}
		}
		w.phases.lap(trace.KindTransform)
	}
	return nil
}

// planes reports whether all samples have planes.
func planes(c []Sample) bool {
	for j := range c {
		if !c[j].planar || c[j].Planes == nil {
			return false
		}
	}
	return true
}

// together does what transform does for samples that all have planes, of so many bytes each.
func (w *worker) together(s *slot, c []Sample, row, each int) {
	w.index.Store(-1)
	for j := range c {
		w.labels[row+j], c[j].Soon = c[j].Label, nil
		if next := row + len(c) + j; w.in.resident != nil && next < s.N {
			c[j].Soon = w.in.resident.Stored(int(s.Samples[next]))
		}
	}
	w.in.planar.HostPlanes(c, floats(s.Host[row*each:(row+len(c))*each]))
	w.phases.lap(trace.KindTransform)
}

// collate writes the labels and clears the gaps between the parts, so that equal
// batches are equal bytes.
func (w *worker) collate(s *slot) {
	w.op = "collate"
	w.index.Store(-1)
	w.phases.flags = 0
	at := w.in.layout(s.N, s.Device)
	if !at.Packed {
		clear(s.Host[at.N*at.Sample : at.Labels])
	}
	end := at.Labels + 4*at.N
	copy(ints(s.Host[at.Labels:end]), w.labels)
	if s.Device {
		clear(s.Host[end:at.Aug])
		end = at.Aug + 4*at.Record*at.N
	}
	if at.Packed {
		clear(s.Host[end:at.Samples])
		end = at.Samples + s.packed
		s.Host = s.Host[:at.Samples+roundUp(s.packed)]
	}
	clear(s.Host[end:])
	w.phases.lap(trace.KindCollate)
	w.phases.end(trace.KindCollate)
}

// slow is how long a sample must take in one phase to get a span of its own. Faster samples
// share the span of their chunk.
const slow = int64(time.Millisecond)

// phaseTimer cuts a worker's time into spans without gaps. Each piece begins where the
// previous one ended.
type phaseTimer struct {
	w           *worker
	batch       int32
	flags       uint16
	start, last int64 // of the piece not recorded yet
	waited      int64 // ns of it before a store began to send, for the samples before this one, ...
	sample      int64 // ... and for this one
	slowest     trace.Piece
}

func (p *phaseTimer) begin(w *worker, batch int32) {
	now := w.clock.Now()
	*p = phaseTimer{w: w, batch: batch, start: now, last: now}
}

// inject marks the phase that follows, and the batch, if d is injected into it.
func (p *phaseTimer) inject(s *slot, d time.Duration) {
	p.flags = 0
	if d > 0 {
		p.flags = trace.FlagInjected
		s.Flags |= trace.FlagInjected
	}
}

// lap ends one sample's part of a phase.
func (p *phaseTimer) lap(kind trace.Kind) {
	now := p.w.clock.Now()
	p.cut(kind, now, now-p.last)
}

// lapOf does what lap does for several samples at the same time, of which the slowest
// took so many ns.
func (p *phaseTimer) lapOf(kind trace.Kind, took int64) { p.cut(kind, p.w.clock.Now(), took) }

func (p *phaseTimer) cut(kind trace.Kind, now, took int64) {
	if took > slow {
		p.w.split.piece = trace.Split{}
		p.end(kind)
		p.last, p.waited = now, p.sample
		p.end(kind)
	} else {
		p.waited += p.sample
	}
	p.last, p.sample = now, 0
	if took > p.slowest.Took {
		p.slowest = trace.Piece{Sample: int32(p.w.index.Load()), Kind: kind, Took: took}
		if took > slow {
			// The measurement includes the faster samples before it, which are at most a
			// sixteenth of the batch.
			p.slowest.Split = p.w.split.piece.Of(took)
		}
	}
}

// end ends the phase's span.
func (p *phaseTimer) end(kind trace.Kind) {
	if p.last <= p.start {
		return
	}
	// The waits of several samples are put together at the beginning of the span.
	waited := min(p.waited, p.last-p.start)
	if p.waited = 0; waited > 0 {
		p.w.recordFlags(trace.KindFirstByte, p.batch, p.start, p.start+waited, 0, p.flags)
		p.start += waited
	}
	if p.last > p.start {
		p.w.recordFlags(kind, p.batch, p.start, p.last, 0, p.flags)
	}
	p.start = p.last
	p.w.split.phase(kind, waited)
}

func (w *worker) record(kind trace.Kind, batch int32, start, end int64, arg uint32) {
	w.recordFlags(kind, batch, start, end, arg, 0)
}

func (w *worker) recordFlags(kind trace.Kind, batch int32, start, end int64, arg uint32, flags uint16) {
	if w.track != nil {
		w.track.Record(trace.Span{Start: start, End: end, Step: -1, Batch: batch, Kind: kind, Arg: arg, Flags: flags})
	}
}
