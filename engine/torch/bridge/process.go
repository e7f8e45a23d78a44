//go:build linux

package bridge

import (
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// facts holds what a process told about itself. It may be copied, because nobody changes what it
// points to.
type facts struct {
	pid     int
	hello   Hello
	loader  Loader // the one that trains
	batch   Batch  // a batch of the loader that reported last
	known   bool   // hello is set
	loading bool   // loader is set

	most  *message       // told how many workers can begin; nil while no limit is known
	talks Exchange       // in its backward passes; zero where that is not known
	tried uint64         // the last trial of workers that it answered
	force map[string]int // the knobs in force, and ...
	since int32          // ... the step since which they are
}

// hear stores what a message says about the process. A message tells of the loader that trains
// when the loop begins; segments follow the loop to other loaders.
func (f *facts) hear(m *message) {
	switch m.Type {
	case "hello":
		f.hello, f.known = m.Hello, true
	case "loader":
		if m.Trains && !f.loading {
			f.loader, f.loading = m.Loader, true
			f.force = m.Knobs
		}
	case "applied", "moved":
		f.force, f.since = m.Knobs, m.Step
	case "refused":
		f.most = m
	case "tried":
		f.tried = m.Trial
	case "batch":
		f.batch = m.Batch
	case "exchange":
		f.talks = m.Exchange
	}
}

// onDevice reports whether the times of a GPU are recorded.
func (f *facts) onDevice() bool { return f.hello.CUDA != "" }

// specs returns the knobs as they are with the process's loader.
func (f *facts) specs() []knob.Spec { return Specs(&f.hello, &f.loader, &f.batch) }

// process is one process of the training that has a loop. It takes the records of the loop and of
// its workers, and hands each to the part that needs it. The goroutine that reads the rings owns it.
type process struct {
	facts
	out      output
	passes   passes
	lanes    lanes
	waits    waits
	steps    steps
	segments segments
	totals   totals
	inline   inline
	lines    *lines   // told which batches the loop waited for; nil but for the main process
	seat     seat     // zero where it has none
	hole     int64    // ns: until then, records of how batches were made were lost
	learns   *message // told that the steps before one were none; nil once that is done
}

func newProcess(c *Control, pid int) *process {
	p := &process{facts: facts{pid: pid, tried: c.tried()}, passes: passes{byID: map[uint32]*pass{}}, lanes: lanes{}}
	p.waits = waits{out: &p.out, begun: map[trace.TrackID][]begun{}}
	p.segments = segments{out: &p.out, control: c, of: &p.facts}
	p.steps = steps{out: &p.out, segments: &p.segments, of: &p.facts, untimed: map[int32]*open{}, epoch: -1}
	return p
}

// begin makes the session be about this process, whose loop began at since.
func (p *process) begin(r *trace.Recorder, since int64) {
	p.out.recorder = r
	p.segments.begin(since)
}

// reached returns how far the session has come with this process, once it has finished.
func (p *process) reached() before {
	b := p.out.before
	return before{
		segment: p.segments.segment.Index + 1, epoch: b.epoch + max(0, p.steps.epoch) + 1, step: b.step + p.steps.last.Step + 1,
		batch: b.batch + p.passes.numbers.free, samples: b.samples + max(0, p.steps.last.Core),
	}
}

// finish hands out the steps and segments that no later record will complete.
func (p *process) finish() {
	p.steps.finish()
	p.segments.finish()
}

// hear takes a message after the recording has begun.
func (p *process) hear(m *message) {
	switch {
	case m.Type == "learns":
		p.learns = m
	case p.out.recorder != nil:
		p.segments.hear(m)
	case m.Type == "device":
		p.hello.take(&m.Hello)
	}
}

// loop takes a record of the loop.
func (p *process) loop(rec *record) {
	if rec.Kind == kindDevice {
		p.totals.computed(rec)
		p.steps.computed(rec)
		return
	}
	if rec.Kind == kindSampler {
		p.waits.drew(rec)
		return
	}
	p.steps.next(rec.Kind == kindEnd)
	if p.learns != nil && p.learns.T <= rec.End {
		p.begins(p.learns)
		p.learns = nil
	}
	was := p.segments.segment.Index
	p.segments.follow(rec.End)
	if now := &p.segments.segment; now.Index != was && p.lines != nil {
		p.lines.enter(now.Index, now.Start)
	}
	trains := rec.Flags&flagTrain != 0
	switch rec.Kind {
	case kindLast:
		p.steps.count(rec)
	case kindIter:
		p.waits.iterator(rec, trains)
	case kindApply:
		p.waits.applied(rec)
	case kindPause:
		p.totals.pause += rec.End - rec.Start
		p.out.span(trace.TrackStep, rec.span(trace.KindPause))
	case kindNext:
		p.next(rec)
	case kindBody, kindEnd:
		switch {
		case !trains: // an evaluation, for instance, counts in no share
			p.totals.aside(rec)
			p.out.span(trace.TrackStep, rec.span(trace.KindPause))
		case rec.Kind == kindBody:
			p.totals.spend(rec)
			p.steps.body(rec, p.talking())
		default:
			p.waits.end(rec)
		}
	case kindBackward, kindOptimizer:
		p.totals.spend(rec)
		span := rec.span(parts[rec.Kind])
		span.Step = rec.Step
		p.out.span(trace.TrackScript, span)
		if rec.Kind == kindBackward && p.talks != (Exchange{}) {
			p.exchanged(span)
		}
	}
}

// begins takes the steps before m.Step back. The script took batches and learned nothing with them, and learns now.
func (p *process) begins(m *message) {
	before := trace.Span{Start: p.totals.last, End: m.T, Step: -1, Batch: -1, Kind: trace.KindPause}
	p.totals = totals{}
	open := p.steps.begins(m.Step)
	if open {
		before.End = p.steps.last.Start
		p.totals.next(&p.steps.last)
	}
	p.out.span(trace.TrackStep, before)
	p.segments.begins(m.Step, before.End)
	p.segments.unused = !open
	if p.lines != nil {
		p.lines.starts(before.End, false)
	}
	if p.out.recorder != nil {
		p.out.recorder.Note("info", "the script took "+units.Counted(int(m.Step), "batch", "batches")+" before it learned anything: these are no steps")
	}
}

// exchanged takes a backward pass of which it is known how long it takes to compute. On the host it ends with the exchange: what it
// took longer than that, it waited for other ranks. On a GPU the pass is over before that is known, and what was measured in
// another one stands for it.
func (p *process) exchanged(pass trace.Span) {
	ns := pass.End - pass.Start - p.talks.Compute
	if p.onDevice() {
		p.steps.talks, ns = p.talks.Exposed, p.talks.Exposed
	} else if ns > 0 {
		pass.Kind, pass.Start = trace.KindExchange, pass.End-ns
		p.steps.talked = append(p.steps.talked, pass)
	}
	p.totals.exchanged(max(1, ns), pass.Step)
}

// talking returns which part of a step on the host exchanges data, where only looks tell.
func (p *process) talking() float64 {
	if p.lines == nil || p.talks != (Exchange{}) || p.onDevice() {
		return 0
	}
	return p.lines.exchanging()
}

// next takes the record of a wait that ended with a batch.
func (p *process) next(rec *record) {
	if _, b := p.passes.known(rec); b != nil {
		p.inline.learn(rec)
	} else if made, ok := p.inline.alike(rec); ok && rec.End > p.hole {
		p.loaded(p.inline.ring, p.lanes.of(p.inline.ring), &made)
	}
	s, b, seen := p.passes.deliver(rec)
	if rec.Flags&flagTrain == 0 {
		p.totals.aside(rec)
		for _, o := range p.waits.opening { // the wait for the first batch began with the iterator
			if o.Iteration == rec.Iteration {
				o.Kind = kindNext
				p.totals.aside(&o)
			}
		}
	}
	if seen && p.lines != nil && rec.Flags&flagTrain != 0 {
		p.lines.await(b, rec.Start, rec.End)
	} else if p.lines != nil && rec.Flags&flagTrain != 0 {
		p.lines.awaitAny(rec.Start, rec.End)
	}
	beside := p.waits.batch(rec, b, seen)
	if p.steps.join(rec, b) {
		p.totals.wait(rec)
		return
	}
	if seen && rec.Step >= 0 {
		p.waits.queue(s, b, rec, &p.segments.knobs)
	}
	if rec.Step >= 0 {
		p.steps.leave()
		p.totals.next(rec)
		if p.lines != nil && p.totals.steps == 2 {
			p.lines.starts(rec.Start, true)
		}
		p.steps.begin(rec, b, beside, !seen && rec.End <= p.hole)
	}
}

// work takes a record of a worker, or of the loop where it loads a batch itself.
func (p *process) work(r *ring, rec *record) {
	lane := p.lanes.of(r)
	switch rec.Kind {
	case kindStart:
		r.starts = rec.Start
		p.out.span(lane, rec.span(trace.KindStart))
	case kindWait:
		p.waits.worker(lane, rec)
		if rec.Batch >= 0 {
			p.waits.begins(lane, begun{rec.End, p.passes.batch(rec)})
		}
	case kindSent:
		b := p.passes.batch(rec)
		b.done = max(b.done, rec.End)
		b.sent = rec.split()
	case kindBatch:
		p.inline.loaded(r, rec)
		p.loaded(r, lane, rec)
	default:
		p.phase(r, lane, rec)
	}
}

// loaded takes the record of a batch as a whole, which follows those of its phases.
func (p *process) loaded(r *ring, lane trace.TrackID, rec *record) {
	b := p.passes.batch(rec)
	if b.timed {
		r.mix.learn(&b.spent)
	}
	if rec.Offset > 0 { // the record also stands for fetching and collation
		part, collates := *rec, min(rec.Start+int64(rec.Offset), rec.End)
		part.Core, part.Waiting = -1, -1
		part.Kind, part.End, part.Flags = kindFetch, collates, part.Flags|flagWhole
		p.phase(r, lane, &part)
		part.Kind, part.Start, part.End = kindCollate, collates, rec.End
		p.phase(r, lane, &part)
	}
	b.done = max(b.done, rec.End)
	b.lane = lane
	if b.begun = rec.Start; r.role == roleWorker {
		b.pid, b.starts, r.starts = r.pid, r.starts, 0
	}
	b.work.Batch = rec.split()
	b.slow = trace.Piece{Sample: rec.Sample, Kind: b.longest(), Took: int64(rec.Arg) * 1000}
}

// phase takes the record of a phase of loading.
func (p *process) phase(r *ring, lane trace.TrackID, rec *record) {
	k, ok := phases[rec.Kind]
	if !ok {
		return
	}
	b := p.passes.batch(rec)
	if k == trace.KindCollate {
		b.collating = rec.Start
	}
	span := rec.span(k)
	span.Batch = b.seq
	if rec.Kind == kindFetch && rec.Flags&flagWhole != 0 {
		span.Arg = uint32(r.mix.Mix)
	} else {
		b.timed = b.timed || k == trace.KindRead || k == trace.KindDecode || k == trace.KindTransform
	}
	for k, part := range span.Phases(rec.End - rec.Start) {
		b.spent[k-trace.KindRead] += part
	}
	if split := rec.split(); split != (trace.Split{}) {
		b.work.Phases.Of(k).Add(split)
	}
	if k == trace.KindPin {
		b.done = rec.End
	}
	p.out.span(lane, span)
}
