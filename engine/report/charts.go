package report

import (
	"bytes"
	"cmp"
	"io"
	"math"
	"slices"
	"strconv"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/report/plot"
	"dev.gpustall/engine/trace"
)

// PNG draws a session: one sheet of all its charts.
func PNG(w io.Writer, s *trace.Snapshot, o Options) error {
	s, _ = plain(s, o)
	c := charts{newAccount(s)}
	sheet := &plot.Sheet{Title: setup(&s.Meta), Labels: advice.Words(c.advice.Labels), Charts: c.all()}
	return sheet.PNG(w)
}

// gallery is the section of an HTML page with the pictures of the numbers above it.
type gallery []markup.Picture

func (g gallery) write(d *markup.Document) {
	if len(g) == 0 {
		return
	}
	d.Heading(2, "Pictures")
	for _, p := range g {
		d.Picture(p)
	}
}

// draw draws the pictures of a session. Their texts are not escaped, because they are not
// markdown.
func draw(s *trace.Snapshot) (g gallery, err error) {
	s, _ = plain(s, Options{})
	for _, c := range (&charts{newAccount(s)}).all() {
		var b bytes.Buffer
		if err := c.PNG(&b); err != nil {
			return nil, err
		}
		g = append(g, markup.Picture{Title: markup.Text(c.Title), PNG: b.Bytes()})
	}
	return g, nil
}

// charts makes the charts of a session.
type charts struct{ *account }

// all returns every chart that the session has the numbers for.
func (a *charts) all() []*plot.Chart {
	if !a.measured() {
		return nil
	}
	rows := a.drawn()
	var charts []*plot.Chart
	if a.last != a.first {
		charts = append(charts, a.beforeAfter())
	}
	if a.s.Total.Samples > 0 { // a trace need not hold samples, and then its rate counts steps
		charts = append(charts, rows.Throughput())
		if a.s.EpochSamples() > 0 {
			charts = append(charts, rows.Epochs())
		}
	}
	charts = append(charts, rows.Stalls(), plot.StepTimes(a.stepTimes()), plot.Utilisation(a.s, a.mark))
	for _, c := range charts {
		c.Labels = advice.Words(a.advice.Labels)
	}
	return charts
}

// mark returns the name of a segment where it begins; it is empty where the segment
// continues an experiment.
func (a *charts) mark(g *trace.Segment) string {
	for i := range a.advice.Experiments {
		if x := &a.advice.Experiments[i]; x.Has(g.Index) {
			if g.Index == x.First {
				return x.Name()
			}
			return ""
		}
	}
	i := slices.IndexFunc(a.rows, func(r attribution.SegmentStats) bool { return r.Segment.Index == g.Index })
	return a.rows[i].Name()
}

// maxDrawn is how many segments a chart has room for.
const maxDrawn = 12

// drawn returns the segments with steady steps as the bars of charts. It names them by
// their letter or, where only num_workers differs, by num_workers. If there are too many,
// it returns the baseline, the one to keep and the newest ones.
func (a *charts) drawn() *plot.Rows {
	var list []int
	for i := range a.rows {
		if a.rows[i].Steps > 0 {
			list = append(list, i)
		}
	}
	if n := len(list); n > maxDrawn {
		newest := list[n-maxDrawn+2:]
		list = slices.DeleteFunc(list, func(i int) bool { return i != a.first && i != a.kept && i < newest[0] })
	}
	out := &plot.Rows{By: "segment"}
	workers := a.onlyWorkers(list)
	for _, i := range list {
		r := &a.rows[i]
		n, _ := strconv.Atoi(knob.ValueOf(r.Segment.Knobs, "num_workers"))
		row := plot.Row{Name: a.briefly(i), Stats: r.Breakdown, Rate: r.Stretch.Rate(), Workers: n, Epoch: a.s.Epoch(&r.Segment)}
		if workers {
			row.Name = units.Count(n)
		}
		out.Rows = append(out.Rows, row)
	}
	if workers {
		out.By, out.Axis = "num_workers", "num_workers"
		slices.SortStableFunc(out.Rows, func(x, y plot.Row) int { return cmp.Compare(x.Workers, y.Workers) })
	}
	return out
}

// onlyWorkers reports whether the segments differ in num_workers alone, and no two have
// the same number.
func (a *charts) onlyWorkers(list []int) bool {
	seen := map[string]bool{}
	for _, i := range list {
		knobs := a.rows[i].Segment.Knobs
		seen[knob.ValueOf(knobs, "num_workers")] = true
		for _, k := range advice.Chosen(a.rows[list[0]].Segment.Knobs, knobs) {
			if k.Name != "num_workers" {
				return false
			}
		}
	}
	return len(seen) > 1 && len(seen) == len(list)
}

// briefly returns a segment's name and, below it, the settings in which it differs from
// the baseline.
func (a *charts) briefly(row int) string {
	name := a.rows[row].Name()
	changed := advice.Chosen(a.rows[a.first].Segment.Knobs, a.rows[row].Segment.Knobs)
	for i, k := range changed {
		if i == 2 && len(changed) > 3 {
			return name + "\nand " + units.Count(len(changed)-i) + " more"
		}
		name += "\n" + k.Name + "=" + k.Value
	}
	return name
}

// stepTimes returns the step times of before and after, or of the only segment.
func (a *charts) stepTimes() []plot.Steps {
	steps := func(row int) plot.Steps {
		t := a.tally(row)
		return plot.Steps{Name: "segment " + a.rows[row].Name(), Times: []*trace.Distribution{&t.Plain, &t.Probed}}
	}
	if a.last == a.first {
		return []plot.Steps{steps(a.first)}
	}
	return []plot.Steps{steps(a.first), steps(a.last)}
}

// beforeAfter sets the measurements of the first page side by side; before is 100 %.
func (a *charts) beforeAfter() *plot.Chart {
	x, y := &a.rows[a.first], &a.rows[a.last]
	c := &plot.Chart{
		Name: "before-after", Title: "Before (A) and after (" + y.Name() + ")", Y: "% of before",
		Note: "After: " + a.difference(a.first, a.last) + ".",
	}
	before := plot.Bars{Name: "before (A)", Colour: plot.Grey}
	after := plot.Bars{Name: "after (" + y.Name() + ")", Colour: plot.Blue}
	add := func(name string, u, v float64, text func(float64) string) {
		if !(u > 0) || !finite(v) {
			return
		}
		c.Groups = append(c.Groups, name)
		before.Add(100, text(u))
		after.Add(100*v/u, text(v))
	}
	ns := func(v float64) string { return units.Narrow.Time(int64(math.Round(v))) }
	add("throughput", x.SamplesPerSecond, y.SamplesPerSecond, func(v float64) string { return units.Rate(v) + "/s" })
	add("epoch time", float64(a.epochOf(a.first).best()), float64(a.epochOf(a.last).best()), ns)
	add("step, median", float64(x.P50), float64(y.P50), ns)
	add("step, p95", float64(x.P95), float64(y.P95), ns)
	add("device time\na sample", perSample(x), perSample(y), ns)
	add("utilisation", x.Utilisation, y.Utilisation, units.Narrow.Percent)
	c.Bars = []plot.Bars{before, after}
	return c
}
