//go:build linux

package bridge

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// process is one of the training that has a loop, and what its loop and its workers do.
type process struct {
	b       *Bridge
	pid     int
	hello   Hello
	loader  Loader // that trains; under the bridge's mu
	known   bool   // hello is
	loading bool   // loader is

	passes map[uint32]*pass
	number numbers
	lanes  map[*ring]trace.TrackID
	taken  map[trace.TrackID][]taken // batches that each lane began with, by time: workers are read up to a second ahead of the loop

	// Of the loop.
	pending   []message // changes, until the loop's records come to them
	applies   []record  // within the wait under way
	opening   []record  // iterators begun, of which no batch came yet
	open      *open     // the step under way
	kept      []*open   // that have ended, and wait for what a worker did meanwhile
	device    map[int32]*open
	epoch     int32
	ended     int64 // when the last epoch did
	resumed   int64 // and the next began
	segment   trace.Segment
	knobs     Knobs
	changing  bool // the segment's first steps are still excluded
	steps     int32
	waited    int64 // ns that the loop was ready without a core in the last wait of which that was read
	totals    totals
	batchSize Batch // of the last loader that told; under the bridge's mu
}

// open is a step that has begun.
type open struct {
	step  trace.Step
	load  int64 // ns that its batch took a worker
	final bool  // it has ended, but for what follows it
	timed bool  // the device's time is known, or the host's is all there is

	beside *batch // that the worker of its batch was on while the loop took that; nil where it idled
}

// taken is a batch that a worker began with.
type taken struct {
	at    int64 // ns
	batch *batch
}

// pass is one passage through a loader.
type pass struct {
	batches map[batchID]*batch
	trains  bool
	round   uint32
	next    int32  // the first of the round's that has no number
	last    *batch // the one delivered last, which may turn out to be a step's
	lastID  batchID
}

// batchID is a batch as its worker calls it.
type batchID struct {
	round uint32
	index int32
}

// batch is one under way.
type batch struct {
	seq   int32 // over the session
	lane  trace.TrackID
	done  int64 // the loop could have it; 0 until then
	work  trace.Work
	sent  trace.Split            // of what it took to hand it over
	spent [trace.NumPhases]int64 // ns by phase
	timed bool                   // so was some phase of its samples
	slow  trace.Piece
}

func newProcess(b *Bridge, pid int) *process {
	return &process{b: b, pid: pid, passes: map[uint32]*pass{}, lanes: map[*ring]trace.TrackID{}, taken: map[trace.TrackID][]taken{}, device: map[int32]*open{}, epoch: -1}
}

// begin opens the first segment.
func (p *process) begin() {
	p.knobs = knobsOf(&p.loader)
	p.segment = trace.Segment{Knobs: p.loader.list(p.knobs), Reason: "start"}
	if since, ok := p.b.firstOf(p.pid); ok {
		p.segment.Start = since
	}
	p.b.recorder.Segment(p.segment)
}

// withSteps are the messages that hold from a step on.
var withSteps = []string{"applied", "moved", "anew", "refused", "device"}

// hear takes a message after the recording has begun.
func (p *process) hear(m *message) {
	switch {
	case m.Type == "note":
		p.b.recorder.Note(m.Level, m.Text)
	case m.Type == "captured" && p == p.b.main && p.b.Captured != nil:
		m.Captured.Path = filepath.Join(p.b.shared, filepath.Base(m.Captured.Path))
		p.b.Captured(m.Captured)
	case m.Type == "device" && p != p.b.main:
		p.hello.take(&m.Hello)
	case slices.Contains(withSteps, m.Type) && p == p.b.main:
		p.pending = append(p.pending, *m)
	}
}

// apply opens the segment of knobs that are in force now, or takes note that some cannot be.
func (p *process) apply(m *message) {
	k, before, words := p.knobs, p.loader.list(p.knobs), ""
	switch m.Type {
	case "device":
		words = "device cpu -> " + m.CUDA
		p.b.mu.Lock()
		p.hello.take(&m.Hello)
		p.b.mu.Unlock()
		p.b.recorder.Device(p.hello.Device())
		p.describe(p.loader)
	case "refused":
		p.b.recorder.Specs(p.b.Control.refuse(&m.Refused, m.Knobs["num_workers"]))
		return
	case "anew":
		l := p.loader
		l.Anew = true
		p.describe(l)
		return
	case "moved": // on to another loader
		m.Loader.Anew = p.loader.Anew
		k = knobsOf(&m.Loader)
		p.describe(m.Loader)
	default:
		k.take(m.Knobs)
	}
	words = cmp.Or(words, knob.Diff(before, p.loader.list(k)))
	if words == "" {
		return
	}
	if m.Script {
		words += trace.ByScript
		p.b.Control.follow(k)
	}
	at := m.T - p.b.Clock.origin
	p.settle()
	p.segment.End = at
	p.b.recorder.Segment(p.segment)
	p.knobs = k
	p.segment = trace.Segment{
		Index: p.segment.Index + 1, Start: at, FirstStep: m.Step, Knobs: p.loader.list(k), Reason: words, ByScript: m.Script, Predicted: p.b.Control.expected(k),
	}
	p.b.recorder.Segment(p.segment)
	if m.Type == "device" { // what was before, a look at the data for instance, is nothing to compare with
		p.b.recorder.Baseline(p.segment.Index)
	}
	p.changing = true
}

