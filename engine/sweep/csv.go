package sweep

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"dev.gpustall/engine/advice"
	"dev.gpustall/engine/document"
	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/trace"
)

// CSV writes one row a configuration: what was set, throughput and its comparisons with
// their intervals, times in seconds, shares from 0 to 1, and what must be known of it.
func (r *Results) CSV(w io.Writer) error {
	c := document.NewCSV(w)
	names := r.Plan.Names()
	head := []string{"configuration"}
	for _, n := range names {
		head = append(head, "set_"+n)
	}
	head = append(head, "device_name", "model_name", "data_set", "runs", "steps",
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
		cells := []string{figures.Line(row.Name)}
		for _, n := range names {
			cells = append(cells, figures.Line(r.Plan.value(i, n)))
		}
		m := row.First()
		if m == nil {
			cells = append(cells, make([]string, len(head)-len(cells)-1)...)
			c.Row(append(cells, figures.Line(row.why())))
			continue
		}
		add := func(more ...string) { cells = append(cells, more...) }
		add(figures.Line(m.Meta.Device), figures.Line(m.Meta.Model), figures.Line(m.Meta.Dataset), strconv.Itoa(row.Done()), strconv.FormatInt(row.Stats.Steps, 10))
		add(number(row.Rate.Value), number(row.Rate.Lo), number(row.Rate.Hi))
		add(changeCells(&row.Against, i == r.Base)...)
		add(changeCells(&row.Added, row.before < 0)...)
		for _, ns := range []int64{row.Stats.Active(), row.Stats.Load} {
			add(seconds(row.perEpoch(ns)))
		}
		add(seconds(row.share()), seconds(row.perEpoch(row.Stats.Wait)), seconds(row.perEpoch(row.Stats.Busy)), seconds(row.P50), seconds(row.P95))
		add(number(row.Stats.Utilisation()), number(row.Stats.DataShare()))
		for k := range trace.NumCauses {
			add(number(row.Stats.Share(trace.Cause(k))))
		}
		add(count(row.Memory), count(row.Host), number(m.Loss), number(m.Top1), m.Verdict.Class, strings.Join(advice.Keys(row.Labels()), " "), "")
		c.Row(cells)
	}
	return c.End()
}

// changeCells are a comparison's ratio, its interval and its answer.
func changeCells(c *evidence.Comparison, first bool) []string {
	t := &c.Throughput
	if first || t.Ratio <= 0 {
		return []string{"", "", "", ""}
	}
	return []string{number(t.Ratio), number(t.Lo), number(t.Hi), t.Answer.String()}
}

// number leaves the field empty where there is none.
func number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func seconds(ns int64) string { return fmt.Sprintf("%.9f", float64(ns)/1e9) }

func count(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return strconv.FormatInt(bytes, 10)
}
