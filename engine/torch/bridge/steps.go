//go:build linux

package bridge

import (
	"math"

	"dev.gpustall/engine/trace"
)

// steps holds the steps of a process's loop. One is open. Others have ended and are kept until it
// is known what they waited for and how long the GPU took.
type steps struct {
	out      *output
	segments *segments
	of       *facts

	open    *open
	kept    []*open         // ended, until a worker reports what it did meanwhile
	untimed map[int32]*open // ended, until the GPU's time is known; by index
	epoch   int32
	last    record       // the kindNext of the newest step
	talks   int64        // ns of exchange in a step on the GPU; 0 where that is not known
	talked  []trace.Span // exchanges on the host in the step that is open
	since   int32        // the first step of the training, if no step was recorded since that is known; else 0
}

// open is a step that is not recorded yet.
type open struct {
	step  trace.Step
	load  int64 // ns of workers' time that its batches took
	final bool  // it has ended, unless the next record says otherwise
	timed bool  // the GPU's time is known, or there is none to wait for

	beside *batch // the batch that its worker was busy with while the loop took the step's batch; nil if the worker idled
}

// begin opens the step that trains with batch b. lost says that records of the making of b were lost.
func (s *steps) begin(rec *record, b *batch, beside *batch, lost bool) {
	if b.work.Measured() { // the wait is charged to collation until the batch is handed over
		b.work.Phases.Of(trace.KindCollate).Add(b.sent)
	}
	st := trace.Step{
		Index: rec.Step, Batch: b.seq, Samples: int32(min(rec.Arg, math.MaxInt32)), Correct: -1, Loss: float32(math.NaN()),
		Through: max(0, rec.Core), Work: b.work, Built: trace.Built{Worker: b.lane, Slowest: b.slow},
	}
	switch gap := s.epoch >= 0 && rec.Step > s.last.Step+1; {
	case rec.Flags&flagFirst != 0:
		s.epoch++
		st.Flags |= trace.FlagFirstOfEpoch
	case gap && (rec.Iteration != s.last.Iteration || rec.Round != s.last.Round): // its first step has no record
		s.epoch++
	}
	if s.since > 0 { // the steps from there to this one have no record
		if first := st; rec.Step > s.since {
			first.Index, first.Samples, first.Through, first.End = s.since, 0, max(1, s.last.Core), rec.Start
			first.Flags |= trace.FlagBegins | trace.FlagLost
			s.out.step(first)
		} else {
			st.Flags |= trace.FlagBegins
		}
		s.since = 0
	}
	s.last = *rec
	if lost {
		st.Flags |= trace.FlagLost
	}
	if rec.Flags&flagProfiled != 0 { // the profiler slows the step down, so it counts in no rate
		st.Flags |= trace.FlagTimed | trace.FlagTransition
	}
	st.Epoch = max(s.epoch, 0)
	var flags uint16
	st.Segment, flags = s.segments.step(rec.Flags&flagChanging != 0)
	st.Flags |= flags
	s.open = &open{step: st, load: b.load(), timed: !s.of.onDevice(), beside: beside}
}

// begins hands out the steps before the one with that index, which are taken back then. It reports whether that step is open.
func (s *steps) begins(index int32) (open bool) {
	if open = s.open != nil && s.open.step.Index >= index; open {
		s.open.step.Flags |= trace.FlagBegins
		s.open.step.Epoch, s.epoch = 0, 0
	} else {
		if s.open != nil {
			s.keep()
		}
		s.since, s.epoch = index, -1
	}
	s.release(true)
	for step := s.oldest(); step < index; step = s.oldest() {
		s.giveUp(step)
	}
	return open
}

// count takes the number of the last step, which may have no other record. If a script ends while it
// still holds a batch, that step is open. Such a step counts, but its time is not known.
func (s *steps) count(rec *record) {
	if s.open != nil && s.open.step.Index == rec.Step {
		s.open.step.Flags |= trace.FlagLost
		s.open.step.End = rec.End
		s.open.final, s.open.timed = true, true
		return
	}
	if rec.Step <= s.last.Step || s.epoch < 0 {
		return
	}
	s.leave()
	s.open = &open{final: true, timed: true, step: trace.Step{
		Index: rec.Step, Epoch: s.epoch, Segment: s.segments.segment.Index, Batch: -1, Correct: -1, Loss: float32(math.NaN()),
		Through: rec.Core, End: rec.End, Flags: trace.FlagLost,
	}}
	s.last = *rec
	s.keep()
}

// join adds a further batch to the open step, from another loader. It reports whether the batch
// belongs to that step.
func (s *steps) join(rec *record, b *batch) bool {
	o := s.open
	if o == nil || rec.Step != o.step.Index || rec.Step < 0 {
		return false
	}
	o.step.Through = max(o.step.Through, rec.Core)
	o.load += b.load()
	o.step.Load = o.load
	o.step.Samples += int32(min(rec.Arg, uint32(math.MaxInt32-o.step.Samples)))
	o.step.Work.Add(&b.work)
	return true
}

