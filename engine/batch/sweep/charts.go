package sweep

import (
	"math"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/plot"
)

// Charts are the pictures of a sweep.
func (r *Results) Charts() []*plot.Chart {
	if r.count() == 0 {
		return nil
	}
	rows, by, axis := r.drawn()
	charts := []*plot.Chart{plot.Throughput(rows, "Throughput by "+by, axis)}
	if r.Base >= 0 && r.count() > 1 {
		charts = append(charts, r.speedUps(rows, by, axis))
	}
	charts = append(charts, plot.Epochs(rows, "What an epoch takes, by "+by, axis), plot.Stalls(rows, "Where the time went, by "+by, axis))
	if best := r.Best(); r.Base >= 0 && best != r.Base {
		charts = append(charts, plot.StepTimes([]plot.Steps{
			{Name: r.Rows[r.Base].Name, Times: r.Rows[r.Base].Times()}, {Name: r.Rows[best].Name, Times: r.Rows[best].Times()},
		}))
	}
	charts = append(charts, r.curves()...)
	if c := plot.Memory(rows, "Device memory by "+by, axis); c != nil {
		charts = append(charts, c)
	}
	words := advice.Words(r.Labels())
	for _, c := range charts {
		c.Labels = words
	}
	return charts
}

// Sheet is all of them in one picture.
func (r *Results) Sheet() *plot.Sheet {
	return &plot.Sheet{Title: r.subject(), Labels: advice.Words(r.Labels()), Charts: r.Charts()}
}

// drawn are the rows as charts have them, and what they are told apart by. Those without
// numbers keep their place.
func (r *Results) drawn() (rows []plot.Row, by, axis string) {
	names := r.Plan.Names()
	for i := range r.Rows {
		row := &r.Rows[i]
		name := strings.ReplaceAll(units.Line(row.Name), " ", "\n")
		if !r.Plan.Ladder && len(names) == 1 {
			name = units.Line(r.Plan.value(i, names[0]))
		}
		rows = append(rows, plot.Row{Name: name, Stats: row.Stats, Rate: row.Rate, Workers: row.Workers, Epoch: row.Epoch, Memory: row.Memory})
	}
	switch {
	case r.Plan.Ladder:
		return rows, "rung", ""
	case len(names) == 1:
		return rows, names[0], names[0]
	}
	return rows, "configuration", ""
}

// SpeedUps are the factors against the first row and, of a ladder, against the rung before.
func (r *Results) speedUps(rows []plot.Row, by, axis string) *plot.Chart {
	c := &plot.Chart{Name: "speedup", Title: "Speed-up by " + by, X: axis, Y: "times as fast", Note: "Against " + units.Line(r.Rows[r.Base].Name) + ". " + plot.Whiskers}
	for i := range rows {
		c.Groups = append(c.Groups, rows[i].Name)
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
		b.Values, b.Lo, b.Hi = append(b.Values, e.Value), append(b.Lo, e.Lo), append(b.Hi, e.Hi)
		word := units.Prose.Ratio(e)
		if itself {
			word = "1"
		}
		b.Texts = append(b.Texts, word)
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

// curves are what the first runs learnt, epoch by epoch; none where the runs were not of
// epochs.
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