// describe has the loader, and the knobs' specs with it, be as l says.
func (p *process) describe(l Loader) {
	p.b.mu.Lock()
	p.loader = l
	p.b.mu.Unlock()
	specs := Specs(&p.hello, &p.loader, &p.batchSize)
	p.b.Control.another(specs)
	p.b.recorder.Specs(specs)
}

// settle ends the transition under way.
func (p *process) settle() {
	if p.changing {
		p.changing = false
		p.b.recorder.Segment(p.segment)
	}
}

func (p *process) pass(id uint32) *pass {
	s := p.passes[id]
	if s == nil {
		s = &pass{batches: map[batchID]*batch{}}
		p.passes[id] = s
		for old := range p.passes { // passages that were left, with batches that nobody took
			if len(p.passes) > 64 && old+64 < id {
				delete(p.passes, old)
			}
		}
	}
	return s
}

// batch is the one of that name, begun where it is not known.
func (p *process) batch(s *pass, id batchID) *batch {
	b := s.batches[id]
	if b == nil {
		b = &batch{seq: p.number.take(s, id), lane: trace.TrackStep}
		s.batches[id] = b
	}
	return b
}

// lane is the track of a writer: that of its number where no other has it.
func (p *process) lane(r *ring) trace.TrackID {
	switch r.role {
	case roleLoop:
		return trace.TrackStep
	case roleInline:
		return trace.TrackInline
	case rolePin:
		return trace.TrackPin
	}
	if t, ok := p.lanes[r]; ok {
		return t
	}
	n := min(max(r.worker, 0), trace.MaxWorkers-1)
	if r.role == roleSender { // in the process of a worker, which has begun before
		for w, t := range p.lanes {
			if w.pid == r.pid {
				return t
			}
		}
		return trace.Worker(n)
	}
	taken := func(t trace.TrackID) bool {
		for other, at := range p.lanes {
			if at == t && !other.over() {
				return true
			}
		}
		return false
	}
	for i := 0; i < trace.MaxWorkers && taken(trace.Worker(n)); i++ {
		n = (n + 1) % trace.MaxWorkers
	}
	p.lanes[r] = trace.Worker(n)
	return trace.Worker(n)
}

// leave frees the lane of a writer that has ended.
func (p *process) leave(r *ring) { delete(p.lanes, r) }

// record writes a span, where the session is about this process.
func (p *process) record(t trace.TrackID, s trace.Span) {
	if p == p.b.main && s.End > s.Start {
		p.b.recorder.Track(t).Record(s)
	}
}

// work takes what a worker, or the loop in its place, did.
func (p *process) work(r *ring, rec *record) {
	lane := p.lane(r)
	span := trace.Span{Start: rec.Start, End: rec.End, Step: -1, Batch: -1}
	switch rec.Kind {
	case kindStart:
		span.Kind = trace.KindStart
		p.record(lane, span)
		return
	case kindWait:
		span.Kind, span.Arg = trace.KindBlocked, uint32(trace.BlockPrefetch)
		if rec.Start < p.ended && rec.End > p.ended || rec.Start < p.resumed && rec.End > p.resumed { // nobody wanted a batch
			span.Arg = uint32(trace.BlockIdle)
		}
		p.record(lane, span)
		if rec.Batch >= 0 {
			p.begins(lane, taken{rec.End, p.batch(p.pass(rec.Iteration), batchID{rec.Round, rec.Batch})})
		}
		return
	}
	b := p.batch(p.pass(rec.Iteration), batchID{rec.Round, rec.Batch})
	if rec.Kind == kindSent {
		b.done = max(b.done, rec.End)
		b.sent = rec.split()
		return
	}
	if rec.Kind == kindBatch {
		if b.timed {
			r.mix.learn(&b.spent)
		}
		p.within(r, rec)
		b.work.Batch = rec.split()
		b.done = max(b.done, rec.End)
		b.lane = lane
		took := int64(rec.Arg) * 1000
		longest := trace.KindFetch
		for k := trace.KindRead; k.IsPhase(); k++ {
			if b.spent[k-trace.KindRead] > b.spent[longest-trace.KindRead] && k != trace.KindCollate {
				longest = k
			}
		}
		b.slow = trace.Piece{Sample: rec.Sample, Kind: longest, Took: took}
		return
	}
	k, ok := phases[rec.Kind]
	if !ok {
		return
	}
	span.Kind, span.Batch = k, b.seq
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
	p.record(lane, span)
}

