package report

import (
	"cmp"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// segments is the appendix that lists all segments: what they measured, how they compare
// with the baseline, and the memory of the device.
type segments struct{ *account }

func (g *segments) write(d *markup.Document) {
	d.Heading(2, "Appendix C: all segments")
	if len(g.rows) == 0 {
		d.Para("No segment was recorded.")
		return
	}
	rows := [][]string{{"segment", "change", ">steps", ">samples/s", ">step p50", ">p95", ">util.", ">data"}}
	versus := [][]string{{"segment", ">throughput against A (95 % interval)", ">device", ">left out", ">cost", "note"}}
	for i := range g.rows {
		r := &g.rows[i]
		speed, p50, p95, compute := "-", "-", "-", "-"
		if r.Steps > 0 {
			speed = strings.TrimSuffix(rate(r), "/s")
			p50, p95 = units.Prose.Time(int64(r.P50)), units.Prose.Time(int64(r.P95))
			compute = deviceTime(r)
		}
		rows = append(rows, []string{r.Name(), cmp.Or(r.Segment.Reason, "-"), units.Count(r.Steps),
			speed, p50, p95, share(r, r.Utilisation), g.waits(r)})
		gain := "baseline"
		if i != g.first {
			switch c := &r.VsA.Throughput; {
			case c.Answer != stats.Unknown:
				gain = c.String()
			case c.Missing.What == stats.Nothing: // A has no steps
				gain = "-"
			default:
				gain = "not yet: " + c.Missing.String()
			}
		}
		versus = append(versus, []string{r.Name(), gain, compute,
			units.Count(r.Excluded), units.Prose.Time(r.Segment.Transition), g.note(i)})
	}
	d.Table(rows)
	d.Table(versus)
	d.Sentences(
		"Left out are the steps from a change until the queue was full again, and the first of the run;",
		"cost is the time that the device was idle in them.",
		"Device is its own time for a sample.")
	g.memory(d)
}

// note returns the labels of a row that are not labels of the whole run, and whether an A/B test tells its change.
func (g *segments) note(row int) string {
	t := g.tally(row)
	if t.All.Steps == 0 {
		return ""
	}
	words := advice.Words(slices.DeleteFunc(advice.Labels(g.s, t), func(l advice.Label) bool { return l.Scope == advice.OfRun }))
	if g.rows[row].VsA.Pairs > 0 {
		words = strings.TrimSuffix(advice.Tested+"; "+words, "; ")
	}
	return words
}

// memory writes the device memory of each segment.
func (g *segments) memory(d *markup.Document) {
	rows := [][]string{{"segment", "change", ">memory held", ">memory planned"}}
	for i := range g.s.Segments {
		s := &g.s.Segments[i]
		if trace.ExperimentOf(g.s.Experiments, s.Index) != nil {
			continue
		}
		held := g.s.HeldBytes(s)
		if held == 0 {
			continue
		}
		planned := "-"
		if p := g.s.PlannedBytes(s.Start); p > 0 {
			planned = units.Prose.Bytes(p)
		}
		rows = append(rows, []string{g.segmentName(s.Index), cmp.Or(s.Reason, "-"), units.Prose.Bytes(held), planned})
	}
	peak := g.s.PeakBytes()
	if len(rows) == 1 && peak == 0 {
		return
	}
	d.Heading(3, "Device memory")
	if peak > 0 {
		d.Para("Peak over the whole run: %s.", units.Prose.Bytes(peak))
	}
	if len(rows) > 1 {
		d.Table(rows)
		d.Sentences(
			"Held is the most that was allocated under these settings,",
			"planned the most that the run had planned for until then, before it allocated any.")
	}
}
