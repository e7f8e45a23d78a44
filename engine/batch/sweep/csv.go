package sweep

import (
	"io"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// CSV writes one row a configuration: what was set, throughput and its comparisons with
// their intervals, times in seconds, shares from 0 to 1, and its labels.
func (r *Results) CSV(w io.Writer) error {
	c := markup.NewCSV(w)
	names := r.Plan.Names()
	head := []string{"configuration"}
	for _, n := range names {
		head = append(head, "set_"+n)
	}
	head = append(head, "device_name", "model_name", "data_set", "data_cached_at_start", "runs", "steps",
		"samples_per_s", "samples_per_s_lo", "samples_per_s_hi",
		"speedup", "speedup_lo", "speedup_hi", "speedup_answer", "step_speedup", "step_speedup_lo", "step_speedup_hi", "step_speedup_answer",
		"epoch_s", "load_s_per_epoch", "load_s_per_worker", "wait_s_per_epoch", "compute_s_per_epoch", "step_p50_s", "step_p95_s",
		"device_utilization", "data_share")
	for i := range trace.NumCauses {
		head = append(head, "stall_"+trace.Cause(i).String())
	}
	head = append(head, "device_memory_bytes", "host_memory_bytes", "loss", "top1", "verdict", "labels", "no_numbers")
	c.Row(head)
	for i := range r.Rows {
		row := &r.Rows[i]
		cells := []string{units.Line(row.Name)}
		for _, n := range names {
			cells = append(cells, units.Line(r.Plan.value(i, n)))
		}
		m := row.First()
		if m == nil {
			cells = append(cells, make([]string, len(head)-len(cells)-1)...)
			c.Row(append(cells, units.Line(row.Why())))
			continue
		}
		add := func(more ...string) { cells = append(cells, more...) }
		add(units.Line(m.Meta.Device), units.Line(m.Meta.Model), units.Line(m.Meta.Dataset), cached(m.Meta.Cached))
		add(strconv.Itoa(row.Done()), strconv.FormatInt(row.Stats.Steps, 10))
		add(markup.Number(row.Rate.Value), markup.Number(row.Rate.Lo), markup.Number(row.Rate.Hi))
		add(ChangeCells(&row.Against, i == r.Base)...)
		add(ChangeCells(&row.Added, row.before < 0)...)
		for _, ns := range []int64{row.Stats.Active(), row.Stats.Load, row.Stats.Load / int64(max(1, row.Workers)), row.Stats.Wait, row.Stats.Busy} {
			if row.Epoch == 0 {
				add("")
			} else {
				add(markup.Seconds(row.PerEpoch(ns)))
			}
		}
		add(markup.Seconds(row.P50), markup.Seconds(row.P95))
		add(markup.Number(row.Stats.Utilisation()), markup.Number(row.Stats.DataShare()))
		for k := range trace.NumCauses {
			add(markup.Number(row.Stats.Share(trace.Cause(k))))
		}
		add(markup.Whole(row.Memory), markup.Whole(row.Host), markup.Number(m.Loss), markup.Number(m.Top1))
		add(m.Verdict.Class, strings.Join(advice.Keys(row.Labels()), " "), "")
		c.Row(cells)
	}
	return c.End()
}

// ChangeCells returns a comparison's ratio, its interval and its answer.
func ChangeCells(c *stats.Comparison, first bool) []string {
	t := &c.Throughput
	if first || t.Ratio <= 0 {
		return []string{"", "", "", ""}
	}
	return []string{markup.Number(t.Ratio), markup.Number(t.Lo), markup.Number(t.Hi), t.Answer.String()}
}

// cached returns the share of the data that was in memory when the run began.
func cached(c *trace.Cached) string {
	if c == nil {
		return ""
	}
	return markup.Number(c.Share())
}
