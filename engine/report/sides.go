package report

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// sides is the part of the first page that sets before and after side by side.
type sides struct {
	*account
	a, b  *attribution.SegmentStats // before and after
	turns *turns                    // nil where a and b did not take turns
}

func newSides(a *account) *sides {
	s := &sides{account: a, a: &a.rows[a.first], b: &a.rows[a.last]}
	s.turns = s.taken()
	return s
}

func (s *sides) write(d *markup.Document, headline, baseline string) {
	what := fmt.Sprintf("the last other one with %d steady steps or more", advice.MinSteps)
	if s.best() {
		what = "the best that was measured"
	}
	after := s.b.Name()
	d.Para("Before is segment A, %s. After is segment %s, %s: %s.", baseline, after, what, s.difference(s.first, s.last))

	changes := s.changes()
	rows := [][]string{{"measurement", ">before (A)", ">after (" + after + ")", ">change"}}
	second := s.column(s.last)
	for i, r := range s.column(s.first) {
		rows = append(rows, append(r, second[i][1], changes[i]))
	}
	excluded := s.a.Excluded + s.b.Excluded
	if s.turns != nil {
		excluded = int(s.turns.leftOut)
		rows[1+4] = s.turns.row()
	}
	rows[1] = epochRow([2]epochTime{s.epochOf(s.first), s.epochOf(s.last)}, &s.b.VsA.Throughput, s.turns)
	d.Table(rows)
	footnote(d, &s.s.Meta)
	if strings.Contains(headline+strings.Join(changes, ""), stats.DriftMark) {
		d.Sentences(
			markup.Sentence(stats.DriftMark)+": how the host drifted while no setting changed is taken out of what is marked so.",
			"All other numbers of the table are as measured.")
	}
	confidence(d, &s.b.VsA, excluded)
	if text := s.computeText(s.a, s.b, &s.b.VsA); text != "" {
		d.Para("%s.", markup.Sentence(text))
	}
}

// changes returns the last cells of the rows of column.
func (s *sides) changes() []string {
	a, b := s.a, s.b
	busy := certain(&b.VsA.Busy, perSample(a), perSample(b))
	throughput := certain(&b.VsA.Throughput, a.SamplesPerSecond, b.SamplesPerSecond)
	if s.turns != nil { // VsA compares the steps in turns, and the times of a and b are of other steps
		busy = change(perSample(a), perSample(b))
	}
	return []string{
		"-",
		points(a, b, b.Utilisation-a.Utilisation),
		points(a, b, b.DataShare-a.DataShare),
		busy,
		throughput,
		change(float64(a.P50), float64(b.P50)),
	}
}

// byTurns is the row of rates that two settings had in turns.
const byTurns = "throughput, taking turns (" + stats.Turns + ")"

// turns is what was measured where two settings took turns.
type turns struct {
	rates   [2]float64 // samples a second, before and after
	gain    *stats.Change
	samples int64 // in an epoch; 0 where that is not known
	leftOut int64 // steps
}

// row returns the row of the rates that were measured in turns. Those of the segments met different
// states of the host.
func (t *turns) row() []string {
	return []string{byTurns, units.Rate(t.rates[0]) + "/s", units.Rate(t.rates[1]) + "/s", units.Prose.Gain(t.gain.Estimate())}
}

// epochRow returns the row of two epoch times and their change. Epochs that were measured are compared as
// they are, with their starts. Where none was, both times follow from the rates, and so does their change. In
// turns one that was not measured follows from the other.
func epochRow(of [2]epochTime, c *stats.Change, t *turns) []string {
	row := []string{"epoch time", of[0].short(), of[1].short(), change(float64(of[0].best()), float64(of[1].best()))}
	before, after, inverse := of[0].measured, of[1].measured, c.Inverse()
	switch {
	case of[0].best() == 0 || of[1].best() == 0 || before > 0 && after > 0:
		return row
	case t == nil:
		if before+after == 0 {
			row[3] = certain(&inverse, float64(of[0].projected), float64(of[1].projected))
		}
		return row
	}
	gain := c.Estimate().Value
	estimate := func(ns float64) string { return epochTime{projected: int64(ns)}.estimate() }
	switch {
	case before > 0:
		row[2] = estimate(float64(before) / gain)
	case after > 0:
		row[1] = estimate(float64(after) * gain)
	default:
		for i, rate := range t.rates {
			row[1+i] = estimate(float64(t.samples) / rate * 1e9)
		}
	}
	row[3] = units.Prose.Gain(inverse.Estimate())
	return row
}

