package sweep

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
)

// Comparison compares the configurations of two sweeps.
type Comparison struct {
	Sides [2]*Results
	Names [2]string   // of the sweeps
	Pairs []Pair      // the configurations that both have measured
	Only  [2][]string // the names of those that one side alone has measured
}

// Pair is one configuration in both sweeps.
type Pair struct {
	Name string
	stats.Comparison
	A, B *Result
}

// Compare relates the configurations of b to those of a that have the same settings.
func Compare(a, b *Results, nameA, nameB string) (*Comparison, error) {
	c := &Comparison{Sides: [2]*Results{a, b}, Names: [2]string{nameA, nameB}}
	for i := range a.Rows {
		if !a.Rows[i].Measured() {
			continue
		}
		j := slices.IndexFunc(b.Rows, func(r Result) bool { return r.Measured() && sameSettings(r.Settings, a.Rows[i].Settings) })
		if j < 0 {
			c.Only[0] = append(c.Only[0], a.Rows[i].Name)
			continue
		}
		across := stats.Across(a.runs, b.runs, i, j, stats.DefaultMargin)
		c.Pairs = append(c.Pairs, Pair{a.Rows[i].Name, across, &a.Rows[i], &b.Rows[j]})
	}
	for j := range b.Rows {
		if b.Rows[j].Measured() && !slices.ContainsFunc(c.Pairs, func(p Pair) bool { return p.B == &b.Rows[j] }) {
			c.Only[1] = append(c.Only[1], b.Rows[j].Name)
		}
	}
	if len(c.Pairs) == 0 {
		return nil, errs.New("compare", nameB, "no configuration of it was measured in "+nameA+" too", "name two sweeps over the same settings")
	}
	return c, nil
}

// sameSettings reports whether two lists set the same, in whatever order.
func sameSettings(a, b []knob.Setting) bool {
	sorted := func(k []knob.Setting) []knob.Setting {
		return slices.SortedFunc(slices.Values(k), func(x, y knob.Setting) int { return cmp.Compare(x.Name, y.Name) })
	}
	return slices.Equal(sorted(a), sorted(b))
}

// Headline returns the answer in a sentence.
func (c *Comparison) Headline() string {
	n := map[string]int{}
	for i := range c.Pairs {
		n[verdict(&c.Pairs[i].Throughput)]++
	}
	return fmt.Sprintf("of %s, B is faster in %d, slower in %d and the same within %s in %d; in %d it is not significant yet",
		units.Counted(len(c.Pairs), "configuration", "configurations"), n["faster"], n["slower"], units.Prose.Percent(stats.DefaultMargin), n["same"], n["unknown"])
}

// verdict returns a change of throughput in a word.
func verdict(t *stats.Change) string {
	switch {
	case t.Answer == stats.Same:
		return "same"
	case t.Answer == stats.Unknown:
		return "unknown"
	case t.Ratio > 1:
		return "faster"
	}
	return "slower"
}

// Markdown writes the comparison down.
func (c *Comparison) Markdown(w io.Writer) error {
	d := &markup.Document{}
	d.Heading(1, "gpustall compare")
	d.Para("**%s.**", Text(c.Headline()))
	for i, s := range c.Sides {
		d.Line("- %c is the sweep in %s%s: %s.", 'A'+i, Text(c.Names[i]), Text(advice.Brackets(s.Labels())), Text(s.subject()))
	}
	d.Line("")
	rows := [][]string{{"configuration", ">A, samples/s", ">B, samples/s", ">change", ">95 % interval", "B is"}}
	for i := range c.Pairs {
		p := &c.Pairs[i]
		t := &p.Throughput
		change, reach := units.Prose.Gain(units.Rough(t.Ratio)), "-"
		if t.Tells() {
			change, reach = units.Prose.Gain(t.Estimate()), units.Prose.GainRange(t.Estimate())
		}
		word := verdict(t)
		if word == "unknown" {
			word = "not significant yet"
		}
		rows = append(rows, []string{Text(p.Name), units.Rate(p.A.Rate.Value), units.Rate(p.B.Rate.Value), change, reach, word})
	}
	d.Table(rows)
	for i, only := range c.Only {
		for _, name := range only {
			d.Line("- %s was measured in %c alone.", Text(name), 'A'+i)
		}
	}
	for i, s := range c.Sides {
		d.Line("- %c: %s.", 'A'+i, Text(s.Headline()))
	}
	d.Line("")
	c.differences(d)
	return d.Markdown(w)
}

// differences lists what the two sweeps do not have in common.
func (c *Comparison) differences(d *markup.Document) {
	d.Heading(2, "What else differs")
	rows := [][]string{{"name", "A", "B"}}
	add := func(name, a, b string) {
		if a != b {
			rows = append(rows, []string{Text(name), Text(cmp.Or(a, "-")), Text(cmp.Or(b, "-"))})
		}
	}
	a, b := c.Pairs[0].A.First(), c.Pairs[0].B.First()
	add("settings of all", title(c.Sides[0].Plan.Base), title(c.Sides[1].Plan.Base))
	add("length of a run", c.Sides[0].Plan.extent(), c.Sides[1].Plan.extent())
	add("runs of each", units.Count(c.Sides[0].Plan.Repeat), units.Count(c.Sides[1].Plan.Repeat))
	add("device", a.Meta.Device, b.Meta.Device)
	add("model", a.Meta.Model, b.Meta.Model)
	add("data set", a.Meta.Dataset, b.Meta.Dataset)
	add("gpustall", a.Meta.Version, b.Meta.Version)
	for _, k := range a.Meta.Host {
		add(k.Name, k.Value, knob.ValueOf(b.Meta.Host, k.Name))
	}
	if len(rows) == 1 {
		d.Para("Nothing that is known.")
		return
	}
	d.Table(rows)
}
