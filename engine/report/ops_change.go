package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
)

// opChanges sets the two segments side by side.
func (m *markdown) opChanges(a, b *attribution.OpTable) {
	na, nb := m.segmentName(a.Segment.Index), m.segmentName(b.Segment.Index)
	m.heading(3, fmt.Sprintf("By operation: segment %s against %s", nb, na))
	var words []string
	for _, k := range advice.Changed(a.Segment.Knobs, b.Segment.Knobs) {
		words = append(words, k.Name+" "+or(knob.ValueOf(a.Segment.Knobs, k.Name), "-")+" -> "+k.Value)
	}
	least := min(a.Timed, b.Timed)
	few := least < fewTimed
	ratio := func(c *attribution.OpChange) string {
		if least < 2 {
			return "-"
		}
		return units.Prose.Ratio(units.Rough(c.Ratio(a, b)))
	}
	note := ""
	switch {
	case least < 2:
		note = " One step says nothing of chance: there is no ratio."
	case few:
		note = " Where it has a ?, the times of the two overlap (least to most), and it may be chance."
	}
	m.para("%s. Steps timed: %d and %d. The ratio is %s's device time for a sample over %s's: under 1 is faster.%s", or(strings.Join(words, ", "), "The same knobs"), a.Timed, b.Timed, nb, na, note)
	head := []string{"op", "layer", ">" + na + ", per step", ">" + nb + ", per step", ">ratio", "kernel"}
	for _, by := range []attribution.OpGroup{attribution.ByKind, attribution.ByOp} {
		changes := attribution.CompareOps(a, b, by)
		slices.SortStableFunc(changes, func(x, y attribution.OpChange) int {
			return cmp.Compare(max(y.A, y.B), max(x.A, x.B))
		})
		rows := [][]string{slices.Clone(head)}
		if by == attribution.ByKind {
			rows[0] = []string{"op", head[2], head[3], head[4]}
			all := attribution.OpChange{A: a.StepOps(), B: b.StepOps()}
			rows = append(rows, []string{"all ops", units.Prose.Time(int64(all.A)), units.Prose.Time(int64(all.B)), ratio(&all)})
		}
		for i := range changes[:min(opsShown, len(changes))] {
			c := &changes[i]
			if by == attribution.ByKind {
				rows = append(rows, []string{c.Name, span(c.A), span(c.B), ratio(c)})
				continue
			}
			kernel := c.VariantB
			if c.VariantA != c.VariantB {
				kernel = or(c.VariantA, "-") + " -> " + or(c.VariantB, "-")
			}
			r := ratio(c)
			if few && r != "-" && overlap(c, a, b) {
				r += " ?"
			}
			rows = append(rows, []string{c.Name, or(c.Layer, "-"), span(c.A), span(c.B), r, or(kernel, "-")})
		}
		m.table(rows)
	}
}

// overlap tells whether the least and most times of an op, for a sample, leave
// room for the two segments to be alike.
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
	return mostA > 0 && mostB > 0 && leastA <= mostB && leastB <= mostA // 0: of before they were kept
}

// span is a time that may be missing.
func span(ns float64) string {
	if ns <= 0 {
		return "-"
	}
	return units.Prose.Time(int64(math.Round(ns)))
}
