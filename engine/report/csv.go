package report

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// CSV writes the table that o names. That of steps has one row a step: its times in
// seconds, what the worker time of its batch went to where that was measured, its stalls
// by cause, and its segment's knobs. Every row says whether its ops
// were timed, the device was emulated, the data synthetic, the bottleneck injected, the
// batch cached, and how many spans the session dropped.
func CSV(w io.Writer, s *trace.Snapshot, o Options) error {
	s, o = plain(s, o)
	if o.Table == "ops" {
		return opsCSV(w, s)
	}
	c := markup.NewCSV(w)
	head := []string{"step", "epoch", "segment", "batch", "samples", "correct", "loss", "start_s", "end_s", "busy_s", "wait_s", "load_s", "load_core_s", "load_waiting_s", "load_blocked_s", "copy_s", "bytes"}
	for i := range trace.NumCauses {
		head = append(head, "stall_"+trace.Cause(i).String()+"_s")
	}
	head = append(head, "transition", "timed", "injected", "ceiling", "emulated", "synthetic", "dropped_spans")
	knobs, values := knobColumns(s)
	for _, k := range knobs {
		head = append(head, "knob_"+k)
	}
	c.Row(head) // errors stay until End
	drops := s.Outcome.Dropped()
	for st, err := range s.Each(math.MinInt32, math.MaxInt32) {
		if err != nil {
			return err
		}
		w := st.Work.Batch
		measured := func(ns int64) string { return number(st.Work.Measured(), exact(ns)) }
		row := []string{itoa(int64(st.Index)), itoa(int64(st.Epoch)), itoa(int64(st.Segment)), itoa(int64(st.Batch)), itoa(int64(st.Samples)),
			number(st.Correct >= 0, itoa(int64(st.Correct))), number(st.Correct >= 0 || finite(float64(st.Loss)), strconv.FormatFloat(float64(st.Loss), 'g', -1, 32)),
			exact(st.Start), exact(st.End), exact(st.Busy), exact(st.Wait), exact(st.Load), measured(w.Core), measured(w.Waiting), measured(w.Blocked), exact(st.Copy), itoa(st.Bytes)}
		for _, ns := range st.Stall {
			row = append(row, exact(ns))
		}
		for _, f := range []uint16{trace.FlagTransition, trace.FlagTimed, trace.FlagInjected, trace.FlagCeiling} {
			row = append(row, yesNo(st.Flags&f != 0))
		}
		row = append(row, yesNo(s.Meta.Emulated || st.Flags&trace.FlagModelled != 0), yesNo(s.Meta.Synthetic), itoa(drops))
		for _, k := range knobs {
			row = append(row, values[st.Segment][k])
		}
		c.Row(row)
	}
	return c.End()
}

// number leaves the field empty where there is none.
func number(ok bool, v string) string {
	if !ok {
		return ""
	}
	return v
}

// exact is ns as seconds, all digits.
func exact(ns int64) string {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -ns
	}
	return fmt.Sprintf("%s%d.%09d", sign, ns/1e9, ns%1e9)
}

// Tables are the CSV tables by the names of --table.
var Tables = []string{"steps", "ops"}

// opsCSV writes one row for each op of each segment, in the order of the step: its
// times in seconds over the timed steps, its shares, its rates from its shape,
// whether the segment's bottleneck was injected, the device emulated or the data
// synthetic, and the segment's knobs.
func opsCSV(w io.Writer, s *trace.Snapshot) error {
	c := markup.NewCSV(w)
	knobs, values := knobColumns(s)
	head := []string{"segment", "name", "layer", "phase", "kernel", "calls", "total_s", "mean_s", "min_s", "max_s",
		"share", "share_of_step", "tflops", "gb_per_s", "timed_steps", "steps", "injected", "emulated", "synthetic"}
	for _, k := range knobs {
		head = append(head, "knob_"+k)
	}
	c.Row(head) // errors stay until End
	for _, g := range s.Segments {
		t := attribution.Ops(s, g)
		injected := g.Injects() || s.Tally(g.Index).Flags&trace.FlagInjected != 0 // an earlier segment's injection may reach its steps
		for i := range t.Rows {
			r := &t.Rows[i]
			row := []string{itoa(int64(g.Index)), r.Name, r.Layer, r.Phase, r.Variant, itoa(r.Calls),
				exact(r.Total), exact(r.Total / r.Calls), number(r.Max > 0, exact(r.Min)), number(r.Max > 0, exact(r.Max)),
				float(r.Share), float(r.Step), float(r.TFLOPs()), float(r.GBs()),
				itoa(int64(t.Timed)), itoa(int64(t.Steps)), yesNo(injected), yesNo(s.Meta.Emulated), yesNo(s.Meta.Synthetic)}
			for _, k := range knobs {
				row = append(row, values[g.Index][k])
			}
			c.Row(row)
		}
	}
	return c.End()
}

// float leaves the field empty where there is no number.
func float(v float64) string {
	return number(finite(v), strconv.FormatFloat(v, 'g', 6, 64))
}

// knobColumns are the knobs by order of appearance, since older segments may lack
// newer ones, and their values by segment.
func knobColumns(s *trace.Snapshot) (names []string, values map[int32]map[string]string) {
	seen := map[string]bool{}
	values = map[int32]map[string]string{}
	for _, g := range s.Segments {
		values[g.Index] = map[string]string{}
		for _, k := range g.Knobs {
			values[g.Index][k.Name] = k.Value
			if !seen[k.Name] {
				seen[k.Name] = true
				names = append(names, k.Name)
			}
		}
	}
	return names, values
}
