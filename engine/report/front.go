package report

import (
	"fmt"
	"math"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
)

// title is the headline: the best configuration that was measured, or what there is
// to say when nothing was.
func (m *markdown) title() {
	m.heading(1, "gpustall report: "+setup(&m.s.Meta))
	m.para("**%s.**", sentence(m.headline()))
	if words := advice.Words(m.advice.Labels); words != "" {
		m.para("Note: %s. See the caveats.", words)
	}
}

func (m *markdown) headline() string {
	switch {
	case m.first < 0 || m.s.Total.Steps == 0:
		return "no training step was finished, so there is nothing to account for"
	case m.advice.Keep.Text != "":
		return m.advice.Keep.Text
	case m.advice.Verdict.Class == advice.NotEnoughSteps:
		return "too few steps for a verdict; run it longer"
	}
	if m.s.Meta.Imported != "" {
		return m.advice.Verdict.Text
	}
	headline := "nothing was changed; the run is " + m.advice.Verdict.Class
	if of := m.advice.Verdict.Epochs; of != "" {
		headline += " in " + of
	}
	return headline
}

// sides sets before and after side by side.
func (m *markdown) sides() {
	if m.first < 0 || m.s.Total.Steps == 0 {
		return
	}
	a := &m.rows[m.first]
	if m.last == m.first {
		more := ""
		if len(m.rows) > 1 && m.first == 0 {
			more = fmt.Sprintf("; no other settings ran for %d steady steps", advice.MinSteps)
		}
		m.para("Segment A is %s%s.", m.baseline(), more)
		m.table(append([][]string{{"measurement", ">A"}}, m.column(m.first)...))
		if of := m.advice.Verdict.Epochs; of != "" {
			m.para("These numbers are of all epochs; verdict and advice are on %s.", of)
		}
		m.footnote()
		return
	}
	b := &m.rows[m.last]
	what := fmt.Sprintf("the last with %d steady steps or more", advice.MinSteps)
	if m.best() {
		what = "the best that was measured"
	}
	m.para("Before is segment A, %s. After is segment %s, %s: %s.", m.baseline(), m.rows[m.last].Name(), what, m.difference(m.first, m.last))
	rows := [][]string{{"measurement", ">before (A)", ">after (" + m.rows[m.last].Name() + ")", ">change"}}
	after := m.column(m.last)
	for i, r := range m.column(m.first) {
		rows = append(rows, append(r, after[i][1], ""))
	}
	ea, eb := m.epochOf(m.first), m.epochOf(m.last)
	busy, throughput, epoch := certain(&b.VsA.Busy, perSample(a), perSample(b)), certain(&b.VsA.Throughput, a.SamplesPerSecond, b.SamplesPerSecond), change(float64(ea.best()), float64(eb.best()))
	turns, excluded := m.turns(a, b), a.Excluded+b.Excluded
	if turns != nil { // the certain change is of what it measured
		busy, throughput = change(perSample(a), perSample(b)), change(a.SamplesPerSecond, b.SamplesPerSecond)
	} else if ea.measured == 0 || eb.measured == 0 { // it is worked out from the rate, and so is its change
		inverse := b.VsA.Throughput.Inverse()
		epoch = certain(&inverse, float64(ea.best()), float64(eb.best()))
	}
	for i, text := range []string{
		epoch, points(a, b, b.Utilisation-a.Utilisation), points(a, b, b.DataShare-a.DataShare),
		busy, throughput, change(float64(a.P50), float64(b.P50)),
	} {
		rows[i+1][3] = text
	}
	if turns != nil {
		rows, excluded = append(rows, turns.row), int(turns.leftOut)
	}
	m.table(rows)
	m.footnote()
	if strings.Contains(m.headline()+busy+throughput+epoch, stats.DriftMark) {
		m.para("%s: how the host drifted while no setting changed is taken out of what is marked so. All other numbers of the table are as measured.", sentence(stats.DriftMark))
	}
	m.confidence(&b.VsA, excluded)
	if text := m.computeText(a, b, &b.VsA); text != "" {
		m.para("%s.", sentence(text))
	}
}