// begins remembers that a lane's worker began with a batch. A worker that takes another's place may
// be read before that.
func (p *process) begins(lane trace.TrackID, t taken) {
	all := p.taken[lane]
	at := len(all)
	for at > 0 && all[at-1].at > t.at {
		at--
	}
	p.taken[lane] = slices.Insert(all, at, t)
}

// went forgets the batches that a lane's worker had done by the time that the loop came to.
func (p *process) went(lane trace.TrackID, at int64) {
	all := p.taken[lane]
	for len(all) > 1 && all[1].at <= at {
		all = all[1:]
	}
	p.taken[lane] = all
}

// within takes what the record of a batch tells of its phases.
func (p *process) within(r *ring, batch *record) {
	if batch.Offset == 0 {
		return
	}
	begun := min(batch.Start+int64(batch.Offset), batch.End)
	part := *batch
	part.Core, part.Waiting = -1, -1
	part.Kind, part.End, part.Flags = kindFetch, begun, part.Flags|flagWhole
	p.work(r, &part)
	part.Kind, part.Start, part.End = kindCollate, begun, batch.End
	p.work(r, &part)
}

// loop takes what the loop did.
func (p *process) loop(rec *record) {
	span := trace.Span{Start: rec.Start, End: rec.End, Step: -1, Batch: -1}
	trains := rec.Flags&flagTrain != 0
	if rec.Kind != kindDevice && p.open != nil && p.open.final {
		last := rec.Kind == kindEnd
		if last {
			p.open.step.Flags |= trace.FlagLastOfEpoch
		}
		p.emit()
	}
	for len(p.pending) > 0 && p.pending[0].T-p.b.Clock.origin <= rec.End && rec.Kind != kindDevice {
		p.apply(&p.pending[0])
		p.pending = p.pending[1:]
	}
	switch rec.Kind {
	case kindIter:
		p.opening = append(p.opening, *rec)
		if trains {
			p.resumed = rec.Start
		}
	case kindApply:
		p.applies = append(p.applies, *rec)
		span.Kind = trace.KindRebuild
		p.record(trace.TrackStep, span)
	case kindPause:
		span.Kind = trace.KindPause
		p.record(trace.TrackStep, span)
	case kindNext:
		p.next(rec)
	case kindBody:
		span.Kind = trace.KindCompute
		if !trains { // a loop that evaluates, say: in no share
			p.totals.aside(rec)
			span.Kind = trace.KindPause
			p.record(trace.TrackStep, span)
			return
		}
		p.totals.spend(rec)
		span.Step = rec.Step
		if p.open != nil && p.open.step.Index == rec.Step {
			span.Batch = p.open.step.Batch
			p.open.final = p.open.final || rec.Flags&flagFinal != 0
		}
		if p.onDevice() {
			span.Kind = trace.KindEnqueue
			p.record(trace.TrackStep, span)
			return
		}
		p.record(trace.TrackCompute, span)
	case kindBackward, kindOptimizer:
		p.totals.spend(rec)
		span.Kind, span.Step = parts[rec.Kind], rec.Step
		p.record(trace.TrackScript, span)
	case kindEnd:
		span.Kind = trace.KindNext
		if trains {
			p.ended = rec.End
		} else {
			p.totals.aside(rec)
			span.Kind = trace.KindPause
		}
		p.record(trace.TrackStep, span)
	case kindDevice:
		span.Kind, span.Step = trace.KindCompute, rec.Step
		if o := p.device[rec.Step]; o != nil {
			span.Batch = o.step.Batch
		}
		p.record(trace.TrackCompute, span)
		if rec.Flags&flagGoesOn == 0 {
			p.timed(rec.Step)
		}
	}
}

// onDevice reports whether a device's own times are recorded.
func (p *process) onDevice() bool { return p.hello.CUDA != "" }

