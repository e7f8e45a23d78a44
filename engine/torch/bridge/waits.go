//go:build linux

package bridge

import (
	"math"
	"slices"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// waits holds the waits of a process: the loop waits for batches, and the workers wait for tasks.
// They become spans that say what each wait was for.
type waits struct {
	out     *output
	opening []record // iterators that began and have not delivered a batch yet
	changes []record // changes that the loop applied within the wait under way
	drawn   []record // when the loop drew indices within it
	ended   int64    // ns: the end of the last epoch that trained
	resumed int64    // ns: the beginning of the next one
	waited  int64    // ns without a core in the last wait for which that was read

	// The batches that the worker of each lane began with, by time. Rings of workers are read up to
	// a second ahead of the loop's.
	begun map[trace.TrackID][]begun
}

// begun is the time, in ns, at which a worker began with a batch.
type begun struct {
	at    int64
	batch *batch
}

// iterator takes the beginning of an iterator.
func (w *waits) iterator(rec *record, trains bool) {
	w.opening = append(w.opening, *rec)
	if trains {
		w.resumed = rec.Start
	}
}

// applied takes a change of knobs that the loop applied while it waited.
func (w *waits) applied(rec *record) {
	w.changes = append(w.changes, *rec)
	w.out.span(trace.TrackStep, rec.span(trace.KindRebuild))
}

// drew takes a time within a wait in which the loop drew the indices of a batch.
func (w *waits) drew(rec *record) {
	if len(w.drawn) < mostDrawn {
		w.drawn = append(w.drawn, *rec)
	}
}

// mostDrawn is how many such times a wait has at most. An iterator begins with as many batches as may
// be under way.
const mostDrawn = 2048

// sampled records the times within a wait in which the loop drew indices. If trains is false, the loop
// did not train, and the times count in no share.
func (w *waits) sampled(step int32, trains bool) {
	for i := range w.drawn {
		if span := w.drawn[i].span(trace.KindSampler); trains {
			span.Step = step
			w.out.span(trace.TrackStep, span)
		}
	}
	w.drawn = w.drawn[:0]
}

// rest records a part of a wait, without the times in which the loop drew indices.
func (w *waits) rest(part trace.Span) {
	for i := range w.drawn {
		if d := &w.drawn[i]; part.Kind != trace.KindPause && d.Start < part.End && d.End > part.Start {
			front := part
			front.End = d.Start
			w.out.span(trace.TrackStep, front)
			part.Start = d.End
		}
	}
	w.out.span(trace.TrackStep, part)
}

// end takes the end of an epoch that trained: the loop asked for a batch, and there was none.
func (w *waits) end(rec *record) {
	w.ended = rec.End
	w.rest(rec.span(trace.KindNext))
	w.sampled(-1, true)
}

// worker takes a worker's wait for a task. Between two epochs the worker is idle, because nobody
// wants a batch. Its first task comes when all workers have started, which they do one after another.
func (w *waits) worker(lane trace.TrackID, rec *record) {
	if rec.Flags&flagFirst != 0 {
		w.out.span(lane, rec.span(trace.KindStart))
		return
	}
	span := rec.span(trace.KindBlocked)
	span.Arg = uint32(trace.BlockPrefetch)
	if rec.Start < w.ended && rec.End > w.ended || rec.Start < w.resumed && rec.End > w.resumed {
		span.Arg = uint32(trace.BlockIdle)
	}
	w.out.span(lane, span)
}

// begins stores when a lane's worker began with a batch. Two workers may share a lane one after the
// other, and the ring of the second may be read first.
func (w *waits) begins(lane trace.TrackID, t begun) {
	all := w.begun[lane]
	at := len(all)
	for at > 0 && all[at-1].at > t.at {
		at--
	}
	w.begun[lane] = slices.Insert(all, at, t)
}

// forget drops the batches that a lane's worker had finished by the time at, in ns.
func (w *waits) forget(lane trace.TrackID, at int64) {
	all := w.begun[lane]
	for len(all) > 1 && all[1].at <= at {
		all = all[1:]
	}
	w.begun[lane] = all
}

// batch records the wait for batch b, which has come. seen says that records tell how b was made.
// batch returns the batch that b's worker was busy with while the loop took b, or nil if the worker
// idled.
func (w *waits) batch(rec *record, b *batch, seen bool) (beside *batch) {
	trains := rec.Flags&flagTrain != 0
	wait := rec.span(trace.KindNext)
	wait.Step, wait.Batch = rec.Step, b.seq
	if !seen {
		wait.Batch = -1
	}
	if !trains {
		wait.Kind = trace.KindPause
	}
	if rec.Waiting < 0 { // the loop reads it in few of its short steps, which stand for those that follow
		rec.Waiting = w.waited
	}
	w.waited = rec.Waiting
	w.before(rec, &wait)
	from := wait.Start
	w.forget(b.lane, from)
	if late := rec.late(b, from); seen && late > 0 && trains {
		wait.End -= late
		starved := wait
		starved.Kind, starved.Batch, starved.Start, starved.End = trace.KindStarved, b.seq, wait.End, rec.End
		w.rest(starved)
	}
	if seen && trains {
		beside = w.taking(&wait, b)
	}
	w.rest(wait)
	w.sampled(rec.Step, trains)
	return beside
}

// before records the parts of a wait before the last change that was applied in it, and shortens the
// wait to what follows. The wait for an iterator's first batch began with the iterator.
func (w *waits) before(rec *record, wait *trace.Span) {
	parts := append(w.opening, w.changes...)
	slices.SortFunc(parts, func(a, b record) int { return int(a.Start - b.Start) })
	for i := range parts {
		part, span := &parts[i], *wait
		switch {
		case part.Kind == kindIter && part.Iteration == rec.Iteration:
			span.Start, span.End = part.Start, part.End
			w.rest(span)
		case part.Kind == kindApply && part.End > wait.Start:
			span.End = part.Start
			w.rest(span)
			wait.Start = part.End
		}
	}
	w.opening, w.changes = w.opening[:0], w.changes[:0]
}

// atOnce is the longest time, in ns, that it takes to receive a batch that is ready while its worker
// is idle.
const atOnce = 100_000

// taking records the part of a wait in which batch b was ready and the loop received it, and shortens
// the wait to what came before. To receive a batch, the loop unpickles it and asks a thread of the
// worker for the memory of each tensor. That thread runs only when the worker's own code lets it. If
// the worker is busy with another batch, the loop waits for that work. taking returns the last such
// batch.
func (w *waits) taking(wait *trace.Span, b *batch) (beside *batch) {
	ready := max(wait.Start, b.done)
	if !b.apart() || wait.End-ready < atOnce {
		return nil
	}
	rest := *wait
	rest.Start, rest.Batch = ready, -1
	wait.End = ready
	for _, t := range w.begun[b.lane] {
		if t.at >= rest.End || t.batch.done > 0 && t.batch.done <= rest.Start {
			continue
		}
		part := rest
		part.Start, part.Batch = max(rest.Start, t.at), t.batch.seq
		if t.batch.done > 0 {
			part.End = min(rest.End, t.batch.done)
		}
		idle := rest
		idle.End = part.Start
		w.rest(idle)
		w.rest(part)
		rest.Start, beside = part.End, t.batch
	}
	w.rest(rest)
	return beside
}

// apart reports whether another process or thread than the loop's is known to have made the batch.
func (b *batch) apart() bool {
	return b.done != 0 && b.lane != trace.TrackStep && b.lane != trace.TrackInline
}

// late returns for how many ns the loop had no core while its batch was ready. A wait for a core
// before the batch was ready does not count, because the worker caused that wait. If the loop
// loads by itself, its phases include the wait.
func (r *record) late(b *batch, from int64) int64 {
	if !b.apart() {
		return 0
	}
	late := min(r.Waiting, r.End-max(from, b.done))
	if late < int64(host.WakeLatency) {
		return 0
	}
	return late
}

// queue records how many batches of the pass were ready while the loop waited for b.
func (w *waits) queue(s *pass, b *batch, rec *record, k *Knobs) {
	if w.out.recorder == nil || k.Workers == 0 {
		return
	}
	var times []int64 // when other batches became ready
	for _, other := range s.batches {
		if other.done > 0 && other.done < rec.End {
			times = append(times, other.done)
		}
	}
	slices.Sort(times)
	track := w.out.recorder.Track(trace.TrackQueue)
	// PyTorch gives each worker its batches in advance, so a worker goes on while the loop waits for
	// another worker's batch. The order keeps a worker idle only if so many batches are ready that
	// fewer are under way than there are workers.
	idle := k.queueLimit() - k.Workers
	sample := func(at int64, ready int, late bool) {
		q := trace.Span{
			Start: at, End: at, Step: -1, Batch: -1, Kind: trace.KindQueue, Arg: uint32(ready),
			Flags: uint16(min(k.queueLimit(), math.MaxUint16)),
		}
		if late && ready > idle && k.Ordered {
			q.Batch = b.seq
		}
		track.Record(q)
	}
	ready := 0
	for ready < len(times) && times[ready] <= rec.Start {
		ready++
	}
	late := b.done > rec.Start
	sample(rec.Start, ready, late)
	for ; ready < len(times); ready++ {
		sample(times[ready], ready+1, late && times[ready] < b.done)
	}
	sample(rec.End, ready, false)
}
