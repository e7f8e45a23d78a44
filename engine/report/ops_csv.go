package report

import (
	"io"
	"strconv"

	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// Tables are the CSV tables by the names of --table.
var Tables = []string{"steps", "ops"}

// opsCSV writes one row for each op of each segment, in the order of the step: its
// times in seconds over the timed steps, its shares, its rates from its shape,
// whether the segment's bottleneck was injected, the device emulated or the data
// synthetic, and the segment's knobs.
func opsCSV(w io.Writer, s *trace.Snapshot) error {
	c := newTable(w)
	knobs, values := knobColumns(s)
	head := []string{"segment", "name", "layer", "phase", "kernel", "calls", "total_s", "mean_s", "min_s", "max_s",
		"share", "share_of_step", "tflops", "gb_per_s", "timed_steps", "steps", "injected", "emulated", "synthetic"}
	for _, k := range knobs {
		head = append(head, "knob_"+k)
	}
	c.row(head) // errors stay until Flush
	for _, g := range s.Segments {
		t := stall.Ops(s, g)
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
			c.row(row)
		}
	}
	c.Flush()
	return c.Error()
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
