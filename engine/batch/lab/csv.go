package lab

import (
	"io"
	"strconv"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/report/markup"
)

// CSV writes a row for every configuration of every stage, in the order in which they were
// measured, and what came of it: rates and their comparisons with intervals, times in
// seconds, shares from 0 to 1. Where a stage had nothing to run, its row says why.
func (l *Lab) CSV(w io.Writer) error {
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
			cells := []string{string(s.Kind), units.Line(s.Title), units.Line(row.Name), units.Line(listed(s.Results.Plan.All(i)))}
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
			memory := ""
			if row.Memory > 0 {
				memory = strconv.FormatInt(row.Memory, 10)
			}
			cells = append(cells, markup.Seconds(row.PerEpoch(row.Stats.Active())), markup.Seconds(row.P50), markup.Seconds(row.P95),
				markup.Number(row.Stats.Utilisation()), markup.Number(row.Stats.DataShare()), memory, markup.Number(m.Loss))
			labels := ""
			for j, k := range advice.Keys(row.Labels()) {
				if j > 0 {
					labels += " "
				}
				labels += k
			}
			c.Row(append(cells, labels, ""))
		}
	}
	return c.End()
}

// listed is settings in a field.
func listed(settings []knob.Setting) (text string) {
	for i, k := range settings {
		if i > 0 {
			text += " "
		}
		text += k.Name + "=" + k.Value
	}
	return text
}

// outcomeCells say of a configuration whether it was kept, and its impact.
func (l *Lab) outcomeCells(s *Stage, row int) []string {
	for _, o := range l.Tried {
		if o.Stage == s && o.Row == row {
			kept := "no"
			if o.Kept {
				kept = "yes"
			}
			return []string{kept, o.Impact()}
		}
	}
	return []string{"", ""}
}