// body takes what the loop did with its batch: the host's part where there is a GPU, otherwise all
// of the step's computation. talks is which part of it looks found that exchanges data.
func (s *steps) body(rec *record, talks float64) {
	span, track := rec.span(trace.KindCompute), trace.TrackCompute
	span.Step = rec.Step
	if s.open != nil && s.open.step.Index == rec.Step {
		span.Batch = s.open.step.Batch
		s.open.final = s.open.final || rec.Flags&flagFinal != 0
	}
	if s.of.onDevice() {
		span.Kind, track = trace.KindEnqueue, trace.TrackStep
	}
	for _, talk := range s.talked { // within it
		part := span
		part.End = talk.Start
		s.out.span(track, part)
		s.out.span(trace.TrackStep, talk)
		span.Start = talk.End
	}
	s.talked = s.talked[:0]
	s.exchanges(track, span, int64(min(talks, mostTalk)*float64(span.End-span.Start)))
}

// mostTalk is which part of a step on the host is told to be an exchange, at most: something is computed, too.
const mostTalk = 0.98

// exchanges records computation of which so many ns are an exchange.
func (s *steps) exchanges(track trace.TrackID, span trace.Span, ns int64) {
	if ns > 0 {
		talk, front := span, span
		talk.Kind, talk.End = trace.KindExchange, span.End-int64(afterwards*float64(max(0, span.End-span.Start-ns)))
		talk.Start = max(span.Start, talk.End-ns)
		s.out.span(trace.TrackStep, talk)
		front.End, span.Start = talk.Start, talk.End
		s.out.span(track, front)
	}
	s.out.span(track, span)
}

// afterwards is the part of a step's computation that follows its exchange, where that is not measured step by step.
const afterwards = 0.1

// computed takes what the GPU did for a step.
func (s *steps) computed(rec *record) {
	span := rec.span(trace.KindCompute)
	span.Step = rec.Step
	if o := s.untimed[rec.Step]; o != nil {
		span.Batch = o.step.Batch
	}
	if rec.Flags&flagGoesOn != 0 {
		s.out.span(trace.TrackCompute, span)
		return
	}
	s.exchanges(trace.TrackCompute, span, s.talks)
	s.time(rec.Step)
}

// next ends the open step, if its last record has come. last says that the epoch ends with this
// step.
func (s *steps) next(last bool) {
	if s.open == nil || !s.open.final {
		return
	}
	if last {
		s.open.step.Flags |= trace.FlagLastOfEpoch
	}
	s.keep()
}

// leave ends the open step whose last record never came.
func (s *steps) leave() {
	if s.open != nil && !s.open.final {
		s.keep()
	}
}

// keep moves the open step to those that have ended.
func (s *steps) keep() {
	s.kept = append(s.kept, s.open)
	s.open = nil
	s.release(false)
}

// release hands out the kept steps whose waits are explained, or each kept step if all is set. A
// worker reports what it did for a batch when the batch is done. A worker that was ended never
// does, so at most as many steps wait as batches can be under way.
func (s *steps) release(all bool) {
	for len(s.kept) > 0 {
		o := s.kept[0]
		if !all && o.beside != nil && o.beside.done == 0 && len(s.kept) <= 2*s.segments.knobs.Workers+2 {
			return
		}
		s.kept = s.kept[1:]
		if o.timed {
			s.out.step(o.step)
		} else {
			s.untimed[o.step.Index] = o
		}
	}
	for len(s.untimed) > mostUntimed {
		s.giveUp(s.oldest())
	}
}

// mostUntimed is how many steps may wait for the GPU's time. It is twice the number at which
// engine/torch/python/gpustall/device.py gives up the oldest.
const mostUntimed = 128

// oldest returns the index of the first step that waits for the GPU's time; math.MaxInt32 where none
// does.
func (s *steps) oldest() int32 {
	first := int32(math.MaxInt32)
	for step := range s.untimed {
		first = min(first, step)
	}
	return first
}

// giveUp hands out a step although the GPU's time is not known.
func (s *steps) giveUp(step int32) {
	s.out.step(s.untimed[step].step)
	delete(s.untimed, step)
}

// time notes that the GPU's time of a step is recorded. Earlier steps that still wait for theirs get
// none, because Python gave them up.
func (s *steps) time(step int32) {
	for _, o := range s.kept {
		if o.step.Index == step {
			o.timed = true
			return
		}
	}
	for first := s.oldest(); first < step; first = s.oldest() {
		s.giveUp(first)
	}
	if o := s.untimed[step]; o != nil {
		delete(s.untimed, step)
		s.out.step(o.step)
	} else if s.open != nil && s.open.step.Index == step {
		s.open.timed = true
	}
}

// finish hands out all steps, when no record follows.
func (s *steps) finish() {
	if s.open != nil && s.open.final {
		s.open.timed = true
		s.keep()
	}
	s.release(true)
	for len(s.untimed) > 0 {
		s.giveUp(s.oldest())
	}
}