// taken returns the A/B test by which b is compared with a, or nil if their own steps
// are compared.
func (s *sides) taken() *turns {
	x, rates := inTurns(s.advice.Experiments, s.a, s.b)
	if x == nil || s.b.VsA.Pairs == 0 {
		return nil
	}
	return &turns{rates, &s.b.VsA.Throughput, s.s.EpochSamples(), x.LeftOut}
}

// inTurns returns the A/B test in which the settings of two rows took turns, and the rates that it found; nil where none did.
func inTurns(xs []attribution.Experiment, a, b *attribution.SegmentStats) (x *attribution.Experiment, rates [2]float64) {
	x, reversed := attribution.Proof(xs, a.Segment.Knobs, b.Segment.Knobs)
	if x == nil {
		return nil, rates
	}
	if rates = x.Rates(); reversed {
		rates[0], rates[1] = rates[1], rates[0]
	}
	return x, rates
}

// column returns the measurements of a row that the first page shows.
func (a *account) column(row int) [][]string {
	r := &a.rows[row]
	rows := [][]string{
		{"epoch time", a.epochOf(row).short()},
		{"device utilisation", share(r, r.Utilisation)},
		{"device waits for data", a.waits(r)},
		{"device time a sample", "-"},
		{"throughput", "-"},
		{"step time, median", "-"},
	}
	if r.Steps > 0 {
		rows[3][1] = deviceTime(r)
		rows[4][1] = rate(r)
		rows[5][1] = units.Prose.Time(int64(r.P50))
	}
	return rows
}

// footnote explains the marks of the table. The table of a trace has none, because a
// trace holds every step and nothing is estimated.
func footnote(d *markup.Document, m *trace.Meta) {
	if m.Imported != "" {
		return
	}
	d.Sentences(
		"A segment is a stretch of the run with constant settings; its numbers leave out the steps of the change itself and the run's first.",
		"~ marks an estimate: an epoch time worked out from the rate, or a change without an interval. Other epoch times were measured, with the starts of the epochs and without pauses and evaluations.")
}

// confidence says how sure the change of throughput is.
func confidence(d *markup.Document, of *stats.Comparison, excluded int) {
	c := &of.Throughput
	if c.Answer == stats.Unknown {
		text := ""
		if c.Missing.What == stats.Windows {
			text = " Steps near one another are fast or slow together; a window is as long as they are."
		}
		d.Para("**The change of throughput is not significant yet:** %s.%s", c.Missing, text)
		return
	}
	said := "Throughput " + units.Prose.Gain(c.Estimate()) + c.Mark()
	if c.Answer == stats.Same {
		said = "The same throughput, within " + units.Prose.Percent(stats.DefaultMargin)
	}
	d.Para("**%s; 95 %% confidence interval %s.** %s.", said, units.Prose.GainRange(c.Estimate()), restsOn(of, excluded))
}

// restsOn says which steps an answer rests on.
func restsOn(of *stats.Comparison, excluded int) string {
	c := &of.Throughput
	steps := fmt.Sprintf("the time per sample in steady steps that tell as much as %s and %s independent ones",
		units.Count(int(c.Samples[0])), units.Count(int(c.Samples[1])))
	if by := of.ByTurns(); by != "" {
		steps = by + ", in which both met the same host"
	}
	text := fmt.Sprintf("It rests on %s; %s left out as transition or warm-up. It holds however often one looked",
		steps, units.Counted(excluded, "step", "steps"))
	if drift := c.LessDrift(); drift != "" {
		text += ". " + markup.Sentence(drift)
	}
	return text
}
