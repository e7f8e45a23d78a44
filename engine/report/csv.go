package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// CSV writes the table that o names. The table of steps has one row a step: its times in
// seconds, its stalls by cause, and its segment's knobs. If the worker time of its batch
// was measured, the row says where that time went. Every row says whether ops were timed,
// the device emulated, the data synthetic, the bottleneck injected and the batch cached. It
// also says how many spans the session dropped.
func CSV(w io.Writer, s *trace.Snapshot, o Options) error {
	s, o = plain(s, o)
	if o.Table == "ops" {
		return opsCSV(w, s)
	}
	c := markup.NewCSV(w)
	head := []string{"step", "epoch", "segment", "batch", "samples", "correct", "loss", "start_s", "end_s", "busy_s", "wait_s",
		"load_s", "load_core_s", "load_waiting_s", "load_blocked_s", "copy_s", "bytes"}
	for i := range trace.NumCauses {
		head = append(head, "stall_"+trace.Cause(i).String()+"_s")
	}
	head = append(head, "transition", "timed", "injected", "ceiling", "emulated", "synthetic", "dropped_spans")
	knobs := knobColumns(s)
	c.Row(append(head, knobs.heads()...)) // errors stay until End
	drops := s.Outcome.Dropped()
	for st, err := range s.Each(math.MinInt32, math.MaxInt32) {
		if err != nil {
			return err
		}
		w := st.Work.Batch
		measured := func(ns int64) string { return number(st.Work.Measured(), exact(ns)) }
		loss := strconv.FormatFloat(float64(st.Loss), 'g', -1, 32)
		row := []string{itoa(int64(st.Index)), itoa(int64(st.Epoch)), itoa(int64(st.Segment)), itoa(int64(st.Batch)), itoa(int64(st.Samples)),
			number(st.Correct >= 0, itoa(int64(st.Correct))), number(st.Correct >= 0 || finite(float64(st.Loss)), loss),
			exact(st.Start), exact(st.End), exact(st.Busy), exact(st.Wait),
			exact(st.Load), measured(w.Core), measured(w.Waiting), measured(w.Blocked), exact(st.Copy), itoa(st.Bytes)}
		for _, ns := range st.Stall {
			row = append(row, exact(ns))
		}
		for _, f := range []uint16{trace.FlagTransition, trace.FlagTimed, trace.FlagInjected, trace.FlagCeiling} {
			row = append(row, markup.YesNo(st.Flags&f != 0))
		}
		row = append(row, markup.YesNo(s.Meta.Emulated || st.Flags&trace.FlagModelled != 0), markup.YesNo(s.Meta.Synthetic), itoa(drops))
		c.Row(append(row, knobs.cells(st.Segment)...))
	}
	return c.End()
}

// number returns v, or an empty field where there is no value.
func number(ok bool, v string) string {
	if !ok {
		return ""
	}
	return v
}

// exact writes ns as seconds with all digits.
func exact(ns int64) string { return decimal(ns, 9) }

// decimal writes v divided by ten to the power of digits, exactly.
func decimal(v int64, digits int) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	unit := int64(1)
	for range digits {
		unit *= 10
	}
	return fmt.Sprintf("%s%d.%0*d", sign, v/unit, digits, v%unit)
}

// Tables are the names of the CSV tables, the values of --table.
var Tables = []string{"steps", "ops"}

// opsCSV writes one row for each op of each segment, in the order of the step. A row has
// the op's times in seconds over the timed steps, its shares, and its rates from its
// shape. Every row says whether the segment's bottleneck was injected, the device
// emulated and the data synthetic, and has the segment's knobs.
func opsCSV(w io.Writer, s *trace.Snapshot) error {
	c := markup.NewCSV(w)
	knobs := knobColumns(s)
	head := []string{"segment", "name", "layer", "phase", "kernel", "calls", "total_s", "mean_s", "min_s", "max_s",
		"share", "share_of_step", "tflops", "gb_per_s", "timed_steps", "steps", "injected", "emulated", "synthetic"}
	c.Row(append(head, knobs.heads()...)) // errors stay until End
	for _, g := range s.Segments {
		t := attribution.Ops(s, g)
		// The injection of an earlier segment may reach this one's steps.
		injected := g.Injects() || s.Tally(g.Index).Flags&trace.FlagInjected != 0
		for i := range t.Rows {
			r := &t.Rows[i]
			row := []string{itoa(int64(g.Index)), r.Name, r.Layer, r.Phase, r.Variant, itoa(r.Calls),
				exact(r.Total), exact(r.Total / r.Calls), number(r.Max > 0, exact(r.Min)), number(r.Max > 0, exact(r.Max)),
				markup.Number(r.Share), markup.Number(r.Step), markup.Number(r.TFLOPs()), markup.Number(r.GBs()),
				itoa(int64(t.Timed)), itoa(int64(t.Steps)), markup.YesNo(injected), markup.YesNo(s.Meta.Emulated), markup.YesNo(s.Meta.Synthetic)}
			c.Row(append(row, knobs.cells(g.Index)...))
		}
	}
	return c.End()
}

// knobTable holds the columns of the knobs, with which each row ends.
type knobTable struct {
	names  []string                    // by order of appearance: older segments may lack newer knobs
	values map[int32]map[string]string // by segment and name
}

func knobColumns(s *trace.Snapshot) *knobTable {
	k := &knobTable{values: map[int32]map[string]string{}}
	for _, g := range s.Segments {
		k.values[g.Index] = map[string]string{}
		for _, setting := range g.Knobs {
			k.values[g.Index][setting.Name] = setting.Value
			if !slices.Contains(k.names, setting.Name) {
				k.names = append(k.names, setting.Name)
			}
		}
	}
	return k
}

func (k *knobTable) heads() []string {
	out := make([]string, len(k.names))
	for i, name := range k.names {
		out[i] = "knob_" + name
	}
	return out
}

// cells returns the values of a segment; a knob that it lacks has an empty field.
func (k *knobTable) cells(segment int32) []string {
	out := make([]string, len(k.names))
	for i, name := range k.names {
		out[i] = k.values[segment][name]
	}
	return out
}