// next takes a wait for a batch, which has come.
func (p *process) next(rec *record) {
	s := p.pass(rec.Iteration)
	id := batchID{rec.Round, rec.Batch}
	b, seen := s.batches[id], true
	if b == nil && s.last != nil && s.lastID == id {
		b = s.last
	}
	if b == nil {
		b, seen = p.batch(s, id), false
	}
	s.last, s.lastID = b, id
	s.trains = rec.Flags&flagTrain != 0
	delete(s.batches, id)
	wait := trace.Span{Kind: trace.KindNext, Step: rec.Step, Batch: b.seq}
	if !seen { // nothing is on record of how it was made
		wait.Batch = -1
	}
	if !s.trains {
		p.totals.aside(rec)
		wait.Kind = trace.KindPause
	}
	from := rec.Start
	if rec.Waiting < 0 { // the loop reads it of few short steps, which stand for those that follow
		rec.Waiting = p.waited
	}
	p.waited = rec.Waiting
	parts := append(p.opening, p.applies...)
	slices.SortFunc(parts, func(a, b record) int { return int(a.Start - b.Start) })
	for i := range parts {
		part := &parts[i]
		switch {
		case part.Kind == kindIter && part.Iteration == rec.Iteration: // the wait for the first batch began here
			span := wait
			span.Start, span.End = part.Start, part.End
			p.record(trace.TrackStep, span)
		case part.Kind == kindApply && part.End > from:
			span := wait
			span.Start, span.End = from, part.Start
			p.record(trace.TrackStep, span)
			from = part.End
		}
	}
	p.opening, p.applies = p.opening[:0], p.applies[:0]
	wait.Start, wait.End = from, rec.End
	p.went(b.lane, from)
	if late := rec.late(b, from); seen && late > 0 && s.trains {
		wait.End -= late
		p.record(trace.TrackStep, trace.Span{Start: wait.End, End: rec.End, Kind: trace.KindStarved, Step: rec.Step, Batch: b.seq})
	}
	var beside *batch
	if seen && s.trains {
		beside = p.taking(&wait, b)
	}
	p.record(trace.TrackStep, wait)
	if o := p.open; o != nil && rec.Step == o.step.Index && rec.Step >= 0 {
		p.totals.wait(rec)
		o.join(rec, b)
		return
	}
	if seen {
		p.queue(s, b, rec)
	}
	if rec.Step < 0 {
		return
	}
	if p.open != nil && !p.open.final { // left without an end
		p.emit()
	}
	p.totals.next(rec)
	p.step(rec, b)
	p.open.beside = beside
}

// atOnce is what it takes at the most, in ns, to take a batch that is ready.
const atOnce = 100_000

// taking tells of the part of a wait in which its batch was ready, and the loop took it from the
// worker: it unpickles it, and asks a thread of the worker's for each tensor's memory. That thread
// gets its turn when the worker's own code lets it, so where the worker is at another batch
// meanwhile, the loop waits for that work: beside is that batch. What is left of the wait is what
// went before.
func (p *process) taking(wait *trace.Span, b *batch) (beside *batch) {
	ready := max(wait.Start, b.done)
	if b.done == 0 || b.lane == trace.TrackStep || b.lane == trace.TrackInline || wait.End-ready < atOnce {
		return nil
	}
	rest := *wait
	rest.Start, rest.Batch = ready, -1
	wait.End = ready
	for _, t := range p.taken[b.lane] {
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
		p.record(trace.TrackStep, idle)
		p.record(trace.TrackStep, part)
		rest.Start, beside = part.End, t.batch
	}
	p.record(trace.TrackStep, rest)
	return beside
}

// late is for how long, in ns, the loop had no core to take a batch with that was ready. What
// it waited for one before is the worker's doing, and with loading inline its own phases'.
func (r *record) late(b *batch, from int64) int64 {
	if b.done == 0 || b.lane == trace.TrackStep || b.lane == trace.TrackInline {
		return 0
	}
	late := min(r.Waiting, r.End-max(from, b.done))
	if late < int64(host.WakeLatency) {
		return 0
	}
	return late
}

