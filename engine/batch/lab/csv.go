package lab

import (
	"io"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/report/markup"
)

// CSV writes a row for every configuration of every stage, in the order of measuring. A
// row has rates and their comparisons with intervals, times in seconds, and shares from 0
// to 1. Where a stage had nothing to run, its row says why.
func (l *Record) CSV(w io.Writer) error {
	c := markup.NewCSV(w)
	head := []string{"stage", "title", "configuration", "settings", "kept", "impact", "runs", "steps",
		"samples_per_s", "samples_per_s_lo", "samples_per_s_hi",
		"speedup", "speedup_lo", "speedup_hi", "speedup_answer", "rung_speedup", "rung_speedup_lo", "rung_speedup_hi", "rung_speedup_answer",
		"epoch_s", "step_p50_s", "step_p95_s", "device_utilization", "data_share", "device_memory_bytes", "loss", "labels", "no_numbers"}
	c.Row(head)
	none := func(cells []string, why string) {
		cells = append(cells, make([]string, len(head)-len(cells)-1)...)
		c.Row(append(cells, units.Line(why)))
	}
	for _, s := range l.Stages {
		if s.Results == nil {
			none([]string{string(s.Kind), units.Line(s.Title)}, s.Skipped)
			continue
		}
		for i := range s.Results.Rows {
			row := &s.Results.Rows[i]
			cells := []string{string(s.Kind), units.Line(s.Title), units.Line(row.Name), units.Line(knob.Join(s.Results.Plan.All(i), " "))}
			cells = append(cells, l.outcomeCells(s, i)...)
			if !row.Measured() {
				none(cells, row.Why())
				continue
			}
			m := row.First()
			cells = append(cells, strconv.Itoa(row.Done()), strconv.FormatInt(row.Stats.Steps, 10),
				markup.Number(row.Rate.Value), markup.Number(row.Rate.Lo), markup.Number(row.Rate.Hi))
			cells = append(cells, sweep.ChangeCells(&row.Against, i == 0)...)
			cells = append(cells, sweep.ChangeCells(&row.Added, i == 0)...)
			cells = append(cells, markup.Seconds(row.PerEpoch(row.Stats.Active())), markup.Seconds(row.P50), markup.Seconds(row.P95),
				markup.Number(row.Stats.Utilisation()), markup.Number(row.Stats.DataShare()), markup.Whole(row.Memory), markup.Number(m.Loss))
			c.Row(append(cells, strings.Join(advice.Keys(row.Labels()), " "), ""))
		}
	}
	return c.End()
}

// outcomeCells says of a configuration whether it was kept, and its impact.
func (l *Record) outcomeCells(s *Stage, row int) []string {
	for _, o := range l.Tried {
		if o.Stage == s && o.Row == row {
			return []string{markup.YesNo(o.Kept), o.Impact()}
		}
	}
	return []string{"", ""}
}
