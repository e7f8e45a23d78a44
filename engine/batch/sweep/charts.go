package sweep

import (
	"math"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/plot"
)

// Charts returns the pictures of a sweep.
func (r *Results) Charts() []*plot.Chart {
	if r.count() == 0 {
		return nil
	}
	rows := r.drawn()
	charts := []*plot.Chart{rows.Throughput()}
	if r.Base >= 0 && r.count() > 1 {
		charts = append(charts, r.speedUps(rows))
	}
	charts = append(charts, rows.Epochs(), rows.Stalls())
	if best := r.Best(); r.Base >= 0 && best != r.Base {
		charts = append(charts, plot.StepTimes([]plot.Steps{
			{Name: r.Rows[r.Base].Name, Times: r.Rows[r.Base].Times()}, {Name: r.Rows[best].Name, Times: r.Rows[best].Times()},
		}))
	}
	charts = append(charts, r.curves()...)
	if c := rows.Memory(); c != nil {
		charts = append(charts, c)
	}
	words := advice.Words(r.Labels())
	for _, c := range charts {
		c.Labels = words
	}
	return charts
}

// Sheet puts all charts into one picture.
func (r *Results) Sheet() *plot.Sheet {
	return &plot.Sheet{Title: r.subject(), Labels: advice.Words(r.Labels()), Charts: r.Charts()}
}

// drawn returns the configurations as the bars of charts. Those without numbers keep their
// place.
func (r *Results) drawn() *plot.Rows {
	names := r.Plan.Names()
	out := &plot.Rows{By: "configuration"}
	switch {
	case r.Plan.Ladder:
		out.By = "rung"
	case len(names) == 1:
		out.By, out.Axis = names[0], names[0]
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		name := strings.ReplaceAll(units.Line(row.Name), " ", "\n")
		if !r.Plan.Ladder && len(names) == 1 {
			name = units.Line(r.Plan.value(i, names[0]))
		}
		out.Rows = append(out.Rows, row.Bar(name))
	}
	return out
}

// Bar returns the configuration as a bar of charts.
func (r *Result) Bar(name string) plot.Row {
	return plot.Row{Name: name, Stats: r.Stats, Rate: r.Rate, Workers: r.Workers, Epoch: r.Epoch, Memory: r.Memory}
}

// speedUps draws how many times as fast each configuration is as the first one and, of a
// ladder, as the rung before.
func (r *Results) speedUps(rows *plot.Rows) *plot.Chart {
	c := &plot.Chart{
		Name: "speedup", Title: "Speed-up by " + rows.By, X: rows.Axis, Y: "times as fast",
		Note: "Against " + units.Line(r.Rows[r.Base].Name) + ". " + plot.Whiskers,
	}
	for i := range rows.Rows {
		c.Groups = append(c.Groups, rows.Rows[i].Name)
	}
	cumulative := plot.Bars{Name: "against the first", Colour: plot.Blue}
	each := plot.Bars{Name: "against the rung before", Colour: plot.Orange}
	add := func(b *plot.Bars, t *stats.Change, itself bool) {
		e := t.Estimate()
		switch {
		case itself:
			e = units.Rough(1)
		case t.Ratio <= 0:
			e = units.Rough(math.NaN())
		case !t.Tells():
			e = units.Rough(t.Ratio)
		}
		word := units.Prose.Ratio(e)
		if itself {
			word = "1"
		}
		b.AddEstimate(e, word)
	}
	for i := range r.Rows {
		add(&cumulative, &r.Rows[i].Against.Throughput, i == r.Base)
		add(&each, &r.Rows[i].Added.Throughput, false)
	}
	c.Bars = []plot.Bars{cumulative}
	if r.Plan.Ladder {
		c.Bars = append(c.Bars, each)
	}
	return c
}

// curves draws what the first runs learnt, epoch by epoch. There are none where the length
// of runs was given in steps.
func (r *Results) curves() (charts []*plot.Chart) {
	if r.Plan.Epochs == 0 {
		return nil
	}
	for _, of := range []struct {
		name, title, y string
		value          func(*Learnt) float64
	}{
		{"loss", "Training loss by epoch", "mean loss of the epoch", func(l *Learnt) float64 { return l.Loss }},
		{"test-top1", "Test accuracy by epoch", "% of the test split", func(l *Learnt) float64 { return 100 * l.TestTop1 }},
	} {
		c := &plot.Chart{Name: of.name, Title: of.title, X: "epoch", Y: of.y, Note: "The first run of each configuration."}
		for i := range r.Rows {
			m := r.Rows[i].First()
			if m == nil {
				continue
			}
			line := plot.Line{Name: units.Line(r.Rows[i].Name), Colour: plot.Distinct(i), Dashed: i >= 7}
			for j := range m.Learnt {
				if y := of.value(&m.Learnt[j]); !math.IsNaN(y) {
					line.Points = append(line.Points, plot.Point{X: float64(m.Learnt[j].Epoch) + 1, Y: y})
				}
			}
			if len(line.Points) > 0 {
				c.Lines = append(c.Lines, line)
			}
		}
		if len(c.Lines) > 0 {
			charts = append(charts, c)
		}
	}
	return charts
}
