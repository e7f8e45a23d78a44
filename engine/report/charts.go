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
	s, o = plain(s, o)
	m := &markdown{account: newAccount(s), o: o}
	return m.sheet().PNG(w)
}

func (m *markdown) sheet() *plot.Sheet {
	return &plot.Sheet{Title: setup(&m.s.Meta), Labels: advice.Words(m.advice.Labels), Charts: m.account.charts()}
}

// charts puts the pictures into the page, after the numbers that they show.
func (m *markdown) charts() error {
	if m.first < 0 || m.s.Total.Steps == 0 {
		return nil
	}
	s, _ := plain(m.unescaped, Options{})
	m.heading(2, "Pictures")
	for _, c := range newAccount(s).charts() {
		var b bytes.Buffer
		if err := c.PNG(&b); err != nil {
			return err
		}
		m.doc.Picture(markup.Picture{Title: markup.Text(c.Title), PNG: b.Bytes()})
	}
	return nil
}

// charts are the pictures of a session.
func (a *account) charts() []*plot.Chart {
	if a.first < 0 || a.s.Total.Steps == 0 {
		return nil
	}
	rows, by, axis := a.drawn()
	var charts []*plot.Chart
	if a.s.Total.Samples > 0 { // in a trace nobody may have counted them, and the rate is of steps
		charts = append(charts, plot.Throughput(rows, "Throughput by "+by, axis))
		if a.s.Meta.Samples > 0 {
			charts = append(charts, plot.Epochs(rows, "What an epoch takes, by "+by, axis))
		}
	}
	charts = append(charts, plot.Stalls(rows, "Where the time went, by "+by, axis), plot.StepTimes(a.stepTimes()), plot.Utilisation(a.s, a.mark))
	if a.last != a.first {
		charts = append([]*plot.Chart{a.beforeAfter()}, charts...)
	}
	for _, c := range charts {
		c.Labels = advice.Words(a.advice.Labels)
	}
	return charts
}

// mark is what a segment is called where it begins; empty for one that goes on with an
// experiment.
func (a *account) mark(g *trace.Segment) string {
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

// drawn are the segments with steady steps as rows of charts, by their number or, where
// nothing but num_workers differs, by that. Of too many the baseline, the one to keep
// and the newest are drawn.
func (a *account) drawn() (rows []plot.Row, by, axis string) {
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
	workers := a.onlyWorkers(list)
	for _, i := range list {
		r := &a.rows[i]
		n, _ := strconv.Atoi(knob.ValueOf(r.Segment.Knobs, "num_workers"))
		row := plot.Row{Name: a.briefly(i), Stats: r.Breakdown, Rate: r.Stretch.Rate(), Workers: n, Epoch: a.s.Meta.Samples}
		if workers {
			row.Name = units.Count(n)
		}
		rows = append(rows, row)
	}
	if !workers {
		return rows, "segment", ""
	}
	slices.SortStableFunc(rows, func(x, y plot.Row) int { return cmp.Compare(x.Workers, y.Workers) })
	return rows, "num_workers", "num_workers"
}

// onlyWorkers reports whether the segments have different num_workers, each its own, and
// are else alike.
func (a *account) onlyWorkers(list []int) bool {
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

// briefly is a segment's name and, below it, what is not as in the baseline.
func (a *account) briefly(row int) string {
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

// stepTimes are those of before and after, or of the only segment.
func (a *account) stepTimes() []plot.Steps {
	steps := func(row int) plot.Steps {
		t := a.tally(row)
		return plot.Steps{Name: "segment " + a.rows[row].Name(), Times: []*trace.Distribution{&t.Plain, &t.Probed}}
	}
	if a.last == a.first {
		return []plot.Steps{steps(a.first)}
	}
	return []plot.Steps{steps(a.first), steps(a.last)}
}

// beforeAfter sets the measurements of the front page side by side, before being 100 %.
func (a *account) beforeAfter() *plot.Chart {
	x, y := &a.rows[a.first], &a.rows[a.last]
	c := &plot.Chart{Name: "before-after", Title: "Before (A) and after (" + y.Name() + ")", Y: "% of before", Note: "After: " + a.difference(a.first, a.last) + "."}
	before := plot.Bars{Name: "before (A)", Colour: plot.Grey}
	after := plot.Bars{Name: "after (" + y.Name() + ")", Colour: plot.Blue}
	add := func(name string, u, v float64, text func(float64) string) {
		if !(u > 0) || !finite(v) {
			return
		}
		c.Groups = append(c.Groups, name)
		before.Values, before.Texts = append(before.Values, 100), append(before.Texts, text(u))
		after.Values, after.Texts = append(after.Values, 100*v/u), append(after.Texts, text(v))
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