// step begins a step with its batch.
func (p *process) step(rec *record, b *batch) {
	if b.work.Measured() { // the wait for a batch is charged to collate until it is handed over
		b.work.Phases.Of(trace.KindCollate).Add(b.sent)
	}
	st := trace.Step{
		Index: rec.Step, Segment: p.segment.Index, Batch: b.seq, Samples: int32(min(rec.Arg, math.MaxInt32)), Correct: -1, Loss: float32(math.NaN()),
		Work: b.work, Built: trace.Built{Worker: b.lane, Slowest: b.slow},
	}
	if rec.Flags&flagFirst != 0 {
		p.epoch++
		st.Flags |= trace.FlagFirstOfEpoch
	}
	if rec.Flags&flagProfiled != 0 { // in no rate: it takes longer
		st.Flags |= trace.FlagTimed | trace.FlagTransition
	}
	st.Epoch = max(p.epoch, 0)
	if p.changing {
		if rec.Flags&flagChanging != 0 || p.segment.TransitionSteps == 0 {
			st.Flags |= trace.FlagTransition
			p.segment.TransitionSteps++
		} else {
			p.settle()
		}
	}
	p.open = &open{step: st, timed: !p.onDevice(), load: b.load()}
}

// join takes a further batch of the step, from another loader.
func (o *open) join(rec *record, b *batch) {
	o.load += b.load()
	o.step.Load = o.load
	o.step.Samples += int32(min(rec.Arg, uint32(math.MaxInt32-o.step.Samples)))
	o.step.Work.Add(&b.work)
}

// load is the worker's time that the batch took so far, in ns.
func (b *batch) load() (ns int64) {
	for _, spent := range b.spent {
		ns += spent
	}
	return ns
}

// emit hands the step under way to the session, or keeps it until the device's time
// is known.
func (p *process) emit() {
	p.kept = append(p.kept, p.open)
	p.open = nil
	p.release(false)
}

// release hands out steps of which it is known what they waited for: a worker tells what it did
// for a batch when that is done, and one that ended in between never does.
func (p *process) release(all bool) {
	for len(p.kept) > 0 {
		o := p.kept[0]
		if !all && o.beside != nil && o.beside.done == 0 && len(p.kept) <= 2*p.knobs.Workers+2 {
			return
		}
		p.kept = p.kept[1:]
		if o.timed {
			p.announce(o)
		} else {
			p.device[o.step.Index] = o
		}
	}
	for len(p.device) > mostUntimed {
		p.untimed(p.oldest())
	}
}

// mostUntimed is how many steps may wait for their time on the device: engine/torch/python/gpustall/device.py
// gives up the oldest of half as many.
const mostUntimed = 128

// oldest is the first of the steps that wait for their time on the device; no step's number where
// none does.
func (p *process) oldest() int32 {
	first := int32(math.MaxInt32)
	for step := range p.device {
		first = min(first, step)
	}
	return first
}

// untimed hands out a step whose time on the device is not known.
func (p *process) untimed(step int32) {
	p.announce(p.device[step])
	delete(p.device, step)
}

// timed is called when the device's time of a step is on record.
func (p *process) timed(step int32) {
	for _, o := range p.kept {
		if o.step.Index == step {
			o.timed = true
			return
		}
	}
	for first := p.oldest(); first < step; first = p.oldest() { // those before it whose time was given up
		p.untimed(first)
	}
	if o := p.device[step]; o != nil {
		delete(p.device, step)
		p.announce(o)
	} else if p.open != nil && p.open.step.Index == step {
		p.open.timed = true
	}
}

func (p *process) announce(o *open) {
	if p == p.b.main {
		p.b.recorder.Step(o.step)
		p.steps++
	}
}

// finish hands out what no record follows any more.
func (p *process) finish() {
	if p.open != nil && p.open.final {
		p.open.timed = true
		p.emit()
	}
	p.release(true)
	for len(p.device) > 0 {
		p.untimed(p.oldest())
	}
	p.settle()
	p.segment.End = p.b.recorder.Now()
	p.b.recorder.Segment(p.segment)
}

// queue writes down how many batches were ready while the loop waited for b.
func (p *process) queue(s *pass, b *batch, rec *record) {
	if p != p.b.main || rec.Step < 0 || p.knobs.Workers == 0 {
		return
	}
	var times []int64 // at which others were ready
	for _, other := range s.batches {
		if other.done > 0 && other.done < rec.End {
			times = append(times, other.done)
		}
	}
	slices.Sort(times)
	track := p.b.recorder.Track(trace.TrackQueue)
	// PyTorch deals batches out beforehand, so that a worker goes on while the loop waits for
	// another's. Only where so many are ready that fewer are under way than there are
	// workers does the order keep one of them idle.
	idle := p.knobs.queueLimit() - p.knobs.Workers
	sample := func(at int64, ready int, late bool) {
		q := trace.Span{Start: at, End: at, Step: -1, Batch: -1, Kind: trace.KindQueue, Arg: uint32(ready), Flags: uint16(min(p.knobs.queueLimit(), math.MaxUint16))}
		if late && ready > idle && p.knobs.Ordered {
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
