package train

import (
	"runtime"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

// starved finds when the step loop, or a stream's thread where the streams are the
// host's, was ready to run and had no core.
type starved struct {
	meter *host.Meter // of the step loop; nil where this is not counted

	before int64 // what the thread had waited when the step was begun to be enqueued, ns
	locked bool  // a step is being measured
	at     int64 // when the last one was begun, ns
	budget host.Budget
	cost   host.Cost // of measuring a step
}

func (s *starved) open() {
	s.meter, _ = host.NewMeter()
	s.budget.Share = 0.005
}

// begin begins to measure the enqueuing of a step, if there is time for it. Until end the
// step loop is locked to its thread.
func (s *starved) begin(c trace.Clock, now int64) {
	if s.meter == nil {
		return
	}
	s.budget.Earn(now-s.at, s.cost.Of(1))
	s.at = now
	if !s.budget.Covers(s.cost.Of(1)) {
		return
	}
	runtime.LockOSThread()
	s.before, s.locked = 0, true
	if waited, ok := s.meter.Waited(); ok {
		s.before = waited
	}
	s.cost.See(2 * (c.Now() - now)) // the other half of it is end
	s.budget.Spend(s.cost.Of(1))
}

// end returns how long the step loop waited for a core since begin, in ns.
func (s *starved) end() (ns int64) {
	if !s.locked {
		return 0
	}
	if waited, ok := s.meter.Waited(); ok && s.before > 0 {
		ns = waited - s.before
	}
	runtime.UnlockOSThread()
	s.locked = false
	return ns
}

// woken records a wait of the step loop: as k from start until what it waited for was
// there, at ready, and as starved from then until now, if that was late.
func (e *Engine) woken(k trace.Kind, start, ready int64, batch int32, flags uint16) {
	now := e.rec.Now()
	s := trace.Span{Start: start, End: now, Step: e.step, Batch: batch, Kind: k, Flags: flags}
	if ready = max(ready, start); now-ready > int64(host.WakeLatency) {
		if s.End = ready; ready > start {
			e.tracks.step.Record(s)
		}
		s.Start, s.End, s.Kind = ready, now, trace.KindStarved
	}
	e.tracks.step.Record(s)
}

// recordLate records how late the threads of the streams began what they had for a step,
// and how long its copy waited for a core, where they are the host's: just before the
// copy's and the compute's beginning and the copy's end, in ns.
func (e *Engine) recordLate(f *flight, copyStart, copyEnd, start int64) {
	d, ok := e.dev.(device.HostStreams)
	if !ok {
		return
	}
	for _, at := range [...]struct {
		track *trace.Track
		event device.Event
		t     int64
	}{{e.tracks.copy, f.copyStart, copyStart}, {e.tracks.copy, f.copyEnd, copyEnd}, {e.tracks.compute, f.start, start}} {
		if late := int64(d.Late(at.event)); late > int64(host.WakeLatency) {
			at.track.Record(trace.Span{Start: max(at.t-late, f.enqueued), End: at.t, Step: f.step, Batch: f.seq, Kind: trace.KindStarved})
		}
	}
}
