package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
)

// fewTimed is the number of timed steps of a segment below which a ratio of its means
// may be chance.
const fewTimed = 30

// opChanges sets the ops of two segments side by side.
type opChanges struct {
	a, b  opTable
	least int // the smaller number of timed steps of the two
}

func newOpChanges(a, b opTable) *opChanges { return &opChanges{a, b, min(a.Timed, b.Timed)} }

func (c *opChanges) write(d *markup.Document) {
	a, b := c.a.name, c.b.name
	d.Heading(3, fmt.Sprintf("By operation: segment %s against %s", b, a))
	before := c.a.Segment.Knobs
	var words []string
	for _, k := range advice.Changed(before, c.b.Segment.Knobs) {
		words = append(words, k.Name+" "+cmp.Or(knob.ValueOf(before, k.Name), "-")+" -> "+k.Value)
	}
	text := []string{
		cmp.Or(strings.Join(words, ", "), "The same knobs") + ".",
		fmt.Sprintf("Steps timed: %d and %d.", c.a.Timed, c.b.Timed),
		fmt.Sprintf("The ratio is %s's device time for a sample over %s's: under 1 is faster.", b, a),
	}
	switch {
	case c.least < 2:
		text = append(text, "One step says nothing of chance: there is no ratio.")
	case c.least < fewTimed:
		text = append(text, "Where it has a ?, the times of the two overlap (least to most), and it may be chance.")
	}
	d.Sentences(text...)
	d.Table(c.byKind())
	d.Table(c.byOp())
}

// byKind returns the table of the sums over ops of the same name.
func (c *opChanges) byKind() [][]string {
	all := attribution.OpChange{A: c.a.StepOps(), B: c.b.StepOps()}
	rows := [][]string{
		append([]string{"op"}, c.heads()...),
		{"all ops", units.Prose.Time(int64(all.A)), units.Prose.Time(int64(all.B)), c.ratio(&all)},
	}
	for _, o := range c.largest(attribution.ByKind) {
		rows = append(rows, []string{o.Name, positive(o.A), positive(o.B), c.ratio(&o)})
	}
	return rows
}

// byOp returns the table of single ops.
func (c *opChanges) byOp() [][]string {
	rows := [][]string{slices.Concat([]string{"op", "layer"}, c.heads(), []string{"kernel"})}
	for _, o := range c.largest(attribution.ByOp) {
		kernel := o.VariantB
		if o.VariantA != o.VariantB {
			kernel = cmp.Or(o.VariantA, "-") + " -> " + cmp.Or(o.VariantB, "-")
		}
		ratio := c.ratio(&o)
		if c.least < fewTimed && ratio != "-" && overlap(&o, c.a.OpTable, c.b.OpTable) {
			ratio += " ?"
		}
		rows = append(rows, []string{o.Name, cmp.Or(o.Layer, "-"), positive(o.A), positive(o.B), ratio, cmp.Or(kernel, "-")})
	}
	return rows
}

// heads returns the heads of the columns of times and of their ratio.
func (c *opChanges) heads() []string {
	return []string{">" + c.a.name + ", per step", ">" + c.b.name + ", per step", ">ratio"}
}

// largest returns the ops, or groups of them, that take longest on either side.
func (c *opChanges) largest(by attribution.OpGroup) []attribution.OpChange {
	changes := attribution.CompareOps(c.a.OpTable, c.b.OpTable, by)
	slices.SortStableFunc(changes, func(x, y attribution.OpChange) int {
		return cmp.Compare(max(y.A, y.B), max(x.A, x.B))
	})
	return changes[:min(opsShown, len(changes))]
}

func (c *opChanges) ratio(o *attribution.OpChange) string {
	if c.least < 2 {
		return "-"
	}
	return units.Prose.Ratio(units.Rough(o.Ratio(c.a.OpTable, c.b.OpTable)))
}

// overlap reports whether an op's shortest and longest times for a sample are
// compatible with no change between the segments. It returns false if those times were
// not kept.
func overlap(c *attribution.OpChange, a, b *attribution.OpTable) bool {
	reach := func(t *attribution.OpTable) (least, most float64) {
		for i := range t.Rows {
			if o := &t.Rows[i]; o.Name == c.Name && o.Layer == c.Layer && o.Phase == c.Phase {
				least, most = least+float64(o.Min), most+float64(o.Max)
			}
		}
		return least / t.Samples, most / t.Samples
	}
	leastA, mostA := reach(a)
	leastB, mostB := reach(b)
	return mostA > 0 && mostB > 0 && leastA <= mostB && leastB <= mostA
}
