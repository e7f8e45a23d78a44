package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/trace"
)

// Chrome writes the session in Chrome's trace event format ("Trace Event Format", JSON
// object form), for Perfetto, Holistic Trace Analysis and gpustall import: a process for
// the host with a thread for each of its lanes, one for the device with its streams, the
// steps as ProfilerStep#N, arrows from each batch to the step that computes it, counters
// for the queue and the gauges, and an instant for each segment and note. Categories are
// PyTorch's where it has one; what it has none for is of gpustall's own. Times are in
// microseconds since the session's start, with three decimals.
func Chrome(w io.Writer, s *trace.Snapshot, o Options) error {
	s, o = plain(s, o)
	b := bufio.NewWriterSize(w, 1<<16)
	e := &events{w: b, s: s}
	meta := &s.Meta
	head := map[string]any{
		"session": or(o.Session, meta.ID), "device": meta.Device, "model": meta.Model, "dataset": meta.Dataset, "gpustall": meta.Version,
		"emulated": meta.Emulated, "synthetic": meta.Synthetic, "dropped_spans": s.Outcome.Dropped(), "imported": meta.Imported,
	}
	if keys := advice.Keys(advice.Labels(s, nil)); len(keys) > 0 {
		head["labels"] = keys
	}
	other, err := json.Marshal(head)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "{\"displayTimeUnit\":\"ms\",\"otherData\":%s,\"traceEvents\":[", other)
	e.emit(`{"ph":"M","pid":1,"name":"process_name","args":{"name":%s}}`, text("gpustall: "+or(meta.Model, "training")+" on "+or(meta.Device, "unknown device")))
	e.emit(`{"ph":"M","pid":0,"name":"process_name","args":{"name":%s}}`, text(or(meta.Device, "unknown device")))
	var lanes [256]bool
	for i := range s.Spans {
		lanes[s.Spans[i].Track] = true
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
	for st, err := range s.Each(math.MinInt32, math.MaxInt32) {
		if err != nil {
			return err
		}
		e.emit(`{"ph":"X","cat":"user_annotation","pid":1,"tid":%d,"ts":%s,"dur":%s,"name":"ProfilerStep#%d","args":{"batch":%d}}`,
			stepLane, micros(st.Start), micros(st.End-st.Start), st.Index, st.Batch)
	}
	for i := range s.Spans {
		e.span(&s.Spans[i])
	}
	e.arrows()
	for _, name := range slices.Sorted(maps.Keys(s.Gauges)) {
		for _, p := range s.Gauges[name] {
			if finite(p.V) {
				e.emit(`{"ph":"C","pid":1,"ts":%s,"name":%s,"args":{"value":%g}}`, micros(p.T), text(name), p.V)
			}
		}
	}
	for _, g := range s.Segments {
		knobs := map[string]string{}
		for _, k := range g.Knobs {
			knobs[k.Name] = k.Value
		}
		args, err := json.Marshal(knobs)
		if err != nil {
			return err
		}
		e.emit(`{"ph":"i","s":"g","pid":1,"tid":0,"ts":%s,"name":%s,"args":%s}`, micros(g.Start), text("segment "+itoa(int64(g.Index))+": "+g.Reason), args)
	}
	for _, n := range s.Notes {
		e.emit(`{"ph":"i","s":"p","pid":1,"tid":0,"ts":%s,"name":%s}`, micros(n.T), text(n.Level+": "+n.Text))
	}
	_, _ = b.WriteString("\n]}\n") // errors stay until Flush
	return b.Flush()
}

// transitionLane keeps transitions apart: they overlap what the step loop does,
// and the events of a thread must nest.
const transitionLane = 200

// starvedLane and a stream's number is the lane of the time that its thread on the host
// was ready and had no core: it overlaps what ran on the stream.
const starvedLane = 210

// stepLane has the steps, whose windows overlap what the step loop does.
const stepLane = 201

// processOf is the process of a lane: 0 for the streams of the device, whose number that
// is, and 1 for the host.
func processOf(lane int) int {
	if lane == int(trace.TrackCompute) || lane == int(trace.TrackCopy) {
		return 0
	}
	return 1
}

// category is PyTorch's word for what a kind of span is, or gpustall's own.
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

type events struct {
	w    *bufio.Writer
	s    *trace.Snapshot
	next bool
}

func (e *events) emit(format string, args ...any) {
	if e.next {
		_ = e.w.WriteByte(',')
	}
	e.next = true
	_ = e.w.WriteByte('\n')
	fmt.Fprintf(e.w, format, args...)
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

// arrows lead from where a batch was built last to where it is computed first.
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

func micros(ns int64) string {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -ns
	}
	return fmt.Sprintf("%s%d.%03d", sign, ns/1000, ns%1000)
}

func text(s string) string {
	b, _ := json.Marshal(s) // of a string it cannot fail
	return string(b)
}
