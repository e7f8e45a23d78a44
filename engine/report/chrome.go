package report

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Chrome writes the session in Chrome's trace event format ("Trace Event Format", JSON
// object form), for Perfetto, Holistic Trace Analysis and gpustall import.
//
// The host is a process with a thread for each of its lanes, and the device is one with a
// thread for each stream. Steps are ProfilerStep#N, and an arrow leads from each batch to
// the step that computes it. The queue and the gauges are counters; segments and notes
// are instants. Categories are PyTorch's where it has one, else gpustall's own. Times are
// microseconds since the session's start, with three decimals.
func Chrome(w io.Writer, s *trace.Snapshot, o Options) error {
	s, o = plain(s, o)
	b := bufio.NewWriterSize(w, 1<<16)
	e := &events{w: b, s: s}
	other, err := json.Marshal(facts(s, o))
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "{\"displayTimeUnit\":\"ms\",\"otherData\":%s,\"traceEvents\":[", other)
	e.names()
	if err := e.steps(); err != nil {
		return err
	}
	for i := range s.Spans {
		e.span(&s.Spans[i])
	}
	e.arrows()
	e.gauges()
	if err := e.segments(); err != nil {
		return err
	}
	for _, n := range s.Notes {
		e.emit(`{"ph":"i","s":"p","pid":1,"tid":0,"ts":%s,"name":%s}`, micros(n.T), text(n.Level+": "+n.Text))
	}
	_, _ = b.WriteString("\n]}\n") // errors stay until Flush
	return b.Flush()
}

// facts says what was run, for the trace's otherData.
func facts(s *trace.Snapshot, o Options) map[string]any {
	meta := &s.Meta
	out := map[string]any{
		"session": cmp.Or(o.Session, meta.ID), "device": meta.Device, "model": meta.Model, "dataset": meta.Dataset, "gpustall": meta.Version,
		"emulated": meta.Emulated, "synthetic": meta.Synthetic, "dropped_spans": s.Outcome.Dropped(), "imported": meta.Imported,
	}
	if keys := advice.Keys(advice.Labels(s, nil)); len(keys) > 0 {
		out["labels"] = keys
	}
	return out
}

// These have lanes of their own, because the events of a thread must nest and these
// overlap others.
const (
	transitionLane = 200 // transitions, which overlap what the step loop does
	stepLane       = 201 // steps, which overlap what the step loop does
	starvedLane    = 210 // plus a stream's number: its thread on the host was ready and had no core
)

// processOf returns the process of a lane: 0 for the streams of the device, 1 for the host.
func processOf(lane int) int {
	if lane == int(trace.TrackCompute) || lane == int(trace.TrackCopy) {
		return 0
	}
	return 1
}

// category returns PyTorch's word for a kind of span, or gpustall's own.
func category(k trace.Kind) string {
	switch k {
	case trace.KindCompute:
		return "kernel"
	case trace.KindCopy:
		return "gpu_memcpy"
	case trace.KindNext:
		return "user_annotation"
	case trace.KindEnqueue, trace.KindSync:
		return "cuda_runtime"
	}
	return "gpustall"
}

// events writes the events of a trace.
type events struct {
	w    *bufio.Writer
	s    *trace.Snapshot
	next bool // an event was written, so a comma comes before the next one
}

func (e *events) emit(format string, args ...any) {
	if e.next {
		_ = e.w.WriteByte(',')
	}
	e.next = true
	_ = e.w.WriteByte('\n')
	fmt.Fprintf(e.w, format, args...)
}

// names names the processes, and the threads of the lanes that are in use.
func (e *events) names() {
	meta := &e.s.Meta
	device := cmp.Or(meta.Device, "unknown device")
	e.emit(`{"ph":"M","pid":1,"name":"process_name","args":{"name":%s}}`, text("gpustall: "+cmp.Or(meta.Model, "training")+" on "+device))
	e.emit(`{"ph":"M","pid":0,"name":"process_name","args":{"name":%s}}`, text(device))
	var lanes [256]bool
	for i := range e.s.Spans {
		lanes[e.s.Spans[i].Track] = true
	}
	thread := func(lane int, name string, order int) {
		pid := processOf(lane)
		e.emit(`{"ph":"M","pid":%d,"tid":%d,"name":"thread_name","args":{"name":%s}}`, pid, lane, text(name))
		e.emit(`{"ph":"M","pid":%d,"tid":%d,"name":"thread_sort_index","args":{"sort_index":%d}}`, pid, lane, order)
	}
	for t, used := range lanes {
		if id := trace.TrackID(t); used && id != trace.TrackQueue {
			thread(t, id.String(), laneOrder(id))
		}
	}
	for _, id := range []trace.TrackID{trace.TrackCopy, trace.TrackCompute} {
		if lanes[id] {
			thread(starvedLane+int(id), id.String()+" without a core", 1005)
		}
	}
	thread(transitionLane, "transition", 1004)
	thread(stepLane, "steps", -1)
}