// turns is what was measured where two settings took turns.
type turns struct {
	row     []string // of the table of before and after
	leftOut int64    // steps
}

// turns is the experiment by which b is compared with a; nil where their own steps are.
func (m *markdown) turns(a, b *attribution.SegmentStats) *turns {
	x, reversed := attribution.Proof(m.advice.Experiments, a.Segment.Knobs, b.Segment.Knobs)
	if x == nil || b.VsA.Pairs == 0 {
		return nil
	}
	before, after := &x.Sides[0], &x.Sides[1]
	if reversed {
		before, after = after, before
	}
	side := func(s *attribution.Side) string { return units.Rate(s.SamplesPerSecond()) + "/s" }
	return &turns{[]string{"throughput, taking turns (" + stats.Turns + ")", side(before), side(after), units.Prose.Gain(b.VsA.Throughput.Estimate())}, x.LeftOut}
}

// baseline says which segment A is.
func (m *markdown) baseline() string {
	if m.first > 0 {
		return fmt.Sprintf("the baseline that was chosen, segment #%d by its number", m.rows[m.first].Segment.Index)
	}
	if m.s.Meta.Imported != "" {
		return "the trace, whose settings are not recorded"
	}
	return "the baseline, with the settings that the run started with"
}

// column is what the front page says of a row.
func (m *markdown) column(row int) [][]string {
	r := &m.rows[row]
	rows := [][]string{
		{"epoch time", m.epochOf(row).short()},
		{"device utilisation", share(r, r.Utilisation)},
		{"device waits for data", share(r, r.DataShare)},
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

// footnote explains the marks of the table.
func (m *markdown) footnote() {
	if m.s.Meta.Imported != "" { // all steps that the trace holds, nothing estimated
		return
	}
	m.para("A segment is a stretch of the run with constant settings; its numbers leave out the steps of the change itself and the run's first. ~ marks an estimate: an epoch time worked out from the rate, or a change without an interval.")
}

// perSample is how long the device computes for a sample, in ns.
func perSample(r *attribution.SegmentStats) float64 {
	if r.Breakdown.Samples == 0 {
		return 0
	}
	return float64(r.Breakdown.Busy) / float64(r.Breakdown.Samples)
}

func points(a, b *attribution.SegmentStats, difference float64) string {
	if a.Steps == 0 || b.Steps == 0 {
		return "-"
	}
	return units.Points(difference)
}

// The changes of the device's own time that are worth a word: one that is certain, and
// one that may be chance.
const (
	slowed      = 0.05
	perhapsSlow = 0.15
)

// computeText says that the device's own time for a sample changed between two rows,
// which no waiting explains; empty when it did not, as far as can be told.
func (m *markdown) computeText(a, b *attribution.SegmentStats, c *stats.Comparison) string {
	x, y := perSample(a), perSample(b)
	certain := c.Busy.Answer == stats.Different && c.Pairs == 0 // else it is of other steps
	least := slowed
	if !certain {
		least = perhapsSlow
	}
	if x == 0 || y == 0 || math.Abs(y/x-1) < least || c.Busy.Answer == stats.Same {
		return ""
	}
	is, way, size := "seems", "slower", change(x, y)+", which may be chance"
	if y < x {
		way = "faster"
	}
	if certain {
		is, size = "was", units.Prose.Gain(c.Busy.Estimate())
	}
	cores := advice.SlowedMore(m.s, m.s.Tally(a.Segment.Index), m.s.Tally(b.Segment.Index))
	device := "the device itself"
	if cores != "" { // it is not the only one to answer for its time
		device = "the device"
	}
	text := fmt.Sprintf("%s %s %s: it computed %s for a sample where it had computed %s (%s); that is no waiting, so utilisation does not show it",
		device, is, way, units.Prose.Time(int64(math.Round(y))), units.Prose.Time(int64(math.Round(x))), size)
	changed := advice.Changed(a.Segment.Knobs, b.Segment.Knobs)
	switch {
	case has(changed, "batch_size"):
		text += "; the batch size changed, and with it the work of a launch"
	case m.s.Meta.DeviceKind == "cpu" && has(changed, "num_workers"):
		text += "; on the cpu device the workers and the training share the host's cores"
	}
	if cores != "" {
		text += "; " + cores
	}
	return text
}

// confidence says how sure the change of the epoch time is.
func (m *markdown) confidence(of *stats.Comparison, excluded int) {
	c := &of.Throughput
	if c.Answer == stats.Unknown {
		text := ""
		if c.Missing.What == stats.Windows {
			text = " Steps near one another are fast or slow together; a window is as long as they are."
		}
		m.para("**Whether epochs became shorter is not known yet:** %s.%s", c.Missing, text)
		return
	}
	rests := fmt.Sprintf("the time per sample in steady steps that tell as much as %s and %s independent ones", units.Count(int(c.Samples[0])), units.Count(int(c.Samples[1])))
	if by := of.ByTurns(); by != "" {
		rests = by + ", in which both met the same host"
	}
	rests = fmt.Sprintf("It rests on %s; %s left out as transition or warm-up. It holds however often one looked", rests, units.Counted(excluded, "step", "steps"))
	if text := c.LessDrift(); text != "" {
		rests += ". The rates: " + text
	}
	less := reduction(c)
	if c.Answer == stats.Same {
		m.para("**The same epoch time, within %s:** the 95 %% confidence interval of the reduction is %s. %s.",
			units.Prose.Percent(stats.DefaultMargin), units.Prose.PercentRange(less), rests)
		return
	}
	word := "Reduction"
	if less.Value < 0 {
		word, less = "Increase", increase(less)
	}
	m.para("**%s of epoch time: %s, 95 %% confidence interval %s.** %s.", word, units.Prose.PercentOf(less), units.Prose.PercentRange(less), rests)
}

// pictures are the timelines of before and after.
func (m *markdown) pictures() {
	if m.first < 0 || m.s.Total.Steps == 0 {
		return
	}
	m.heading(2, "The timeline")
	drawn := &shown{glyphs: map[byte]bool{}}
	if m.last == m.first {
		m.timeline(m.first, drawn)
	} else {
		m.heading(3, "Before: segment A")
		m.timeline(m.first, drawn)
		m.heading(3, "After: segment "+m.rows[m.last].Name())
		m.timeline(m.last, drawn)
	}
	if text := drawn.legend(); text != "" {
		m.para("%s. A column shows what took longest in it, however short; the percentage at the end counts all but waiting for work.", text)
	}
}

// difference names the knobs in which two rows differ.
func (a *account) difference(from, to int) string {
	d := advice.Changed(a.rows[from].Segment.Knobs, a.rows[to].Segment.Knobs)
	if len(d) == 0 {
		return "the same knobs"
	}
	words := make([]string, len(d))
	for i, k := range d {
		words[i] = k.Name + "=" + k.Value
	}
	return strings.Join(words, ", ")
}

// change is that of a quantity whose interval is not known.
func change(a, b float64) string {
	if a <= 0 || b <= 0 {
		return "-"
	}
	return units.Prose.Gain(units.Rough(b / a))
}

// certain is a change with the digits that its interval allows, where that is known, and
// the mark of one from which a drift was taken out.
func certain(c *stats.Change, a, b float64) string {
	if c.Answer == stats.Unknown {
		return change(a, b)
	}
	return units.Prose.Gain(c.Estimate()) + c.Mark()
}

// sentence begins with a capital, unless a knob's name does.
func sentence(s string) string {
	if word, _, _ := strings.Cut(s, " "); s == "" || strings.ContainsAny(word, "_=") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
