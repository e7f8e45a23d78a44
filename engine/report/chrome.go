package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"dev.gpustall/engine/trace"
)

// Chrome writes the spans in Chrome's trace event format ("Trace Event Format",
// JSON object form), for chrome://tracing and Perfetto: a thread for each lane, one
// for the ops of timed steps, a counter for the queue, and an instant for each segment
// and note. Times are in microseconds since the session's start.
func Chrome(w io.Writer, s *trace.Snapshot, o Options) error {
	s, o = plain(s, o)
	b := bufio.NewWriterSize(w, 1<<16)
	e := &events{w: b, s: s}
	meta := &s.Meta
	head := map[string]any{
		"session": or(o.Session, meta.ID), "device": meta.Device, "model": meta.Model, "dataset": meta.Dataset, "gpustall": meta.Version,
		"emulated": meta.Emulated, "synthetic": meta.Synthetic, "dropped_spans": s.Outcome.Dropped(), "imported": meta.Imported,
	}
	other, err := json.Marshal(head)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "{\"displayTimeUnit\":\"ms\",\"otherData\":%s,\"traceEvents\":[", other)
	e.emit(`{"ph":"M","pid":1,"name":"process_name","args":{"name":%s}}`, text("gpustall: "+or(meta.Model, "training")+" on "+or(meta.Device, "unknown device")))
	var lanes [256]bool
	for i := range s.Spans {
		lanes[s.Spans[i].Track] = true
	}
	for t, used := range lanes {
		if id := trace.TrackID(t); used && id != trace.TrackQueue {
			e.emit(`{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":%s}}`, t, text(id.String()))
			e.emit(`{"ph":"M","pid":1,"tid":%d,"name":"thread_sort_index","args":{"sort_index":%d}}`, t, laneOrder(id))
		}
	}
	e.emit(`{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":"transition"}}`, transitionLane)
	e.emit(`{"ph":"M","pid":1,"tid":%d,"name":"thread_sort_index","args":{"sort_index":1004}}`, transitionLane)
	for i := range s.Spans {
		e.span(&s.Spans[i])
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
	case trace.KindOp:
		if o := e.s.Op(s.Arg); o != nil {
			name = o.Name
			args = fmt.Sprintf(`,"layer":%s,"phase":%s,"kernel":%s`, text(o.Layer), text(o.Phase), text(o.Variant))
		}
	case trace.KindCopy:
		args = fmt.Sprintf(`,"KiB":%d`, s.Arg)
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
	e.emit(`{"ph":"X","pid":1,"tid":%d,"ts":%s,"dur":%s,"name":%s,"args":{"step":%d,"batch":%d%s}}`,
		lane, micros(s.Start), micros(s.End-s.Start), text(name), s.Step, s.Batch, args)
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