func (e *events) steps() error {
	for st, err := range e.s.Each(math.MinInt32, math.MaxInt32) {
		if err != nil {
			return err
		}
		e.emit(`{"ph":"X","cat":"user_annotation","pid":1,"tid":%d,"ts":%s,"dur":%s,"name":"ProfilerStep#%d","args":{"batch":%d}}`,
			stepLane, micros(st.Start), micros(st.End-st.Start), st.Index, st.Batch)
	}
	return nil
}

func (e *events) span(s *trace.Span) {
	name, lane, args := s.Kind.String(), int(s.Track), ""
	switch s.Kind {
	case trace.KindQueue:
		e.emit(`{"ph":"C","pid":1,"ts":%s,"name":"queue","args":{"ready":%d}}`, micros(s.Start), s.Arg)
		return
	case trace.KindStall:
		name = s.Cause().String()
	case trace.KindBlocked:
		name = "blocked: " + trace.BlockReason(s.Arg).Info().Name
	case trace.KindTransition:
		lane = transitionLane
	case trace.KindStarved:
		if processOf(lane) == 0 {
			lane += starvedLane
		}
	case trace.KindOp:
		if o := e.s.Op(s.Arg); o != nil {
			name = o.Name
			args = fmt.Sprintf(`,"layer":%s,"phase":%s,"kernel":%s`, text(o.Layer), text(o.Phase), text(o.Variant))
		}
	case trace.KindCopy:
		name, args = "Memcpy HtoD", fmt.Sprintf(`,"bytes":%d`, int64(s.Arg)<<10)
	case trace.KindNext:
		name = "enumerate(DataLoader)#gpustall.__next__"
	case trace.KindSync:
		name = "Synchronize"
	case trace.KindFetch:
		if m := s.Mix(); m != 0 {
			for k, share := range m.Divide(100) {
				args += fmt.Sprintf(`,"about_%s_percent":%d`, k, share)
			}
		}
	}
	if s.Kind == trace.KindCompute || s.Kind == trace.KindCopy {
		args += fmt.Sprintf(`,"device":0,"stream":%d`, lane)
	}
	if s.Flags&trace.FlagTimed != 0 {
		args += `,"timed":true`
	}
	if s.Flags&trace.FlagInjected != 0 {
		args += `,"injected":true`
	}
	if s.Flags&trace.FlagCeiling != 0 {
		args += `,"ceiling":true`
	}
	e.emit(`{"ph":"X","cat":"%s","pid":%d,"tid":%d,"ts":%s,"dur":%s,"name":%s,"args":{"step":%d,"batch":%d%s}}`,
		category(s.Kind), processOf(lane), lane, micros(s.Start), micros(s.End-s.Start), text(name), s.Step, s.Batch, args)
}

// arrows writes an arrow from where each batch was built last to where it is computed first.
func (e *events) arrows() {
	built := map[int32]*trace.Span{}
	for i := range e.s.Spans {
		s := &e.s.Spans[i]
		switch {
		case s.Batch < 0:
		case s.Kind.IsPhase() && s.Track.IsLoader():
			if last := built[s.Batch]; last == nil || s.Start >= last.Start {
				built[s.Batch] = s
			}
		case s.Kind == trace.KindCompute && built[s.Batch] != nil:
			from := built[s.Batch]
			delete(built, s.Batch)
			e.emit(`{"ph":"s","cat":"batch","name":"batch","id":%d,"pid":1,"tid":%d,"ts":%s}`, s.Batch, from.Track, micros(from.Start))
			e.emit(`{"ph":"f","bp":"e","cat":"batch","name":"batch","id":%d,"pid":0,"tid":%d,"ts":%s}`, s.Batch, s.Track, micros(s.Start))
		}
	}
}

func (e *events) gauges() {
	for _, name := range slices.Sorted(maps.Keys(e.s.Gauges)) {
		for _, p := range e.s.Gauges[name] {
			if finite(p.V) {
				e.emit(`{"ph":"C","pid":1,"ts":%s,"name":%s,"args":{"value":%g}}`, micros(p.T), text(name), p.V)
			}
		}
	}
}

func (e *events) segments() error {
	for _, g := range e.s.Segments {
		knobs := map[string]string{}
		for _, k := range g.Knobs {
			knobs[k.Name] = k.Value
		}
		t := e.s.Tally(g.Index)
		b := attribution.Breakdown{Totals: t.Steady}
		for i, c := range lines.Of(e.s, g.Index, b.DataShare()) {
			if i < lines.Few {
				knobs["line "+itoa(int64(i+1))] = c.String() + " " + units.Prose.Percent(c.Lost) + " of the time"
			}
		}
		args, err := json.Marshal(knobs)
		if err != nil {
			return err
		}
		e.emit(`{"ph":"i","s":"g","pid":1,"tid":0,"ts":%s,"name":%s,"args":%s}`,
			micros(g.Start), text("segment "+itoa(int64(g.Index))+": "+g.Reason), args)
	}
	return nil
}

// micros writes ns as microseconds.
func micros(ns int64) string { return decimal(ns, 3) }

// text writes a string as JSON.
func text(s string) string {
	b, _ := json.Marshal(s) // a string cannot fail
	return string(b)
}
